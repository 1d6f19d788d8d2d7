"""Points on the sphere, their target vectors and the error (paper, section 6). The targets: ``rankattn.targets``."""

from collections.abc import Sequence

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
    return points.gather(-2, index.unsqueeze(-1).expand(*index.shape, points.shape[-1]))


def error(output: Tensor, target: Tensor) -> Tensor:
    """Squared Euclidean norm of the difference, averaged over points: (..., N, d) to (...)."""
    return (output - target).square().sum(dim=-1).mean(dim=-1)
