"""Lower bounds on the error of low-rank heads, by counting dimensions degree by degree.

x_1, x_2 orthonormal, w = (x_1 - x_2)/sqrt(2), y uniform. The target is (x_1 + x_2)/2 +
sign<w,y> w/sqrt(2). For a fixed query y the function sign<w,y> of w has the share
N_l c_l^2 of its energy in the spherical harmonics of degree l (l odd), and, y being
uniform, it lies evenly in them: a subspace of dimension D captures on average the
fraction D/N_l. What H heads can produce in degree l is counted, so that

    error >= 1/2 sum over odd l of N_l c_l^2 (1 - H D_l/N_l)_+                    (*)

whatever the subspaces, the queries, and the functions of the key projections are. Let C(m) =
binom(m + r - 1, r - 1), the number of monomials of degree m in r variables. For heads that
put any function of (P x_1, P x_2, y) in place of softmax (generalised attention, paper section 4),
P the projection on the r-dimensional key space of the head:

``scalar``  values a I. Only functions of P w help (given P w, the rest is noise of known law);
            they are the functions invariant under rotations of the complement, and those
            of degree l are C(l) in number. Random subspaces reach (*) where these spaces of the heads
            are independent: seen numerically in small cases as long as they do not meet (2 r <= d), not proven.
``matrix``  arbitrary values V. The part of the output along w is a sum of w^T V w and w^T V x'
            (x' the direction of x_1 + x_2) times functions of the projections. Splitting V into
            blocks, it meets degree l through the parts of a harmonic that are invariant,
            linear or quadratic in the complement: C(l) + 2 r C(l - 1) + C(l - 2) numbers.
``label``   values that read numbers fixed in advance and a linear function of w: C(l) + C(l - 1).

With r = d the count exceeds N_l and the bound is 0. For rank-1 *hardmax* heads more is
known: such a head is sign<q,y> sign<k,w>, one function of y times one of w, whatever its values.
As an operator from functions of y to functions of w, H of them have rank H, and by Eckart and Young the error is at
least that of the best operator of rank H, which takes the largest singular values |c_l| (each N_l times) first.
"""

from collections.abc import Callable

import numpy as np
from scipy.integrate import quad
from scipy.special import betaln, gammaln, logsumexp

from rankattn.theory.harmonics import check_dimension, harmonic_dimensions, sign_energies

VALUES = ("scalar", "matrix", "label")
# Higher degrees are counted together, with the share that heads reach in this one.
MAX_DEGREE = 301


def check_rank(d: int, r: int) -> None:
    """ValueError unless d >= 3 and r is an integer from 1 to d."""
    check_dimension(d)
    if isinstance(r, bool) or not isinstance(r, (int, np.integer)) or not 1 <= r <= d:
        raise ValueError(f"the rank r has to be an integer from 1 to d = {d}, not {r!r}")


def _log_monomials(degrees: np.ndarray, r: int) -> np.ndarray:
    """log C(m), -inf for negative m: (n,) to (n,)."""
    m = np.maximum(degrees, 0)
    return np.where(degrees >= 0, gammaln(m + r) - gammaln(m + 1) - gammaln(r), -np.inf)


def log_harmonic_dimensions(max_degree: int, d: int) -> np.ndarray:
    """log N_l for l = 0 ... max_degree (N_l of :mod:`harmonics`, beyond floating point): (max_degree + 1,)."""
    check_dimension(d)
    l = np.arange(1, max_degree + 1)
    logs = np.log((2 * l + d - 2) / l) + gammaln(l + d - 2) - gammaln(l) - gammaln(d - 1)
    return np.concatenate(([0.0], logs))


def log_head_functions(max_degree: int, r: int, values: str = "scalar") -> np.ndarray:
    """log D_l: dimensions that one head of rank r can reach in each degree, an upper bound: (max_degree + 1,).

    Raises ValueError for values that are not one of VALUES.
    """
    l = np.arange(max_degree + 1)
    if values == "scalar":
        return _log_monomials(l, r)
    if values == "label":
        return logsumexp([_log_monomials(l, r), _log_monomials(l - 1, r)], axis=0)
    if values == "matrix":
        linear = np.log(2 * r) + _log_monomials(l - 1, r)
        return logsumexp([_log_monomials(l, r), linear, _log_monomials(l - 2, r)], axis=0)
    raise ValueError(f"values has to be one of {', '.join(VALUES)}, not {values!r}")


