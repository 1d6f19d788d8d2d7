"""Parameters, arithmetic and memory of a run, from closed formulas.

Conventions: a multiply-add is 2 FLOPs; a backward pass costs twice the forward
pass; attention weights are recomputed in the backward pass when there are many
(see ``rankattn.attention``), which adds one more score product.
"""

from math import prod

from rankattn.architecture import Architecture
from rankattn.runs import Run

FLOAT_BYTES = 4
# Softmax weights of a layer are kept for its backward pass when there are at most so many.
KEPT_WEIGHTS = 2**26
# Products of queries and keys in flight at once: 1 MB on a CPU, to stay in the cache of a core; a GPU needs many
# to be busy.
SLICES = {"cpu": 2**18, "cuda": 2**26}
LARGEST_SLICE = max(SLICES.values())


def attention_parameters(arch: Architecture) -> int:
    """d_model * r * H = w * d_model^2, the figures' "parameters per layer" (one matrix of four)."""
    return arch.model_dim * arch.rank * arch.total_heads


def parameters(arch: Architecture) -> int:
    """All trained numbers of one replica."""
    return sum(prod(shape) for shape in arch.weight_shapes().values())


def dense_flops(arch: Architecture, batch: int) -> int:
    """Forward FLOPs in projections and feedforward for ``batch`` sequences."""
    per_token = 4 * arch.width * arch.model_dim**2 + 2 * arch.model_dim * arch.feedforward
    return 2 * batch * arch.points * arch.layers * per_token


def attention_flops(arch: Architecture, batch: int) -> int:
    """Forward FLOPs in scores and weighted sums for ``batch`` sequences."""
    return 2 * batch * arch.layers * 2 * arch.width * arch.model_dim * arch.points**2


def attention_weights(arch: Architecture, batch: int) -> int:
    """Softmax weights of one forward pass: layers * H * N^2 for every sequence."""
    return batch * arch.layers * arch.total_heads * arch.points**2


def step_flops(run: Run) -> int:
    """FLOPs of one training step of all replicas: forward, backward, recomputed scores."""
    arch, batch = run.architecture, run.training.batch_size
    one = 3 * dense_flops(arch, batch) + 3.5 * attention_flops(arch, batch)
    return int(one) * len(run.seeds)


def fixed_bytes(run: Run) -> int:
    """Weights, gradients, both Adam moments and a temporary of all replicas."""
    return 5 * FLOAT_BYTES * parameters(run.architecture) * len(run.seeds)


def activation_bytes(run: Run, sequences: int) -> int:
    """Memory of the values kept for the backward pass of ``sequences`` sequences of all replicas, and temporaries.

    Every token keeps queries, scaled queries, keys, values and the output of its heads, two numbers for each head
    (peak and sum of its weights), the hidden layer and some vectors; their gradients are alive for one layer at a
    time. Softmax weights are kept only if a layer has at most ``KEPT_WEIGHTS``.
    """
    arch, replicas = run.architecture, len(run.seeds)
    kept = arch.feedforward + arch.model_dim * (8 + 6 * arch.width) + 2 * arch.total_heads
    passing = 2 * arch.feedforward + arch.model_dim * (8 + 6 * arch.width)
    numbers = replicas * sequences * arch.points * (arch.layers * kept + passing)
    weights = replicas * attention_weights(arch, sequences)
    if weights <= KEPT_WEIGHTS * arch.layers:
        numbers += weights
    head = replicas * sequences * arch.rank * arch.points**2
    return FLOAT_BYTES * (numbers + 4 * max(head, min(head * arch.total_heads, LARGEST_SLICE)))


def batch_parts(run: Run, times: int = 1) -> int:
    """Smallest number of equal parts of the batch whose memory stays below the run's ``memory_gib``.

    With ``times``, that many times as many, or the next number that divides the batch. Raises
    ValueError if even single sequences do not fit.
    """
    batch, limit = run.training.batch_size, run.training.memory_gib * 2**30
    divisors = [n for n in range(1, batch + 1) if batch % n == 0]
    for parts in divisors:
        if fixed_bytes(run) + activation_bytes(run, batch // parts) <= limit:
            return next(n for n in divisors if n >= min(parts * times, batch))
    need = (fixed_bytes(run) + activation_bytes(run, 1)) / 2**30
    raise ValueError(f"memory_gib = {run.training.memory_gib}: one sequence already needs {need:.2f} GiB; raise it")


def peak_bytes(run: Run) -> int:
    """Predicted memory of a training step, without the Python process itself (about 0.5 GiB)."""
    return fixed_bytes(run) + activation_bytes(run, run.training.batch_size // batch_parts(run))
