"""How many random rank-1 heads an error takes, against d: exact counts and what the degrees predict.

Heads (q, k) are samples at which the kernel C = 1/2 + 1/2 C_s of :mod:`random_features` interpolates. C_s has the
eigenvalues c_l^2 c_m^2 (l, m odd) with multiplicity N_l N_m on functions of (q, k), and the target has the share
N_l c_l^2 in the functions of degree (l, l), along the one function sqrt(N_l) P_l(<q,k>). For samples
of the uniform law the deterministic equivalent of kernel interpolation (an asymptotic estimate, not a bound) is

    error = 1/2 sum over odd l of N_l c_l^2 lambda/(c_l^4 + lambda) + lambda/(2 (1 + lambda)),
    sum over odd l, m of N_l N_m c_l^2 c_m^2/(c_l^2 c_m^2 + lambda) = H

(the last term: the weights also have to sum to 1). So degree 1 is filled near N_1^2 = d^2 heads, degree 3 near N_3^2,
of order d^6, and the exponent of d in the number of heads jumps from 2 to 6 where the error crosses
the plateau (1 - d c_1^2)/2.

The published draw (``corrected``: the cosine of the angle between q and k uniform) is not uniform in (q, k): it
favours just the functions of <q,k> that the target is made of. There c_l^4 is replaced by the matrix of second
moments of c_l^2 sqrt(N_l) P_l(cosine), and a degree is filled at a multiple of N_l, not N_l^2,
heads: the exponents tend to 1 and 3. At the d of the figure they are in between.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from rankattn.seeding import numpy_generator
from rankattn.theory.degree_counting import heads_at_least, rank_one_bound
from rankattn.theory.harmonics import check_dimension, gegenbauer, harmonic_dimensions, sign_coefficients
from rankattn.theory.random_features import error_curve

KINDS = ("independent", "corrected")
# Degrees in the equivalent; the rest of the kernel acts like a multiple of the identity, and is kept as one.
DEGREE = 41


class Equivalent:
    """The deterministic equivalent of the error of H random rank-1 heads in dimension d.

    Raises ValueError for d < 3 or a kind that is not one of KINDS.
    """

    def __init__(self, d: int, kind: str = "independent") -> None:
        check_dimension(d)
        if kind not in KINDS:
            raise ValueError(f"kind has to be one of {', '.join(KINDS)}, not {kind!r}")
        c = sign_coefficients(DEGREE, d)[1::2]
        counts = harmonic_dimensions(DEGREE, d)[1::2]
        eigenvalues, multiplicities = np.outer(c**2, c**2), np.outer(counts, counts)
        self.rest = 1 - np.sum(eigenvalues * multiplicities)
        self.tail = 1 - np.sum(counts * c**2)
        if kind == "independent":
            zonal = np.diag(c**4)
        else:
            nodes, weights = np.polynomial.legendre.leggauss(2 * DEGREE)
            polynomials = (c**2 * np.sqrt(counts))[:, None] * gegenbauer(DEGREE, d, nodes)[1::2]
            zonal = (polynomials * weights / 2) @ polynomials.T
        self.zonal, vectors = np.linalg.eigh(zonal)
        self.target = (vectors.T @ (np.sqrt(counts) * c)) ** 2
        # Everything else keeps its shape; the diagonal of the kernel is 1, so it gives up what the zonal part takes.
        scale = (1 - np.trace(zonal)) / (1 - np.sum(c**4))
        self.eigenvalues, self.rest = scale * eigenvalues, scale * self.rest
        self.multiplicities = multiplicities - np.eye(len(c))

    def _degrees_of_freedom(self, ridge: float) -> float:
        """sum of eigenvalue/(eigenvalue + lambda), which falls with lambda."""
        bulk = np.sum(self.multiplicities * (self.eigenvalues / (self.eigenvalues + ridge)))
        return bulk + self.rest / ridge + np.sum(self.zonal / (self.zonal + ridge))

    def error(self, heads: float) -> float:
        """Expected error of ``heads`` heads with the best weights. Raises ValueError for heads <= 0."""
        if not heads > 0:
            raise ValueError(f"heads = {heads}: pass a positive number of heads")
        ridge = np.exp(brentq(lambda x: np.log(self._degrees_of_freedom(np.exp(x)) / heads), -200, 50))
        return 0.5 * float(np.sum(self.target * ridge / (self.zonal + ridge)) + self.tail + ridge / (1 + ridge))


def exponent(dims: Iterable[int], heads: Iterable[float]) -> float:
    """Least-squares slope of log heads against log d. Raises ValueError for fewer than 2 finite values."""
    dims, heads = np.asarray(list(dims), dtype=float), np.asarray(list(heads), dtype=float)
    known = np.isfinite(heads)
    if known.sum() < 2:
        raise ValueError(f"an exponent needs at least 2 finite numbers of heads, not {known.sum()}")
    return float(np.polyfit(np.log(dims[known]), np.log(heads[known]), 1)[0])


def heads_for(curve: np.ndarray, error: float) -> float:
    """The first H at which a curve over H = 1, 2, ... is at most ``error``; NaN if it never is."""
    below = np.flatnonzero(curve <= error)
    return float(below[0] + 1) if below.size else np.nan


def table(
    dims: list[int], predicted_dims: list[int], errors: list[float], max_heads: int, draws: int, seed: int = 0
) -> pd.DataFrame:
    """Columns dim, kind, error, draw, needed, predicted, bound.

    ``needed``: exact first H of one draw (NaN beyond max_heads; dims only in ``predicted_dims`` have no draws and
    draw -1), ``predicted``: by the equivalent, ``bound``: no rank-1 hardmax heads can do with fewer.
    """
    rows = []
    counts = np.arange(1, max_heads + 1)
    for dim in sorted({*dims, *predicted_dims}):
        least = {error: heads_at_least(lambda h, d=dim: rank_one_bound(d, h), error) for error in errors}
        for kind in KINDS:
            equivalent = Equivalent(dim, kind)
            predicted = {error: heads_at_least(equivalent.error, error, 1e60) for error in errors}
            curves = [
                (draw, error_curve(dim, counts, numpy_generator("heads_needed", seed, dim, kind, draw), kind))
                for draw in (range(draws) if dim in dims else ())
            ] or [(-1, np.array([np.inf]))]
            rows += [
                {"dim": dim, "kind": kind, "error": error, "draw": draw}
                | {"needed": heads_for(curve, error), "predicted": predicted[error], "bound": least[error]}
                for draw, curve in curves
                for error in errors
            ]
    return pd.DataFrame(rows)
