"""Join the tables of all dimensions (rule gather_random_features)."""

from pathlib import Path

import pandas as pd

from rankattn import tables
from rankattn.logs import logged


def main(parts: list[Path], output: Path) -> None:
    """Concatenate ``parts`` into ``output``."""
    tables.save(pd.concat([pd.read_csv(part) for part in parts], ignore_index=True), output.with_suffix(""))


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        main(parts=[Path(path) for path in snakemake.input], output=Path(snakemake.output[0]))
