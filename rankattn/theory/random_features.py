"""Error of optimally weighted random rank-1 heads, exactly (paper, random-features figure).

x_1, x_2 orthonormal, y uniform, w = (x_1 - x_2)/sqrt(2). The rank-1 hardmax head (q, k)
outputs x_1 exactly when <q,y><k,w> > 0. In the norm E|.|^2 (spans by Sheppard's formula):

    head with head    C = 1/2 + (2/pi^2) arcsin<q,q'> arcsin<k,k'>
    head with target  b = 1/2 + 1/2 sum over odd l of c_l^3 N_l P_l(<q,k>)

and the best weights C^{-1} b leave the error 1 - b^T C^{-1} b. With C = L L^T and
z = L^{-1} b, the first H entries of z depend on the first H heads alone, so that
error(H) = 1 - (z_1^2 + ... + z_H^2): one factorisation gives the error at every H.

Two variants. ``corrected`` is the above. ``published`` repeats the faults of the
published run, found by matching its values: the part of the key orthogonal to the query
is the projection of a uniform unit vector, not rescaled to length 1 (so |k| < 1, C stays
positive definite but is no longer the product of real heads); b is rounded to half
precision (lowers the error by 0.002 at d = 8, H = 16384, by less elsewhere); its series
stops at degree 49 (no visible effect for d of at least 8). No jitter is needed.
The published curve also took new heads for every H, where here they are nested.

Both variants draw the angle between q and k so that its cosine is uniform, as the published run did.
``independent`` draws q and k uniform and independent instead: their cosine is then of order
1/sqrt(d), and the heads favour no part of the target (:mod:`rankattn.theory.heads_needed`).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import cholesky, solve_triangular

from rankattn.seeding import numpy_generator
from rankattn.theory.harmonics import check_dimension, gegenbauer_sum, sign_coefficients, sign_energies

KEYS = ("corrected", "published")
DRAWS = (*KEYS, "independent")
PUBLISHED_DEGREE = 49
# Heads are drawn, and the kernel filled, this many at a time. Another value is another draw.
BLOCK = 256


class Heads(NamedTuple):
    """Rank-1 heads: queries (H, d), keys (H, d), cosines <q,k> (H,)."""

    queries: np.ndarray
    keys: np.ndarray
    cosines: np.ndarray


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def draw_heads(d: int, num_heads: int, generator: np.random.Generator, keys: str = "corrected") -> Heads:
    """Heads with q uniform, <q,k> uniform on (-1, 1), and k in that direction around q; or k independent of q.

    Drawn in whole blocks: the first heads are the same whatever num_heads is, and all
    kinds of keys use the same q, cosine and direction. Raises ValueError for d < 3,
    num_heads < 1 or unknown keys.
    """
    check_dimension(d)
    if num_heads < 1:
        raise ValueError(f"num_heads has to be at least 1, not {num_heads}")
    if keys not in DRAWS:
        raise ValueError(f"keys has to be one of {', '.join(DRAWS)}, not {keys!r}")
    blocks = [
        (generator.standard_normal((2, BLOCK, d)), generator.uniform(-1, 1, BLOCK))
        for _ in range(-(-num_heads // BLOCK))
    ]
    queries, directions = _unit(np.concatenate([normal for normal, _ in blocks], axis=1)[:, :num_heads])
    cosines = np.concatenate([cosine for _, cosine in blocks])[:num_heads]
    if keys == "independent":
        return Heads(queries, directions, np.sum(queries * directions, axis=1))
    directions = directions - np.sum(directions * queries, axis=1, keepdims=True) * queries
    if keys == "corrected":
        directions = _unit(directions)
    sines = np.sqrt(1 - cosines**2)
    return Heads(queries, cosines[:, None] * queries + sines[:, None] * directions, cosines)


def head_kernel(q: np.ndarray, other_q: np.ndarray, k: np.ndarray, other_k: np.ndarray) -> np.ndarray:
    """C = 1/2 + (2/pi^2) arcsin<q,q'> arcsin<k,k'>: (H, d) and (H', d), twice, to (H, H').

    Raises ValueError for a vector longer than 1, for which arcsin is not defined.
    """
    for name, vectors in (("q", q), ("q'", other_q), ("k", k), ("k'", other_k)):
        if np.linalg.norm(vectors, axis=-1).max() > 1 + 1e-9:
            raise ValueError(f"{name} has a vector longer than 1: divide each by its norm first")
    # A head with itself has the inner product 1 only up to rounding, of which arcsin would lose half the digits.
    products = [a @ b.T for a, b in ((q, other_q), (k, other_k))]
    import torch  # here, because the figures use this module and not torch

    # torch's arcsin takes a third of the time of numpy's, and this is half of the time of a kernel.
    first, second = (torch.from_numpy(np.where(np.abs(x) > 1 - 1e-14, np.sign(x), x)).asin_().numpy() for x in products)
    return 0.5 + 2 / np.pi**2 * first * second


def target_tail(d: int, max_degree: int) -> float:
    """Bound on what b loses when its series stops at the odd degree max_degree.

    |P_l| <= 1, |c_l| falls with l and sum N_l c_l^2 = 1, so the rest of the series is at
    most 1/2 |c_{L+2}| (1 - sum of N_l c_l^2 up to L). Raises ValueError for d < 3 and
    for an even max_degree: even degrees have no term, so it would be a misunderstanding.
    """
    check_dimension(d)
    if max_degree < 1 or max_degree % 2 == 0:
        raise ValueError(f"max_degree has to be odd and at least 1 (the last term of b), not {max_degree}")
    left = max(0.0, 1 - sign_energies(max_degree, d).sum())
    return 0.5 * abs(sign_coefficients(max_degree + 2, d)[-1]) * left


def target_degree(d: int, tolerance: float = 1e-12) -> int:
    """A degree 2^m - 1 at which b is truncated by less than tolerance. ValueError if tolerance <= 0."""
    if not tolerance > 0:
        raise ValueError(f"tolerance has to be positive, not {tolerance}")
    degree = 1
    while target_tail(d, degree) > tolerance:
        degree = 2 * degree + 1
    return degree


def target_vector(d: int, cosines: np.ndarray, max_degree: int | None = None, tolerance: float = 1e-12) -> np.ndarray:
    """b = 1/2 + 1/2 sum over odd l of c_l^3 N_l P_l(<q,k>): cosines (...) to (...).

    By default as many terms as the tail bound needs for ``tolerance``. Raises ValueError
    for d < 3, cosines outside [-1, 1], an even max_degree, or one too low for tolerance.
    """
    degree = target_degree(d, tolerance) if max_degree is None else max_degree
    if (tail := target_tail(d, degree)) > tolerance:
        raise ValueError(
            f"the series up to degree {degree} may be off by {tail:.1e} > {tolerance:.1e} at d = {d}: "
            f"pass max_degree={target_degree(d, tolerance)}, or None"
        )
    coefficients = sign_energies(degree, d) * sign_coefficients(degree, d)
    return 0.5 + 0.5 * gegenbauer_sum(coefficients, d, cosines)


def error_plateau(d: int) -> float:
    """(1 - d c_1^2)/2: the error once the degree-1 part is captured and nothing else is."""
    return (1 - d * sign_coefficients(1, d)[1] ** 2) / 2


def _factor(heads: Heads) -> np.ndarray:
    """Lower Cholesky factor (H, H) of C, in one matrix of memory; LinAlgError if C is singular."""
    q, k, _ = heads
    matrix = np.empty((len(q), len(q)), order="F")
    for start in range(0, len(q), BLOCK):
        rows, upto = slice(start, start + BLOCK), start + BLOCK
        matrix[rows, :upto] = head_kernel(q[rows], q[:upto], k[rows], k[:upto])
    # Only the lower triangle has been filled, and only it is read.
    return cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)


def error_curve(
    d: int, num_heads: Sequence[int], generator: np.random.Generator, keys: str = "corrected"
) -> np.ndarray:
    """Error 1 - b^T C^{-1} b of the first H heads of one draw, for every H in num_heads: (len,).

    Raises ValueError for d < 3, no or non-positive num_heads, or unknown keys.
    Memory 8 max(H)^2 bytes (134 MB at 4096, 2.1 GB at 16384), time max(H)^3/3 flops.
    """
    counts = np.asarray(num_heads)
    if counts.ndim != 1 or counts.size == 0 or counts.dtype.kind not in "iu" or counts.min() < 1:
        raise ValueError(f"num_heads has to be a list of positive whole numbers, not {num_heads!r}")
    heads = draw_heads(d, int(counts.max()), generator, keys)
    if keys == "published":
        target = target_vector(d, heads.cosines, PUBLISHED_DEGREE, tolerance=np.inf)
        target = target.astype(np.float16).astype(np.float64)
    else:
        target = target_vector(d, heads.cosines)
    z = solve_triangular(_factor(heads), target, lower=True, overwrite_b=True, check_finite=False)
    return (1 - np.cumsum(z**2))[counts - 1]


def table(dims: Iterable[int], max_heads: int, draws: int, keys: Iterable[str] = KEYS, seed: int = 0) -> pd.DataFrame:
    """Errors at H = 1, 2, 4, ..., max_heads: columns dim, num_heads, draw, keys, mse.

    A draw's generator depends on (seed, dim, draw) alone: not on max_heads, nor on keys.
    Raises ValueError for draws < 1, max_heads < 1, d < 3 or unknown keys.
    """
    if draws < 1 or max_heads < 1:
        raise ValueError(f"draws and max_heads have to be at least 1, not {draws} and {max_heads}")
    num_heads = [2**i for i in range(int(max_heads).bit_length())]
    parts = []
    for dim in dims:
        for kind in keys:
            for draw in range(draws):
                generator = numpy_generator("random_features", seed, int(dim), draw)
                mse = error_curve(dim, num_heads, generator, kind)
                parts.append(pd.DataFrame({"dim": dim, "num_heads": num_heads, "draw": draw, "keys": kind, "mse": mse}))
    return pd.concat(parts, ignore_index=True)
