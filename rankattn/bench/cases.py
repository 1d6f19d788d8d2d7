"""What is timed: every shape of `laptop`, a spread of `paper` at full size, and one size at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rankattn.config import load
from rankattn.grid import expand
from rankattn.runs import Run

# (heads, width, layers) of the paper's cells that are timed: the corners and the middle of its grid.
PAPER_CELLS = [(h, w, 1) for w in (1, 8, 64) for h in (1, 8, 64)] + [(1, 8, 3), (64, 8, 3)]
# One value at a time is changed from d = 64, N = 16, 8 modules of 8 heads, 1 layer, 1 replica, batch 64.
SCALES = {
    "heads": [8, 16, 32, 64, 128, 256],
    "points": [4, 8, 16, 32, 64],
    "dim": [16, 32, 64, 128],
    "layers": [1, 2, 4, 8],
    "replicas": [1, 2, 4, 8],
}


@dataclass(frozen=True)
class Case:
    """One configuration to time. ``group`` is laptop, paper or scaling; ``axis`` and ``value`` what is scaled."""

    group: str
    run: Run
    against_reference: bool = True
    axis: str = ""
    value: int = 0

    @property
    def name(self) -> str:
        arch = self.run.architecture
        name = f"d{arch.dim} N{arch.points} layers{arch.layers} heads{arch.heads} width{arch.width}"
        name += f" {arch.positional_encoding}" if arch.positional_encoding != "none" else ""
        return name + (f" seeds{len(self.run.seeds)}" if len(self.run.seeds) > 1 else "")


def laptop_cases() -> Iterator[Case]:
    """Every shape of the preset, once."""
    seen = set()
    for run in expand(load("laptop")).runs.values():
        shape = (run.architecture, run.training.batch_size, len(run.seeds))
        if shape not in seen:
            seen.add(shape)
            yield Case("laptop", run)


def _paper_run() -> Run:
    return max(expand(load("paper")).runs.values(), key=lambda run: run.training.batch_size)


def paper_cases(seeds: int) -> Iterator[Case]:
    """Cells of figure "rank and depth" at full size, with that many seeds together."""
    base = _paper_run()
    for heads, width, layers in PAPER_CELLS:
        arch = replace(base.architecture, heads=heads, width=width, layers=layers)
        yield Case("paper", replace(base, architecture=arch, seeds=tuple(range(seeds))))


def scaling_cases() -> Iterator[Case]:
    """One size at a time, without the reference."""
    base = _paper_run()
    arch = replace(base.architecture, heads=8, width=8, layers=1)
    base = replace(base, architecture=arch, seeds=(0,), training=replace(base.training, batch_size=64))
    for axis, values in SCALES.items():
        for value in values:
            if axis == "replicas":
                run = replace(base, seeds=tuple(range(value)))
            elif axis == "heads":
                run = replace(base, architecture=replace(arch, width=value // 8))
            elif axis == "dim":  # heads of rank 8
                run = replace(base, architecture=replace(arch, dim=value, heads=value // 8))
            else:
                run = replace(base, architecture=replace(arch, **{axis: value}))
            yield Case("scaling", run, False, axis, value)
