"""Monte Carlo check of the rank-1 closed forms with real hardmax heads.

Nothing here uses the formulas it checks. Two orthonormal points and a query are
drawn, every head scores the points by <q,y><k,x_i>, outputs the point with the larger
score, and inner products of the outputs are averaged. Example with d = 2::

    x_1 = (1, 0)   x_2 = (0, 1)   y = (0.6, 0.8)      nearest to y: x_2, the target
    q = (1, 0)     k = (0, 1)                         scores 0.6*0 < 0.6*1: outputs x_2
    q = (1, 0)     k = (1, 0)                         scores 0.6*1 > 0.6*0: outputs x_1
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rankattn.targets import nearest_index
from rankattn.tasks import error, gather_points, sphere

# Samples in memory at once: outputs (BLOCK, H, d) and products (BLOCK, H, H).
BLOCK = 8192


class Estimate(NamedTuple):
    """A mean over samples and its standard error, both of the same shape."""

    mean: np.ndarray
    standard_error: np.ndarray


class HeadStatistics(NamedTuple):
    """kernel (H, H): E<f_i, f_j>; target (H,): E<f_i, f*>; error (): E|sum_i a_i f_i - f*|^2."""

    kernel: Estimate
    target: Estimate
    error: Estimate


def draw_points(d: int, samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Orthonormal pairs (samples, 2, d), uniform, and independent uniform queries (samples, d).

    Raises ValueError for d < 2, in which there are no two orthonormal points.
    """
    if d < 2:
        raise ValueError(f"two orthonormal points need a dimension d of at least 2, not {d}")
    first, second, query = (sphere((samples, d), [generator], dtype=torch.float64)[0] for _ in range(3))
    second = second - (second * first).sum(dim=-1, keepdim=True) * first
    second = second / torch.linalg.vector_norm(second, dim=-1, keepdim=True)
    return torch.stack((first, second), dim=1), query


def hardmax_heads(points: Tensor, query: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Outputs of rank-1 hardmax heads: points (n, N, d), query (n, d), q and k (H, d) to (n, H, d).

    Head h has Q = q_h^T, K = k_h^T, V = O = I: scores <q_h, y> <k_h, x_i> over i.
    """
    scores = (query @ q.mT)[:, :, None] * (points @ k.mT).mT
    return gather_points(points, scores.argmax(dim=-1))


class _Moments:
    """Running mean and standard error of arrays that arrive in blocks (n, ...)."""

    def __init__(self) -> None:
        self.count, self.total, self.squares = 0, 0.0, 0.0

    def add(self, values: Tensor) -> None:
        self.count += len(values)
        self.total = self.total + values.sum(dim=0)
        self.squares = self.squares + values.square().sum(dim=0)

    def estimate(self) -> Estimate:
        mean = self.total / self.count
        variance = (self.squares / self.count - mean**2).clamp(min=0)
        return Estimate(mean.numpy(), (variance / (self.count - 1)).sqrt().numpy())


def measure_heads(
    queries: np.ndarray, keys: np.ndarray, weights: np.ndarray, samples: int, generator: torch.Generator
) -> HeadStatistics:
    """Kernel, target vector and error of given heads: queries, keys (H, d), weights (H,).

    Estimates C, b and, for the weights passed (C^{-1} b for the best ones), the error
    1 - 2 a^T b + a^T C a. Keys need not have length 1: a hardmax head ignores it.
    Raises ValueError for shapes that disagree or fewer than 2 samples.
    """
    q, k, a = (torch.tensor(np.asarray(x), dtype=torch.float64) for x in (queries, keys, weights))
    if q.ndim != 2 or q.shape != k.shape or a.shape != q.shape[:1]:
        raise ValueError(
            f"queries and keys have to be (H, d) and weights (H,), not {tuple(q.shape)}, "
            f"{tuple(k.shape)} and {tuple(a.shape)}"
        )
    if samples < 2:
        raise ValueError(f"a standard error needs at least 2 samples, not {samples}")
    kernel, target, loss = _Moments(), _Moments(), _Moments()
    for start in range(0, samples, BLOCK):
        points, query = draw_points(q.shape[1], min(BLOCK, samples - start), generator)
        outputs = hardmax_heads(points, query, q, k)
        wanted = gather_points(points, nearest_index(points, query[:, None]))
        kernel.add(outputs @ outputs.mT)
        target.add((outputs @ wanted.mT).squeeze(-1))
        loss.add(error((a @ outputs)[:, None], wanted))
    return HeadStatistics(kernel.estimate(), target.estimate(), loss.estimate())
