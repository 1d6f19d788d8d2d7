"""Training of all seeds of one configuration (paper, section 6), exact to resume.

The random numbers of an epoch come from generators named by seed and epoch, so
a resumed run sees the same data without any generator state in the checkpoint.
Initial weights and the held-out test stream are drawn on the CPU and do not
depend on the device; training batches are made on the device.
"""

import ctypes
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from rankattn import checkpoint, targets, tasks
from rankattn.cost import batch_parts
from rankattn.encoder import Encoder, initial_weights
from rankattn.optimiser import Adam
from rankattn.runs import Run
from rankattn.schedule import learning_rate
from rankattn.seeding import torch_generator

# The authors' data loader had this many workers; worker k of seed s drew from stream s + k.
PUBLISHED_WORKERS = 7
# Of malloc.h.
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1


@dataclass
class State:
    """All that changes while training; what a checkpoint holds."""

    flat: Tensor  # weights (R, P)
    moments: tuple[Tensor, Tensor]  # Adam's two moments, each (R, P)
    epoch: int = 0  # epochs done
    history: list[dict] = field(default_factory=list)  # one row per epoch and seed


def resolve_device(name: str) -> torch.device:
    """``auto`` takes a GPU when there is one; ``cuda`` without one raises ValueError."""
    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device = {name!r}: use auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device = 'cuda', but this machine has no usable GPU: use device=cpu or device=auto")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def use_threads(threads: int) -> None:
    """Settings of a training process: its threads, no denormals (a hot softmax is full of them), memory kept.

    glibc gives large blocks back to the system when they are freed; getting them again at every operation
    takes longer than the operation. Elsewhere than on glibc nothing is changed.
    """
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 2**30)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def initial_state(run: Run) -> State:
    """Fresh weights: one per seed (``corrected``) or the same for all seeds (``published``)."""
    shared = run.training.protocol == "published"
    model = run.resolved()["model"]
    rows = []
    for seed in run.seeds:
        generator = torch_generator(model, "init", *(() if shared else (seed,)))
        rows.append(initial_weights(run.architecture, generator, run.training.protocol))
    flat = torch.stack(rows)
    return State(flat, (torch.zeros_like(flat), torch.zeros_like(flat)))


def streams(run: Run, epoch: int, device: torch.device) -> list[list[torch.Generator]]:
    """Generators of an epoch, one list per step modulo its length, with one generator per replica."""
    workers = PUBLISHED_WORKERS if run.training.protocol == "published" else 1
    key = (run.target, run.resolved()["model"], "data")
    return [
        [torch_generator(*key, seed + worker, epoch, device=device) for seed in run.seeds] for worker in range(workers)
    ]


def labelled(run: Run, points: Tensor) -> tuple[Tensor, Tensor]:
    """Target vectors (..., N, d) and their indices (..., N) for points (..., N, d)."""
    index = targets.TARGETS[run.target](points)
    return tasks.gather_points(points, index), index


def gradient(run: Run, encoder: Encoder, points: Tensor, parts: int) -> Tensor:
    """Fill ``encoder.gradient`` from a batch (R, B, N, d); returns the loss of every replica (R,)."""
    target, _ = labelled(run, points)
    tokens = points.shape[1] * points.shape[2]
    total = torch.zeros_like(points[:, 0, 0, 0])
    encoder.gradient.zero_()
    for x, y in zip(points.chunk(parts, 1), target.chunk(parts, 1), strict=True):
        output, tape = encoder.forward(x)
        difference = output - y
        total += difference.square().sum(dim=(1, 2, 3)) / tokens
        encoder.backward(tape, difference * (2 / tokens))
    return total


@torch.inference_mode()
def _epoch(run: Run, encoder: Encoder, adam: Adam, epoch: int, rate: float) -> Tensor:
    """One epoch; returns the mean loss of every replica (R,) on the CPU (the only synchronisation)."""
    generators = streams(run, epoch, encoder.flat.device)
    shape = (run.training.batch_size, run.architecture.points, run.architecture.dim)
    parts = batch_parts(run)
    total = torch.zeros(encoder.replicas, device=encoder.flat.device)
    for step in range(run.training.steps_per_epoch):
        total += gradient(run, encoder, tasks.sphere(shape, generators[step % len(generators)]), parts)
        adam.step(encoder.gradient, rate)
    return (total / run.training.steps_per_epoch).cpu()


def adam_of(run: Run, encoder: Encoder, state: State) -> Adam:
    """Adam on the flat weights, with the state's moments and step count put back."""
    recipe = run.training
    adam = Adam(encoder.flat, (recipe.beta1, recipe.beta2), recipe.epsilon)
    adam.first.copy_(state.moments[0])
    adam.second.copy_(state.moments[1])
    adam.steps = state.epoch * recipe.steps_per_epoch
    return adam


def train(
    run: Run,
    device: torch.device,
    saved: Path | None = None,
    stamp: str = "",
    save_seconds: float = 60.0,
    report: Callable[[State, int], None] = lambda state, epochs: None,
) -> State:
    """Train all replicas; returns the final state, on the CPU.

    ``saved`` is a checkpoint file, written at most every ``save_seconds``
    and resumed from if its stamp equals ``stamp``. ``report`` is called after every epoch.
    """
    recipe = run.training
    state = (checkpoint.load(saved, stamp) if saved else None) or initial_state(run)
    encoder = Encoder(run.architecture, state.flat.to(device))
    adam = adam_of(run, encoder, state)
    last_save = time.monotonic()
    for epoch in range(state.epoch, recipe.epochs):
        rate = learning_rate(epoch, recipe.epochs, recipe.learning_rate, recipe.warmup, recipe.final_rate)
        start = time.perf_counter()
        losses = _epoch(run, encoder, adam, epoch, rate).tolist()
        seconds = time.perf_counter() - start
        for seed, loss in zip(run.seeds, losses, strict=True):
            row = {"seed": seed, "epoch": epoch, "learning_rate": rate, "training_error": loss, "seconds": seconds}
            state.history.append(row)
        state.epoch = epoch + 1
        report(state, recipe.epochs)
        if saved and state.epoch < recipe.epochs and time.monotonic() - last_save >= save_seconds:
            checkpoint.save(saved, stamp, _on_cpu(encoder, adam, state))
            last_save = time.monotonic()
    return _on_cpu(encoder, adam, state)


def _on_cpu(encoder: Encoder, adam: Adam, state: State) -> State:
    return State(encoder.flat.cpu(), (adam.first.cpu(), adam.second.cpu()), state.epoch, state.history)
