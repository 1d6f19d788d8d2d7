"""Error of one full-rank head against its softmax scale (rule compute_single_head)."""

from pathlib import Path

import pandas as pd
import torch

from rankattn import tables
from rankattn.logs import logged
from rankattn.theory.single_head import table


def main(settings: dict, output: Path) -> None:
    """``settings``: dims, lengths, scales, sequences."""
    tables.save(pd.DataFrame(table(**settings)), output.with_suffix(""))


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        torch.set_num_threads(snakemake.threads)
        main(settings=dict(snakemake.params.settings), output=Path(snakemake.output[0]))
