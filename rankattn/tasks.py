"""The paper's targets: farthest point (self-attention form) and nearest neighbour.

One example with d = 2 and N = 4 points on the circle::

            x_2                 farthest from x_1 is x_3
             |                  farthest from x_2 is x_4
     x_3 --- + --- x_1          farthest from x_3 is x_1
             |                  farthest from x_4 is x_2
            x_4

    input  = (x_1, x_2, x_3, x_4)
    target = (x_3, x_4, x_1, x_2)        error of predicting zero: exactly 1

For unit vectors the farthest point has the smallest inner product and the
nearest neighbour of a query the largest. Ties go to the lowest index.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def sphere(shape: Sequence[int], generators: Sequence[torch.Generator], dtype=torch.float32) -> Tensor:
    """Points uniform on the unit sphere: (len(generators), *shape), last axis the coordinates.

    Row i is drawn from ``generators[i]`` alone, so it does not depend on the others.
    """
    device = generators[0].device
    points = torch.empty((len(generators), *shape), device=device, dtype=dtype)
    for row, generator in zip(points, generators, strict=True):
        row.normal_(generator=generator)
    return points.div_(torch.linalg.vector_norm(points, dim=-1, keepdim=True))


def gather_points(points: Tensor, index: Tensor) -> Tensor:
    """``points[..., index, :]``: (..., N, d) and (..., M) to (..., M, d)."""
    return torch.take_along_dim(points, index.unsqueeze(-1), dim=-2)


def farthest_index(points: Tensor) -> Tensor:
    """argmin_i <x_i, x_j> for every point j: (..., N, d) to (..., N) (paper, section 6)."""
    return (points @ points.mT).argmin(dim=-1)


def nearest_index(points: Tensor, queries: Tensor) -> Tensor:
    """argmax_i <x_i, y_j>: points (..., N, d), queries (..., M, d) to (..., M) (paper, eq. 1)."""
    return (queries @ points.mT).argmax(dim=-1)


# The targets that can be trained, by their name in the config: points (..., N, d)
# to the index (..., N) of the point that each position has to output.
TARGETS: dict[str, Callable[[Tensor], Tensor]] = {"farthest": farthest_index}


def error(output: Tensor, target: Tensor) -> Tensor:
    """Squared Euclidean norm of the difference, averaged over points: (..., N, d) to (...)."""
    return (output - target).square().sum(dim=-1).mean(dim=-1)
