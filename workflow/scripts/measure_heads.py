"""Angle to the identity and size of every trained full-rank head (rule measure_heads)."""

from pathlib import Path

import pandas as pd

from rankattn import heads, results, tables
from rankattn.logs import logged
from rankattn.runs import Run


def main(runs: dict[str, dict], root: Path, digest: str, output: Path) -> None:
    """One row per run, seed and head, written to ``output``."""
    parts = []
    for path, values in runs.items():
        run = Run.from_resolved(values)
        measured = heads.measure(run.architecture, results.read_weights(root / path, run, digest))
        measured.insert(0, "seed", measured.pop("replica").map(dict(enumerate(run.seeds))))
        fixed = {"run": path, **tables.axes(run)}
        parts.append(measured.assign(**fixed)[[*fixed, *measured.columns]])
    tables.save(pd.concat(parts, ignore_index=True), output.with_suffix(""))


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        main(
            runs=snakemake.params.runs,
            root=Path(snakemake.input.stamps[0]).parents[2],  # <root>/<experiment>/<run>/run.json
            digest=snakemake.params.digest,
            output=Path(snakemake.output[0]),
        )
