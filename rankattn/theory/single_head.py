"""One full-rank head against its target: exact with hardmax, error kappa G / c with softmax of scale c.

Scores are c times inner products. For large c the error comes from near ties of the
two best points: with gap g between their inner products, the softmax puts weight
1 / (1 + exp(c g)) on the wrong one, so the squared error is |x_1 - x_2|^2 / (1 + exp(c g))^2
and, integrating over g >= 0 where the density of gaps is flat,

    error ~ kappa G / c,   kappa = integral of (1 + e^u)^-2 du over u >= 0 = ln 2 - 1/2,

    G = M (M - 1) * integral of f(t)^2 (1 - F(t))^(M-2) * 2 (1 - t^2) dt

with M candidates, f and F density and distribution of one coordinate of a uniform unit
vector, and 2 (1 - t^2) the mean squared distance of two points with the same inner product t.
Nearest and farthest point are mirror images; in the self-attention form M = N - 1.
"""

import numpy as np
import torch
from scipy.integrate import quad
from scipy.special import betaln
from scipy.stats import beta

from rankattn import targets, tasks
from rankattn.attention import attend
from rankattn.seeding import torch_generator
from rankattn.theory.harmonics import check_dimension

KAPPA = np.log(2) - 0.5
TARGETS = ("nearest", "farthest")


def candidates(target: str, points: int) -> int:
    """M: all N points for a separate query, the N - 1 others in the self-attention form."""
    if target not in TARGETS:
        raise ValueError(f"target = {target!r}: use one of {', '.join(TARGETS)}")
    return points if target == "nearest" else points - 1


def near_tie_constant(dim: int, count: int) -> float:
    """G of the module's formula for ``count`` candidates in dimension ``dim``.

    Zero for a single candidate. Raises ValueError for dim < 3 or count < 1.
    """
    check_dimension(dim)
    if count < 1:
        raise ValueError(f"count = {count}: pass the number of candidate points, at least 1")
    half = (dim - 1) / 2
    log_norm = betaln(half, half) + (dim - 2) * np.log(2)

    def integrand(t: float) -> float:
        density = np.exp((half - 1) * np.log1p(-t * t) - log_norm)
        return density**2 * beta.sf((1 + t) / 2, half, half) ** (count - 2) * 2 * (1 - t * t)

    if count == 1:
        return 0.0
    return count * (count - 1) * quad(integrand, -1, 1, epsabs=1e-12, epsrel=1e-10, limit=200)[0]


def head_error(
    target: str, dim: int, points: int, scale: float, sequences: int, generator: torch.Generator
) -> tuple[float, float]:
    """Mean squared error and its standard error of a real head on random points (float64).

    Q = c I (nearest) or -c I (farthest), K = VO = I; ``scale`` c may be ``inf`` for
    hardmax. Nearest uses one separate query per sequence, farthest all points as queries.
    """
    candidates(target, points)
    if not scale > 0:
        raise ValueError(f"scale = {scale}: pass a positive number, or inf for hardmax")
    x = tasks.sphere((sequences, points, dim), [generator], dtype=torch.float64)[0]
    if target == "nearest":
        queries = tasks.sphere((sequences, 1, dim), [generator], dtype=torch.float64)[0]
        index, sign = targets.nearest_index(x, queries), 1.0
    else:
        queries, index, sign = x, targets.farthest_index(x), -1.0
    if np.isinf(scale):
        # Hardmax with these matrices: all weight on the largest score.
        output = tasks.gather_points(x, (sign * queries @ x.mT).argmax(dim=-1))
    else:
        output = _softmax_head(queries, x, sign * scale)
    errors = tasks.error(output, tasks.gather_points(x, index))
    return errors.mean().item(), (errors.std() / sequences**0.5).item()


def _softmax_head(queries: torch.Tensor, x: torch.Tensor, scale: float) -> torch.Tensor:
    """Output of the package's own attention: queries (B, M, d), points (B, N, d) to (B, M, d)."""
    padded = torch.zeros_like(x)
    padded[:, : queries.shape[1]] = queries
    q, k = padded * scale * x.shape[-1] ** 0.5, x  # undo the division by sqrt(r)
    heads = torch.stack([t.permute(2, 1, 0) for t in (q, k, x)])[None, :, None]
    return attend(heads)[0, 0].permute(2, 1, 0)[:, : queries.shape[1]]


def table(dims: list[int], lengths: list[int], scales: list[float], sequences: int) -> "list[dict]":
    """Rows of measured and predicted errors for both targets, all dims, lengths and scales (and hardmax)."""
    rows = []
    for target in TARGETS:
        for dim in dims:
            for points in lengths:
                constant = near_tie_constant(dim, candidates(target, points))
                for scale in [*scales, float("inf")]:
                    generator = torch_generator("single_head", target, dim, points, str(scale))
                    error, se = head_error(target, dim, points, scale, sequences, generator)
                    row = {"target": target, "dim": dim, "points": points, "scale": scale}
                    rows.append(row | {"error": error, "error_se": se, "law": KAPPA * constant / scale})
    return rows
