"""Gegenbauer polynomials of the sphere, and the expansions of sign and arcsin in them.

P_l is the Gegenbauer polynomial of S^{d-1} of degree l with P_l(1) = 1. For t
the first coordinate of a uniform unit vector in R^d,

    E[P_l(t) P_m(t)] = 1/N_l if l = m, else 0,

with N_l the number of independent spherical harmonics of degree l. Two facts
(Funk-Hecke and the addition theorem; Müller, *Spherical Harmonics*, 1966) give
everything here, for v uniform on the sphere and unit vectors a and b:

    E_v[f(<a,v>) P_l(<v,b>)] = E[f(t) P_l(t)] P_l(<a,b>),   f(t) = sum_l N_l E[f P_l] P_l(t).

Arrays over degrees are indexed by the degree itself: entry l belongs to degree l.
"""

from collections.abc import Iterator

import numpy as np
from scipy.special import binom, gammaln

# How far beyond [-1, 1] an inner product of unit vectors may be by rounding.
ROUNDING = 1e-12


def check_dimension(d: int) -> None:
    """ValueError unless d is an integer of at least 3, the dimensions the formulas hold for."""
    if isinstance(d, bool) or not isinstance(d, (int, np.integer)) or d < 3:
        raise ValueError(f"the dimension d has to be an integer of at least 3, not {d!r}")


def check_degree(max_degree: int) -> None:
    """ValueError unless the highest degree is an integer of at least 0."""
    if isinstance(max_degree, bool) or not isinstance(max_degree, (int, np.integer)) or max_degree < 0:
        raise ValueError(f"the highest degree has to be an integer of at least 0, not {max_degree!r}")


def check_cosines(t: np.ndarray) -> np.ndarray:
    """t as float64; ValueError unless all of it lies in [-1, 1] (NaN does not)."""
    t = np.asarray(t, dtype=np.float64)
    if not np.all(np.abs(t) <= 1 + ROUNDING):
        raise ValueError("t has to lie in [-1, 1]: pass cosines (inner products of unit vectors), not angles")
    return t


def _polynomials(max_degree: int, d: int, t: np.ndarray) -> Iterator[np.ndarray]:
    """P_0(t), P_1(t), ..., P_max_degree(t), two of them in memory at a time.

    (l + d - 2) P_{l+1} = (2l + d - 2) t P_l - l P_{l-1}   (DLMF 18.9.1, rescaled),
    stable upwards on [-1, 1], where every |P_l| is at most 1.
    """
    previous, current = np.zeros_like(t), np.ones_like(t)
    for l in range(max_degree + 1):
        yield current
        following = ((2 * l + d - 2) * t * current - l * previous) / (l + d - 2)
        previous, current = current, following


def gegenbauer(max_degree: int, d: int, t: np.ndarray) -> np.ndarray:
    """P_l(t) for all degrees up to max_degree at once: t (...) to (max_degree + 1, ...).

    Raises ValueError for d < 3, a negative degree, or t outside [-1, 1].
    """
    check_dimension(d)
    check_degree(max_degree)
    t = check_cosines(t)
    return np.stack(list(_polynomials(max_degree, d, t)))


def gegenbauer_sum(coefficients: np.ndarray, d: int, t: np.ndarray) -> np.ndarray:
    """sum_l coefficients[l] P_l(t): (L + 1,) and (...) to (...), without storing all P_l.

    Raises ValueError for d < 3, no coefficients, or t outside [-1, 1].
    """
    check_dimension(d)
    coefficients = np.asarray(coefficients, dtype=np.float64)
    if coefficients.ndim != 1 or coefficients.size == 0:
        raise ValueError(f"coefficients have to be one number per degree, not of shape {coefficients.shape}")
    t = check_cosines(t)
    total = np.zeros_like(t)
    for coefficient, polynomial in zip(coefficients, _polynomials(coefficients.size - 1, d, t), strict=True):
        if coefficient != 0:
            total += coefficient * polynomial
    return total


def harmonic_dimensions(max_degree: int, d: int) -> np.ndarray:
    """N_l = (2l + d - 2)/l binom(l + d - 3, l - 1), N_0 = 1, as floats: (max_degree + 1,).

    Raises ValueError for d < 3 or a negative degree, and OverflowError past 1e308.
    """
    check_dimension(d)
    check_degree(max_degree)
    degrees = np.arange(1, max_degree + 1)
    counts = (2 * degrees + d - 2) / degrees * binom(degrees + d - 3, degrees - 1)
    if not np.all(np.isfinite(counts)):
        raise OverflowError(f"N_l exceeds floating point at d = {d}, degree {max_degree}: lower one of them")
    return np.concatenate(([1.0], counts))


def sign_coefficients(max_degree: int, d: int) -> np.ndarray:
    """c_l = E[sign(t) P_l(t)]: (max_degree + 1,), zero for even l.

    c_1 = E|t| = Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)) and c_{l+2} = -c_l l/(l + d), by
    integrating (1 - t^2)^((d-3)/2) P_l over (0, 1) with Rodrigues' formula. In the
    orthonormal basis sqrt(N_l) P_l the coefficient is sqrt(N_l) c_l, so sum N_l c_l^2 = 1.
    Raises ValueError for d < 3 or a negative degree.
    """
    check_dimension(d)
    check_degree(max_degree)
    coefficients = np.zeros(max_degree + 1)
    odd = np.arange(1, max_degree + 1, 2)
    if odd.size:
        first = np.exp(gammaln(d / 2) - gammaln((d + 1) / 2)) / np.sqrt(np.pi)
        coefficients[1::2] = first * np.cumprod(np.concatenate(([1.0], -odd[:-1] / (odd[:-1] + d))))
    return coefficients


def arcsin_coefficients(max_degree: int, d: int) -> np.ndarray:
    """a_l = E[arcsin(t) P_l(t)] = (pi/2) c_l^2: (max_degree + 1,), zero for even l.

    From Sheppard's E_v[sign<a,v> sign<v,b>] = (2/pi) arcsin<a,b> and Funk-Hecke twice.
    In the orthonormal basis the coefficient is sqrt(N_l) (pi/2) c_l^2.
    Raises ValueError for d < 3 or a negative degree.
    """
    return np.pi / 2 * sign_coefficients(max_degree, d) ** 2


def sign_energies(max_degree: int, d: int) -> np.ndarray:
    """N_l c_l^2, the share of degree l in E[sign^2] = 1: (max_degree + 1,), zero for even l.

    By the ratio of consecutive odd terms, so that a large N_l never overflows.
    Raises ValueError for d < 3 or a negative degree.
    """
    energies = sign_coefficients(max_degree, d)
    odd = np.arange(1, max_degree + 1, 2, dtype=np.float64)
    if odd.size:
        l = odd[:-1]
        growth = (2 * l + d + 2) / (2 * l + d - 2) * (l + d - 2) * (l + d - 1) / ((l + 1) * (l + 2))
        shrink = (l / (l + d)) ** 2
        energies[1::2] = d * energies[1] ** 2 * np.cumprod(np.concatenate(([1.0], growth * shrink)))
    return energies
