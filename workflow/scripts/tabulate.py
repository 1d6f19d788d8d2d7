"""Summary tables: settings of every configuration, runtime, best rank (rule tabulate)."""

from pathlib import Path

import pandas as pd

from rankattn import tables
from rankattn.logs import logged
from rankattn.runs import Member, Run


def main(runs: dict[str, dict[str, dict]], collected: dict[str, Path], stem: Path) -> None:
    """``runs``: resolved settings by experiment and path; ``collected``: table file by experiment."""
    experiments = {
        name: [Member(path, Run.from_resolved(values)) for path, values in members.items()]
        for name, members in runs.items()
    }
    rows = {name: pd.read_csv(path) for name, path in collected.items()}
    tables.save(tables.settings(experiments), stem / "settings")
    tables.save(tables.runtime(rows), stem / "runtime")
    if "rank_depth" in rows:
        tables.save(tables.best_rank(rows["rank_depth"]), stem / "best_rank")


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        main(
            runs=snakemake.params.runs,
            collected={Path(path).stem: Path(path) for path in snakemake.input.tables},
            stem=Path(snakemake.output[0]).parent,
        )
