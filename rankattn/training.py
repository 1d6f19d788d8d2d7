"""Training of all seeds of one configuration (paper, section 6), exact to resume.

The random numbers of an epoch come from generators named by seed and epoch, so
a resumed run sees the same data without any generator state in the checkpoint.
Initial weights and the held-out test stream are drawn on the CPU and do not
depend on the device; training batches are made on the device.
"""

import ctypes
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
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

log = logging.getLogger(__name__)

# The authors' data loader had this many workers; worker k of seed s drew from stream s + k.
PUBLISHED_WORKERS = 7
# A batch whose error is above this, or not a number, has diverged (predicting zero errs by 1).
EXPLODED = 1e3
# Longest share of the time that may go into checkpoints.
SAVING_SHARE = 0.005
# Of malloc.h.
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1


@dataclass
class State:
    """All that changes while training; what a checkpoint holds."""

    flat: Tensor  # weights (R, P)
    moments: tuple[Tensor, Tensor]  # Adam's two moments, each (R, P)
    epoch: int = 0  # epochs done
    history: list[dict] = field(default_factory=list)  # one row per epoch and seed
    diverged: dict[int, int] = field(default_factory=dict)  # seed to the step (from 0) where its error exploded
    retried: bool = False  # memory ran out once, and the batch is split into twice as many parts since then


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
def _epoch(run: Run, encoder: Encoder, adam: Adam, epoch: int, rate: float, parts: int) -> Tensor:
    """One epoch; returns the losses (steps, R) on the CPU (the only synchronisation)."""
    generators = streams(run, epoch, encoder.flat.device)
    shape = (run.training.batch_size, run.architecture.points, run.architecture.dim)
    losses = torch.empty(run.training.steps_per_epoch, encoder.replicas, device=encoder.flat.device)
    for step in range(run.training.steps_per_epoch):
        losses[step] = gradient(run, encoder, tasks.sphere(shape, generators[step % len(generators)]), parts)
        adam.step(encoder.gradient, rate)
    return losses.cpu()


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

    ``saved`` is a checkpoint file, written at most every ``save_seconds`` (less often where
    writing would take more than half a percent of the time; 0: after every epoch) and resumed from if its stamp equals
    ``stamp``. ``report`` is called after every epoch. When memory runs out, training goes
    back to the checkpoint once, with the batch split into twice as many parts; the second time
    raises MemoryError.
    """
    try:
        return _train(run, device, saved, stamp, save_seconds, report, False)
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        log.warning("out of memory: going on from the last checkpoint with the batch in twice as many parts")
    if device.type == "cuda":
        torch.cuda.empty_cache()
    try:
        return _train(run, device, saved, stamp, save_seconds, report, True)
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        raise MemoryError("out of memory again, with the batch split further: lower training.memory_gib") from None


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def _train(
    run: Run,
    device: torch.device,
    saved: Path | None,
    stamp: str,
    save_seconds: float,
    report: Callable[[State, int], None],
    retry: bool,
) -> State:
    """:func:`train`, once."""
    recipe = run.training
    state = (checkpoint.load(saved, stamp) if saved else None) or initial_state(run)
    state.retried |= retry
    parts = batch_parts(run, 2 if state.retried else 1)
    encoder = Encoder(run.architecture, state.flat.to(device))
    adam = adam_of(run, encoder, state)
    next_save = time.monotonic() + save_seconds
    for epoch in range(state.epoch, recipe.epochs):
        rate = learning_rate(epoch, recipe.epochs, recipe.learning_rate, recipe.warmup, recipe.final_rate)
        start = time.perf_counter()
        losses = _epoch(run, encoder, adam, epoch, rate, parts)
        seconds = time.perf_counter() - start
        _mark_diverged(run, state, encoder, adam, epoch, losses)
        for seed, loss in zip(run.seeds, losses.mean(dim=0).tolist(), strict=True):
            row = {"seed": seed, "epoch": epoch, "learning_rate": rate, "training_error": loss, "seconds": seconds}
            state.history.append(row)
        state.epoch = epoch + 1
        report(state, recipe.epochs)
        if saved and state.epoch < recipe.epochs and time.monotonic() >= next_save:
            start = time.monotonic()
            checkpoint.save(saved, stamp, _on_cpu(encoder, adam, state))
            end = time.monotonic()
            next_save = end + (max(save_seconds, (end - start) / SAVING_SHARE) if save_seconds else 0)
    return _on_cpu(encoder, adam, state)


@torch.inference_mode()
def _mark_diverged(run: Run, state: State, encoder: Encoder, adam: Adam, epoch: int, losses: Tensor) -> None:
    """Note the step at which a seed's error exploded and end that seed: all its numbers are NaN from then on."""
    bad = ~(losses <= EXPLODED)
    for row, seed in enumerate(run.seeds):
        if bad[:, row].any():
            first = int(bad[:, row].float().argmax())
            state.diverged.setdefault(seed, epoch * run.training.steps_per_epoch + first)
            for values in (encoder.flat, adam.first, adam.second):
                values[row] = float("nan")
            losses[:, row] = float("nan")


def _on_cpu(encoder: Encoder, adam: Adam, state: State) -> State:
    moments = (adam.first.cpu(), adam.second.cpu())
    return replace(state, flat=encoder.flat.cpu(), moments=moments)