def unreached(energies: np.ndarray, d: int, r: int, heads: float, values: str = "scalar") -> float:
    """sum over l of E_l (1 - heads D_l/N_l)_+: the energy that ``heads`` heads of rank r cannot reach.

    ``energies`` (L + 1,): E_l of a target with values +-1, so that all E_l add up to 1. What lies above L is taken
    with the share of L: D_l/N_l falls with l for r < d, so the result stays a lower bound.
    Raises ValueError for d < 3, r outside 1 ... d, heads <= 0.
    """
    check_rank(d, r)
    if not heads > 0:
        raise ValueError(f"heads = {heads}: pass a positive number of heads")
    top = len(energies) - 1
    log_share = np.log(heads) + log_head_functions(top, r, values) - log_harmonic_dimensions(top, d)
    left = -np.expm1(np.minimum(log_share, 0))
    return float(energies @ left + max(0.0, 1 - energies.sum()) * left[-1])


def subspace_bound(d: int, r: int, heads: float, values: str = "scalar") -> float:
    """Formula (*): a lower bound on the error of generalised attention with H heads of rank r, N = 2.

    With ``scalar`` values it is attained (up to the tail) where the heads' functions are independent.
    Raises as :func:`unreached`.
    """
    return unreached(sign_energies(MAX_DEGREE, d), d, r, heads, values) / 2


def rank_one_bound(d: int, heads: int) -> float:
    """Lower bound on the error of any H rank-1 hardmax heads with any value matrices (Eckart-Young), N = 2.

    1/2 (1 - sum of the H largest of the c_l^2, c_l^2 taken N_l times). Raises ValueError for d < 3 or heads < 1.
    """
    check_dimension(d)
    if heads < 1:
        raise ValueError(f"heads = {heads}: pass at least 1")
    left, captured = float(heads), 0.0
    energies = sign_energies(MAX_DEGREE, d)
    for degree in range(1, MAX_DEGREE + 1, 2):
        count = float(np.exp(min(log_harmonic_dimensions(degree, d)[-1], 700)))
        captured += energies[degree] * min(1.0, left / count)
        left -= count
        if left <= 0:
            return max(0.0, 1 - captured) / 2
    return 0.0  # more heads than functions up to this degree: no bound is claimed


def heads_at_least(bound: Callable[[float], float], error: float, most: float = 1e300) -> float:
    """Least number of heads H >= 1 at which a falling ``bound`` of H is no longer above ``error``; inf beyond ``most``.

    Raises ValueError unless error > 0.
    """
    if not error > 0:
        raise ValueError(f"error = {error}: pass a positive error, no finite number of low-rank heads is exact")
    low, high = 0.0, np.log(most)
    if bound(1.0) <= error:
        return 1.0
    if bound(most) > error:
        return np.inf
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if bound(np.exp(middle)) > error else (low, middle)
    return float(np.exp(high))


def harmonic_count(degree: int, d: int) -> int:
    """N_l as an integer, for sizes of matrices. Raises ValueError for d < 3 or a negative degree."""
    return round(harmonic_dimensions(degree, d)[-1])


def symmetric_limit(d: int) -> float:
    """Error of infinitely many uniform rank-1 heads with k = +-q: 1/2 (1 - E|asin t|^2/E[asin(t)^2]), t as <y, w>.

    Raises ValueError for d < 3.
    """
    check_dimension(d)
    norm = np.exp(-betaln((d - 1) / 2, 0.5))
    # t = sin(angle) has the density norm cos(angle)^(d-2) in the angle.
    first, second = (
        2 * norm * quad(lambda x, p=p: x**p * np.cos(x) ** (d - 2), 0, np.pi / 2, epsabs=1e-14)[0] for p in (1, 2)
    )
    return 0.5 * (1 - first**2 / second)
