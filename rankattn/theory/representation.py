"""The function that represents the nearest-neighbour target as an integral over rank-1 heads.

For q and k uniform and independent, u(<q,k>) with E_{q,k}[u(<q,k>) head(q, k)] = target
has to satisfy E_{q',k'}[C(q,q',k,k') u(<q',k'>)] = b(<q,k>) for all q and k. By
Funk-Hecke on both spheres, degree by degree,

    (2/pi^2) asn_l^2 u_l = 1/2 c_l^3 N_l,   asn_l = (pi/2) c_l^2   =>   u_l = N_l / c_l

(asn_l, c_l: means of arcsin(t) P_l(t) and sign(t) P_l(t); P_l(1) = 1), so the odd part
of u is the sum over odd l of (N_l / c_l) P_l. That is the weighting ``exact``.

The published figure plots sum of (pi/2) (sgn_l/asn_l) N_l P~_l with P~_l = sqrt(N_l) P_l
the *orthonormal* polynomials, that is N_l^{3/2}/c_l P_l: it has a factor sqrt(N_l) more
than the identity above, which it meets only if P~_l is read as P_l. Only the orthonormal
reading, with odd degrees below 50, gives the heights of the figure. It is the
weighting ``published``. The shape (sharp peaks at 0 and +-pi) is the same for both.

Neither series converges: c_l falls like l^(-d/2) while N_l grows like l^(d-2), so the
heights grow with the number of terms without limit, and a height means nothing without it.
"""

import numpy as np

from rankattn.theory.harmonics import (
    check_dimension,
    gegenbauer_sum,
    harmonic_dimensions,
    sign_coefficients,
)

WEIGHTINGS = ("published", "exact")


def series_coefficients(d: int, terms: int = 50, weighting: str = "published") -> np.ndarray:
    """Coefficients of u in P_l for degrees l < terms: (terms,), zero for even l.

    ``published`` N_l^{3/2} / c_l, ``exact`` N_l / c_l.
    Raises ValueError for d < 3, terms < 2 (no odd degree below it) or an unknown weighting.
    """
    check_dimension(d)
    if isinstance(terms, bool) or not isinstance(terms, (int, np.integer)) or terms < 2:
        raise ValueError(f"terms has to be an integer of at least 2 (degrees below it are used), not {terms!r}")
    if weighting not in WEIGHTINGS:
        raise ValueError(f"weighting has to be one of {', '.join(WEIGHTINGS)}, not {weighting!r}")
    power = 1.5 if weighting == "published" else 1.0
    coefficients = np.zeros(terms)
    counts = harmonic_dimensions(terms - 1, d)[1::2]
    coefficients[1::2] = counts**power / sign_coefficients(terms - 1, d)[1::2]
    return coefficients


def representing_function(d: int, angles: np.ndarray, terms: int = 50, weighting: str = "published") -> np.ndarray:
    """u at the angle between q and k, truncated to odd degrees below ``terms``: (...) to (...).

    Angles in radians, from -pi to pi. The figure shows |u|, whose largest values, at 0 and
    +-pi, are 1.35e8, 6.47e12 and 6.03e16 for d = 4, 6, 8 and 50 terms. The series does not
    converge: the heights grow with ``terms`` (see above). Raises ValueError for d < 3,
    terms < 2, an unknown weighting, or angles that are not finite or beyond [-pi, pi].
    """
    coefficients = series_coefficients(d, terms, weighting)
    angles = np.asarray(angles, dtype=np.float64)
    if not np.all(np.abs(angles) <= np.pi + 1e-12):
        raise ValueError("angles have to lie in [-pi, pi]: pass radians, not degrees")
    return gegenbauer_sum(coefficients, d, np.cos(angles))


def peak_height(d: int, terms: int = 50, weighting: str = "published") -> float:
    """|u| at angle 0, |sum of the coefficients|, since P_l(1) = 1 (arguments as above)."""
    return float(abs(series_coefficients(d, terms, weighting).sum()))
