"""Verdict of every claim (rule check_claims)."""

from pathlib import Path

from rankattn import tables
from rankattn.claims.verdicts import check_claims
from rankattn.logs import logged


def main(preset: str, folder: Path, output: Path) -> None:
    """Decide all claims on the tables in ``folder``."""
    tables.save(check_claims(preset, folder), output.with_suffix(""))


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        output = Path(snakemake.output[0])
        main(preset=snakemake.params.preset, folder=output.parent, output=output)
