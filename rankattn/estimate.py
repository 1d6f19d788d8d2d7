"""What a preset will cost, before it starts: jobs, arithmetic, memory and time on this machine.

Time of a training step is modelled as

    a * layers + b * dense FLOPs + c * attention elements

with the three rates fitted (non-negative least squares on relative errors) to
a few short measurements of the preset's own configurations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import nnls

from rankattn import cost
from rankattn.runs import Run
from rankattn.training import resolve_device, train, use_threads

# A calibration step may have at most this many FLOPs (a fraction of a second on one core).
CALIBRATION_FLOPS = 5e9
CALIBRATION_RUNS = 6
# Seconds outside training: start of Python for each job, and theory, notebooks and tables together.
SECONDS_PER_JOB = 6.0
SECONDS_OTHER = 60.0


@dataclass(frozen=True)
class Estimate:
    """Totals of a preset; ``seconds`` is wall time with ``parallel`` jobs at once."""

    configurations: int
    trainings: int
    parameters: int
    flops: float
    largest_job_bytes: int
    parallel: int
    device: str
    seconds: float
    longest_seconds: float
    longest: str


def features(run: Run) -> np.ndarray:
    """Regressors of the time of one step: (3,)."""
    arch, batch, replicas = run.architecture, run.training.batch_size, len(run.seeds)
    elements = arch.rank * cost.attention_weights(arch, batch)
    parts = cost.batch_parts(run)
    return np.array([arch.layers * parts, replicas * cost.dense_flops(arch, batch), replicas * elements], dtype=float)


def seconds_per_step(run: Run, device: torch.device, steps: int = 6) -> float:
    """Measured time of a training step, the first ones left out."""
    short = replace(run.training, epochs=3, steps_per_epoch=max(1, steps // 2))
    history = train(replace(run, training=short), device).history
    return min(row["seconds"] for row in history if row["epoch"] > 0) / short.steps_per_epoch


def shrunk(run: Run) -> Run:
    """The run with one seed and so small a batch that a step stays below ``CALIBRATION_FLOPS``."""
    if cost.step_flops(run) <= CALIBRATION_FLOPS:
        return run
    run = replace(run, seeds=run.seeds[:1])
    while cost.step_flops(run) > CALIBRATION_FLOPS and run.training.batch_size > 1:
        run = replace(run, training=replace(run.training, batch_size=max(1, run.training.batch_size // 2)))
    return run


def calibrate(runs: Sequence[Run], device: torch.device) -> np.ndarray:
    """Fitted rates (3,) from a spread of the runs, large ones shrunk."""
    ordered = sorted(runs, key=cost.step_flops)
    chosen = [shrunk(ordered[int(i)]) for i in np.unique(np.linspace(0, len(runs) - 1, CALIBRATION_RUNS).round())]
    times = np.array([seconds_per_step(run, device) for run in chosen])
    rows = np.stack([features(run) for run in chosen]) / times[:, None]
    scale = rows.max(axis=0)
    return nnls(rows / scale, np.ones(len(chosen)))[0] / scale


def estimate(runs: dict[str, Run], device_name: str, cores: int, threads: int, gpus: int = 1) -> Estimate:
    """Totals and predicted time of training ``runs``, calibrated on this machine."""
    device = resolve_device(device_name)
    use_threads(threads)
    parallel = max(1, gpus if device.type == "cuda" else cores // threads)
    rates = calibrate(list(runs.values()), device)
    seconds = {path: float(features(run) @ rates) * run.training.steps for path, run in runs.items()}
    longest = max(seconds, key=seconds.__getitem__)
    training = sum(seconds.values()) + SECONDS_PER_JOB * len(runs)
    return Estimate(
        configurations=len(runs),
        trainings=sum(len(run.seeds) for run in runs.values()),
        parameters=sum(cost.parameters(run.architecture) * len(run.seeds) for run in runs.values()),
        flops=float(sum(cost.step_flops(run) * run.training.steps for run in runs.values())),
        largest_job_bytes=max(cost.peak_bytes(run) for run in runs.values()),
        parallel=parallel,
        device=device.type,
        seconds=max(training / parallel, seconds[longest]) + SECONDS_OTHER,
        longest_seconds=seconds[longest],
        longest=longest,
    )
