"""Our values beside the published ones (rule compare_published)."""

from pathlib import Path

from rankattn import tables
from rankattn.claims.agreement import agreement, summary
from rankattn.logs import logged


def main(folder: Path) -> None:
    """Compare every figure's values in ``folder``; writes agreement and agreement_summary there."""
    points = agreement(folder)
    tables.save(points, folder / "agreement")
    tables.save(summary(points), folder / "agreement_summary")


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        main(Path(snakemake.output[0]).parent)
