"""The table of one part of the theory (rule compute_theory)."""

import importlib
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from rankattn import tables
from rankattn.logs import logged


def main(theory: str, settings: dict, output: Path) -> None:
    """Call ``table(**settings)`` of ``rankattn.theory.<theory>`` and save what it returns."""
    module = importlib.import_module(f"rankattn.theory.{theory}")
    tables.save(module.table(**settings), output.with_suffix(""))


if "snakemake" in globals():
    with logged(snakemake.log[0]), threadpool_limits(snakemake.threads):
        torch.set_num_threads(snakemake.threads)
        main(
            theory=snakemake.wildcards.theory,
            settings=dict(snakemake.params.settings),
            output=Path(snakemake.output[0]),
        )
