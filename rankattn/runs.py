"""What one training job is: a target, an architecture, a training recipe and its seeds."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from rankattn.architecture import Architecture

PROTOCOLS = ("published", "corrected")


@dataclass(frozen=True)
class Training:
    """Training recipe (paper, section 6). Data are fresh at every step; an epoch is only a unit of time."""

    epochs: int
    steps_per_epoch: int
    batch_size: int  # sequences per step
    learning_rate: float  # peak
    warmup: float  # share of epochs
    final_rate: float  # last rate as a share of the peak
    beta1: float
    beta2: float
    epsilon: float
    protocol: str
    test_sequences: int  # held-out sequences of the final error
    memory_gib: float  # a step is split into equal parts of the batch to stay below this

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol = {self.protocol!r}: use one of {', '.join(PROTOCOLS)}")

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch


@dataclass(frozen=True)
class Run:
    """One configuration with all its seeds, trained together as replicas."""

    target: str
    architecture: Architecture
    training: Training
    seeds: tuple[int, ...]

    def resolved(self) -> dict[str, Any]:
        """Every value that determines the result, as plain nested dicts (JSON)."""
        return {
            "target": self.target,
            "model": asdict(self.architecture),
            "training": asdict(self.training),
            "seeds": list(self.seeds),
        }

    def key(self) -> str:
        """Canonical text of :meth:`resolved`: equal runs have equal keys."""
        return json.dumps(self.resolved(), sort_keys=True)

    @classmethod
    def from_resolved(cls, values: dict[str, Any]) -> "Run":
        """Inverse of :meth:`resolved`. Raises ValueError naming keys that are missing or unknown."""
        sections = {"model": Architecture, "training": Training}
        for section, kind in sections.items():
            wrong = {field.name for field in fields(kind)} ^ set(values.get(section, {}))
            if wrong:
                raise ValueError(f"{section}: missing or unknown key {', '.join(sorted(wrong))}")
        return cls(
            target=values["target"],
            architecture=Architecture(**values["model"]),
            training=Training(**values["training"]),
            seeds=tuple(values["seeds"]),
        )


@dataclass(frozen=True)
class Member:
    """One run as a member of an experiment; ``path`` is <owner experiment>/<run id>."""

    path: str
    run: Run
