"""Tidy tables from finished runs, and the statistics that the figures show."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from rankattn import cost, results
from rankattn.files import replacing
from rankattn.runs import Member, Run

# Columns that say which configuration a row belongs to.
AXES = [
    "target", "dim", "points", "positional_encoding", "layers", "width", "heads", "rank", "total_heads",
    "epochs", "batch_size", "learning_rate", "final_rate", "protocol",
]  # fmt: skip


class BadRuns(ValueError):
    """Some runs of an experiment cannot be used; the message names each."""


def axes(run: Run) -> dict:
    """The values of :data:`AXES` for one run."""
    arch, recipe = run.architecture, run.training
    return {key: getattr(arch if hasattr(arch, key) else recipe if hasattr(recipe, key) else run, key) for key in AXES}


def collect(members: Sequence[Member], root: Path, digest: str) -> pd.DataFrame:
    """One row per configuration and seed of an experiment.

    Raises BadRuns naming every run under ``root`` that is missing, truncated, duplicate or stale.
    """
    tables, faults = [], []
    for member in members:
        try:
            summary, provenance = results.read(root / member.path, member.run, digest)
        except results.BadRun as fault:
            faults.append(str(fault))
            continue
        fixed = {"run": member.path, **axes(member.run)}
        after = {"steps": member.run.training.steps, **provenance}
        tables.append(summary.assign(**fixed, **after)[[*fixed, *summary.columns, *after]])
    if faults:
        raise BadRuns(f"{len(faults)} of {len(members)} runs cannot be used:\n  " + "\n  ".join(faults))
    table = pd.concat(tables, ignore_index=True)
    repeated = table[table.duplicated([*AXES, "seed"])]["run"].unique()
    if len(repeated):
        raise BadRuns(f"the same configuration and seed twice: {', '.join(repeated)}")
    return table


def over_seeds(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Statistics over seeds for every combination of ``by``, in sorted order.

    ``published_min`` and ``published_max``: least and greatest over seeds of the
    smallest epoch mean (the paper's line and band). ``error``: mean over seeds of the held-out
    error, ``error_se`` its standard error over seeds, ``error_min``/``error_max`` its
    range. Diverged seeds are counted and left out of every statistic.
    """
    rows = []
    for key, group in table.groupby(list(by), dropna=False, sort=True):
        good = group[group["status"] == "ok"]
        row = dict(zip(by, key, strict=True)) | {"seeds": len(good), "diverged": len(group) - len(good)}
        row |= {"published_min": good["published_error"].min(), "published_max": good["published_error"].max()}
        row |= {"error": good["error"].mean(), "error_se": good["error"].sem()}
        rows.append(row | {"error_min": good["error"].min(), "error_max": good["error"].max()})
    return pd.DataFrame(rows)


def settings(experiments: dict[str, list[Member]]) -> pd.DataFrame:
    """One row per configuration: sizes, parameters, arithmetic and steps."""
    rows = []
    for name, members in experiments.items():
        for member in members:
            run = member.run
            rows.append(
                {"experiment": name, "run": member.path, **axes(run)}
                | {
                    "feedforward": run.architecture.feedforward,
                    "parameters_per_layer": cost.attention_parameters(run.architecture),
                    "parameters": cost.parameters(run.architecture),
                    "flops_per_step": cost.step_flops(run) // len(run.seeds),
                    "steps": run.training.steps,
                    "seeds": len(run.seeds),
                }
            )
    return pd.DataFrame(rows)


def best_rank(table: pd.DataFrame) -> pd.DataFrame:
    """For every depth and width multiplier, the rank with the least mean held-out error."""
    stats = over_seeds(table, ["layers", "width", "rank"])
    best = stats.loc[stats.groupby(["layers", "width"])["error"].idxmin()]
    return best[["layers", "width", "rank", "error", "error_se", "published_min", "seeds"]].reset_index(drop=True)


def runtime(experiments: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Training time and arithmetic per experiment; runs shared by experiments count in each."""
    rows = []
    for name, table in experiments.items():
        runs = table.drop_duplicates("run")
        rows.append(
            {
                "experiment": name,
                "configurations": len(runs),
                "seeds": len(table),
                "training_hours": runs["seconds"].sum() / 3600,
                "longest_minutes": runs["seconds"].max() / 60,
                "milliseconds_per_step": 1000 * runs["seconds"].sum() / runs["steps"].sum(),
                "devices": ", ".join(sorted(runs["device"].unique())),
            }
        )
    return pd.DataFrame(rows)


def save(table: pd.DataFrame, stem: str | Path) -> None:
    """Write ``<stem>.csv`` (full precision), ``.md`` and ``.tex`` (4 significant digits)."""
    with replacing(f"{stem}.csv") as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")
    shown = table.map(lambda value: f"{value:.4g}" if isinstance(value, float) else str(value))
    with replacing(f"{stem}.md") as temporary:
        cells = shown.map(lambda text: text.replace("|", r"\|"))
        temporary.write_text(cells.to_markdown(index=False, disable_numparse=True) + "\n", encoding="utf-8")
    with replacing(f"{stem}.tex") as temporary:
        escaped = shown.style.format(escape="latex").format_index(escape="latex", axis="columns").hide(axis="index")
        latex = escaped.to_latex(hrules=True, column_format="l" * shown.shape[1])
        temporary.write_text(latex, encoding="utf-8")
