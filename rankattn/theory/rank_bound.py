"""Heads that rank r needs at least, against d/r: formula (*) of :mod:`degree_counting` solved for H.

By degrees: an error above the plateau of degree 1 needs about d/r heads (degree 1 has d dimensions, a head reaches r
of them); below it degree 3 has to be filled, with about (d/r)^3 heads; then (d/r)^5, and so on. That is
the paper's power of d/r whose exponent grows as the error shrinks (section 4).
"""

import pandas as pd

from rankattn.theory.degree_counting import heads_at_least, subspace_bound
from rankattn.theory.harmonics import sign_energies


def plateaus(d: int, max_degree: int) -> list[float]:
    """Error left once all degrees up to 1, 3, ..., max_degree are reached: 1/2 (1 - sum of N_l c_l^2).

    Raises ValueError for d < 3 or a negative degree.
    """
    return [float(value) for value in (1 - sign_energies(max_degree, d)[1::2].cumsum()) / 2]


def table(dim: int, ranks: list[int], errors: list[float]) -> pd.DataFrame:
    """Columns dim, rank, values, error, heads: no fewer heads of this rank reach the error (real, at least 1)."""
    return pd.DataFrame(
        [
            {"dim": dim, "rank": rank, "values": values, "error": error}
            | {"heads": heads_at_least(lambda h, r=rank, v=values: subspace_bound(dim, r, h, v), error)}
            for values in ("scalar", "matrix")
            for error in errors
            for rank in ranks
        ]
    )
