"""Timing of one case: our step and the reference's in turn, medians, in a process of its own."""

import resource
import time
from collections.abc import Callable, Iterator
from statistics import median

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from rankattn import cost, tasks
from rankattn.bench.cases import Case
from rankattn.encoder import Encoder
from rankattn.reference import ReferenceEncoder, encoder_from, parameters_by_name, stack
from rankattn.runs import Run
from rankattn.training import adam_of, gradient, initial_state, labelled, streams, use_threads

# Largest difference of outputs and gradients from the reference, as a share of their largest value.
TOLERANCE = 1e-4
MATRIX = 1536  # rows and columns of the matrix product that sets the scale


class Disagreement(Exception):
    """The fast path and the reference do not compute the same."""


class OneByOne(IterableDataset):
    """Samples made one at a time, as a data set usually is."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        arch = self.run.architecture
        while True:
            points = torch.nn.functional.normalize(torch.randn(arch.points, arch.dim), dim=-1)
            yield points, labelled(self.run, points)[0]


class Reference:
    """The literal encoder driven in the usual way: data loader, module for each copy, ``torch.optim.Adam``."""

    def __init__(self, run: Run, device: torch.device) -> None:
        self.device, self.model = device, ReferenceEncoder(run.architecture).to(device)
        betas = (run.training.beta1, run.training.beta2)
        self.adam = torch.optim.Adam(self.model.parameters(), lr=run.training.learning_rate, betas=betas)
        self.batches = iter(DataLoader(OneByOne(run), batch_size=run.training.batch_size))

    def step(self) -> None:
        points, target = (x.to(self.device) for x in next(self.batches))
        self.adam.zero_grad()
        tasks.error(self.model(points), target).mean().backward()
        self.adam.step()


class Ours:
    """The steps of ``rankattn.training``, whole and in phases."""

    def __init__(self, run: Run, device: torch.device) -> None:
        self.run, self.parts = run, cost.batch_parts(run)
        state = initial_state(run)
        self.encoder = Encoder(run.architecture, state.flat.to(device))
        self.adam = adam_of(run, self.encoder, state)
        self.streams = streams(run, 0, device)[0]
        self.shape = (run.training.batch_size, run.architecture.points, run.architecture.dim)
        self.points = tasks.sphere(self.shape, self.streams).chunk(self.parts, 1)
        self.tapes: list = []

    def step(self) -> None:
        gradient(self.run, self.encoder, tasks.sphere(self.shape, self.streams), self.parts)
        self.adam.step(self.encoder.gradient, 1e-4)

    def data(self) -> None:
        labelled(self.run, tasks.sphere(self.shape, self.streams))

    def forward(self) -> None:
        self.tapes.append(self.encoder.forward(self.points[0]))

    def backward(self) -> None:
        output, tape = self.tapes.pop()
        self.encoder.backward(tape, output)

    def optimiser(self) -> None:
        self.adam.step(self.encoder.gradient, 1e-4)


def check_equal(run: Run, device: torch.device) -> None:
    """Outputs and gradients of the fast path are those of the reference; raises Disagreement."""
    torch.manual_seed(0)
    model = ReferenceEncoder(run.architecture).to(device)
    encoder = encoder_from([model])
    shape = (2, run.architecture.points, run.architecture.dim)
    points = tasks.sphere(shape, [torch.Generator(device).manual_seed(0)])
    expected = model(points[0])
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    output, tape = encoder.forward(points)
    encoder.backward(tape, weight.unsqueeze(0))
    pairs = {"output": (output[0], expected)}
    for name, parameters in parameters_by_name(model).items():
        # A bias of the keys shifts all scores of a query alike, so its true gradient is zero and ours may be noise.
        pairs[name] = (encoder.gradients[name][0], stack(name, [parameter.grad for parameter in parameters]))
    scale = max(want.abs().max().item() for _, want in pairs.values())
    for name, (got, want) in pairs.items():
        difference = (got - want).abs().max().item()
        if not difference <= TOLERANCE * scale:
            raise Disagreement(f"{name} differs by {difference:.2g} from the reference (largest value {scale:.2g})")


def measure(case: Case, device_name: str, threads: int, seconds: float) -> dict:
    """One row of the benchmark: times in ms per step of all seeds (medians), memory in MiB.

    Our step, the reference's and a matrix product alternate until ``seconds`` are over, three
    rounds at least. The reference trains one seed; its time is multiplied by the seeds. Raises
    Disagreement before anything is timed if the two do not compute the same.
    """
    use_threads(threads)
    device, run = torch.device(device_name), case.run
    before = _peak_memory(device)
    with torch.inference_mode():
        ours = Ours(run, device)
        for _ in range(2):
            ours.step()
    memory = _peak_memory(device) - before
    if case.against_reference:
        check_equal(run, device)
    timed: dict[str, Callable[[], None]] = {
        name: torch.inference_mode()(getattr(ours, name))
        for name in ("step", "data", "forward", "backward", "optimiser")
    }
    if case.against_reference:
        timed["reference"] = Reference(run, device).step
        timed["reference"]()
    matrices = [torch.randn(MATRIX, MATRIX, device=device) for _ in range(2)]
    timed["matrix"] = lambda: torch.mm(*matrices)
    times = _alternate(timed, device, seconds)
    parts = {
        name: median(values) * (ours.parts if name in ("forward", "backward") else 1) for name, values in times.items()
    }
    arch, replicas = run.architecture, len(run.seeds)
    rate = 2 * MATRIX**3 / parts.pop("matrix")
    dense = 3 * cost.dense_flops(arch, run.training.batch_size) * replicas
    reference = parts.pop("reference", float("nan")) * replicas
    return {
        "group": case.group,
        "case": case.name,
        "axis": case.axis,
        "value": case.value,
        "heads": arch.total_heads,
        "rank": arch.rank,
        "width": arch.width,
        "layers": arch.layers,
        "replicas": replicas,
        **{f"{name}_ms": 1e3 * value for name, value in parts.items()},
        "reference_ms": 1e3 * reference,
        "speedup": reference / parts["step"],
        "dense_gflops": dense / 1e9,
        "matrix_gflop_per_s": rate / 1e9,
        "share_of_matrix_rate": dense / parts["step"] / rate,
        "memory_mib": memory / 2**20,
        "predicted_mib": cost.peak_bytes(run) / 2**20,
    }


def _alternate(timed: dict[str, Callable[[], None]], device: torch.device, seconds: float) -> dict[str, list[float]]:
    """Seconds of every call, in turn; quick ones several times in a row."""
    times: dict[str, list[float]] = {name: [] for name in timed}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["step"]) < 3:
        for name, call in timed.items():
            for _ in range(5 if times[name] and times[name][0] < 0.02 and name not in ("forward", "backward") else 1):
                _wait(device)
                start = time.perf_counter()
                call()
                _wait(device)
                times[name].append(time.perf_counter() - start)
    return times


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _peak_memory(device: torch.device) -> int:
    """Largest memory so far in bytes: of the device's allocator, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
