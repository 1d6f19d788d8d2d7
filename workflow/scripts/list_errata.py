"""Known faults of the published runs, with their measured size (rule list_errata)."""

from pathlib import Path

from rankattn import tables
from rankattn.claims.errata import errata
from rankattn.logs import logged


def main(folder: Path) -> None:
    """Measure the faults on the tables in ``folder``; writes errata there."""
    tables.save(errata(folder), folder / "errata")


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        main(Path(snakemake.output[0]).parent)
