"""The height of the representing function against where its series is cut: it grows without limit.

At angle 0 the series of :mod:`representation` has alternating terms (N_l^p / c_l, p = 3/2 published, 1 exact; c_l
changes sign from one odd degree to the next), so its partial sums are about half their last term. With N_l ~
2 l^(d-2)/(d-2)! and |c_l| ~ l^(-d/2) the height therefore grows like

    terms^(p (d - 2) + d/2)

: 5, 9, 13 as published and 4, 7, 10 exact for d = 4, 6, 8. A height says nothing without the number of terms.
"""

import pandas as pd

from rankattn.theory.harmonics import check_dimension
from rankattn.theory.representation import WEIGHTINGS, peak_height


def height_exponent(d: int, weighting: str = "published") -> float:
    """p (d - 2) + d/2 (module's formula). Raises ValueError for d < 3 or an unknown weighting."""
    check_dimension(d)
    if weighting not in WEIGHTINGS:
        raise ValueError(f"weighting has to be one of {', '.join(WEIGHTINGS)}, not {weighting!r}")
    return (1.5 if weighting == "published" else 1.0) * (d - 2) + d / 2


def table(dims: list[int], terms: list[int]) -> pd.DataFrame:
    """Columns dim, weighting, terms (odd degrees below it), peak (|u| at angle 0), exponent (predicted)."""
    return pd.DataFrame(
        [
            {"dim": dim, "weighting": weighting, "terms": count}
            | {"peak": peak_height(dim, count, weighting), "exponent": height_exponent(dim, weighting)}
            for dim in dims
            for weighting in WEIGHTINGS
            for count in terms
        ]
    )
