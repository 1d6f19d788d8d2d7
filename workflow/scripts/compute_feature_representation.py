"""The representing function on a grid of angles (rule compute_feature_representation)."""

from pathlib import Path

import numpy as np
import pandas as pd

from rankattn import tables
from rankattn.logs import logged
from rankattn.theory.representation import representing_function

ANGLES = np.linspace(-np.pi, np.pi, 2001)


def main(dims: list[int], max_degree: int, output: Path) -> None:
    """Columns dim, max_degree, angle, u."""
    parts = [
        pd.DataFrame(
            {"dim": dim, "max_degree": max_degree, "angle": ANGLES, "u": representing_function(dim, ANGLES, max_degree)}
        )
        for dim in dims
    ]
    tables.save(pd.concat(parts, ignore_index=True), output.with_suffix(""))


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        main(
            dims=snakemake.params.dims,
            max_degree=snakemake.params.max_degree,
            output=Path(snakemake.output[0]),
        )
