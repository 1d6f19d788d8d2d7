"""The folder of a finished run: what is written, and the checks when it is read.

run.json      settings, source digest, provenance and checksums of the others
history.csv   one row per epoch and seed
summary.csv   one row per seed
weights.pt    final weights (R, P), only where something reads them
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from rankattn.files import checksum, replacing, write_text
from rankattn.runs import Run

if TYPE_CHECKING:
    from torch import Tensor

HISTORY = ["seed", "epoch", "learning_rate", "training_error", "seconds"]
SUMMARY = [
    "seed",
    "status",  # ok or diverged
    "diverged_step",
    "published_error",  # smallest epoch mean of the training error
    "final_training_error",  # last epoch mean
    "error",  # held out, with its standard error over sequences
    "error_se",
    "decoded_accuracy",
    "attended_accuracy",
]


class BadRun(ValueError):
    """A run's folder is missing, damaged or belongs to other settings or other code."""


def summarise(history: pd.DataFrame, scores: list[dict], diverged: dict[int, int]) -> pd.DataFrame:
    """One row per seed from its history and held-out scores.

    ``published_error`` is the paper's statistic, the smallest epoch mean: biased
    low. ``diverged`` has the step at which a seed's error exploded, for those whose did.
    """
    rows = []
    for score in scores:
        own = history[history["seed"] == score["seed"]]
        rows.append(
            score
            | {
                "status": "diverged" if score["seed"] in diverged else "ok",
                "diverged_step": diverged.get(score["seed"]),
                "published_error": own["training_error"].min(),
                "final_training_error": own["training_error"].iloc[-1],
            }
        )
    return pd.DataFrame(rows)[SUMMARY]


def write(
    folder: Path,
    run: Run,
    digest: str,
    history: pd.DataFrame,
    summary: pd.DataFrame,
    provenance: dict,
    flat: "Tensor | None",
) -> None:
    """Write all files of a run; ``run.json`` last, since it vouches for the others."""
    names = ["history.csv", "summary.csv"]
    for name, table in zip(names, (history[HISTORY], summary[SUMMARY]), strict=True):
        with replacing(folder / name) as temporary:
            table.to_csv(temporary, index=False, lineterminator="\n")
    if flat is not None:
        import torch

        names.append("weights.pt")
        with replacing(folder / "weights.pt") as temporary:
            torch.save(flat, temporary)
    content = {
        "run": run.resolved(),
        "digest": digest,
        "provenance": provenance,
        "files": {name: checksum(folder / name) for name in names},
    }
    write_text(folder / "run.json", json.dumps(content, indent=1, sort_keys=True) + "\n")


def read(folder: Path, run: Run, digest: str) -> tuple[pd.DataFrame, dict]:
    """Summary (one row per seed) and provenance of a finished run, checked against ``run`` and ``digest``.

    Raises BadRun saying what is wrong with which file.
    """
    stamp = folder / "run.json"
    try:
        content = json.loads(stamp.read_text(encoding="utf-8"))
        files, provenance = content["files"], content["provenance"]
        trained, code = content["run"], content["digest"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRun(f"{stamp}: missing or damaged ({type(error).__name__}); train it again") from None
    if trained != run.resolved():
        raise BadRun(f"{folder}: stale, trained with other settings ({_differences(trained, run.resolved())})")
    if code != digest:
        raise BadRun(f"{folder}: stale, trained with other code ({code}, now {digest})")
    for name, expected in files.items():
        path = folder / name
        if not path.exists() or checksum(path) != expected:
            raise BadRun(f"{path}: missing, truncated or edited; train it again")
    history, summary = pd.read_csv(folder / "history.csv"), pd.read_csv(folder / "summary.csv")
    steps = history.groupby("seed").size().to_dict()
    if sorted(summary["seed"]) != sorted(run.seeds) or steps != dict.fromkeys(run.seeds, run.training.epochs):
        raise BadRun(f"{folder}: rows do not match its {len(run.seeds)} seeds and {run.training.epochs} epochs")
    return summary, provenance | {"seconds": history.groupby("epoch")["seconds"].first().sum()}


def read_weights(folder: Path, run: Run, digest: str) -> "Tensor":
    """Final weights (R, P) of a checked run."""
    import torch

    read(folder, run, digest)
    return torch.load(folder / "weights.pt", weights_only=True)


def _differences(old: dict, new: dict) -> str:
    """The keys in which two resolved runs differ."""
    keys = []
    for section in sorted(set(old) | set(new)):
        before, after = old.get(section), new.get(section)
        if isinstance(before, dict) and isinstance(after, dict):
            keys += [f"{section}.{k}" for k in sorted(set(before) | set(after)) if before.get(k) != after.get(k)]
        elif before != after:
            keys.append(section)
    return ", ".join(keys)
