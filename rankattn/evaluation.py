"""Held-out scores of trained replicas, on one test stream for all configurations of a task."""

from math import nan, sqrt

import torch
from torch import Tensor

from rankattn import targets, tasks
from rankattn.encoder import Encoder
from rankattn.runs import Run
from rankattn.seeding import torch_generator

# Sequences come in blocks of this size, each with its own generator, so a longer test extends a shorter one.
BLOCK = 256


def test_points(target: str, dim: int, points: int, block: int) -> Tensor:
    """Block number ``block`` of the test stream: (1, BLOCK, N, d), drawn on the CPU.

    Depends on the task alone: every configuration is scored on the same sequences.
    """
    return tasks.sphere((BLOCK, points, dim), [torch_generator(target, dim, points, "test", block)])


@torch.no_grad()
def evaluate(run: Run, flat: Tensor, device: torch.device) -> list[dict]:
    """Scores of the weights ``flat`` (R, P), one dict per seed.

    ``error`` and ``error_se``: mean squared error and its standard error over
    sequences. ``decoded_accuracy``: share of points whose output is nearest to
    the right point. ``attended_accuracy``: share whose largest attention
    weight is on the right point; only defined for one layer with one head.
    (Decoding flatters: a network that outputs a negative multiple of its input
    decodes well with an error of 0.65. Attention does not.)
    """
    arch = run.architecture
    encoder = Encoder(arch, flat.to(device))
    blocks = -(-run.training.test_sequences // BLOCK)
    errors, decoded, attended = [], [], []
    for block in range(blocks):
        points = test_points(run.target, arch.dim, arch.points, block).to(device)
        points = points[:, : run.training.test_sequences - block * BLOCK]
        index = targets.TARGETS[run.target](points)
        output = encoder(points)
        errors.append(tasks.error(output, tasks.gather_points(points, index)).cpu().double())
        decoded.append((targets.nearest_index(points, output) == index).float().mean(-1).cpu().double())
        if arch.layers == 1 and arch.total_heads == 1:
            row = encoder.first_attention(points)[:, 0].argmax(dim=2).permute(0, 2, 1)  # (R, B, N)
            attended.append((row == index).float().mean(-1).cpu().double())
    error, right = torch.cat(errors, dim=1), torch.cat(decoded, dim=1)
    seen = torch.cat(attended, dim=1) if attended else torch.full_like(right, nan)
    return [
        {
            "seed": seed,
            "error": error[i].mean().item(),
            "error_se": error[i].std().item() / sqrt(error.shape[1]) if error.shape[1] > 1 else nan,
            "decoded_accuracy": right[i].mean().item(),
            "attended_accuracy": seen[i].mean().item(),
        }
        for i, seed in enumerate(run.seeds)
    ]
