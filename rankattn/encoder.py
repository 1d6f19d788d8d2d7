"""The paper's transformer encoder (section 6): any rank, heads, depth and width.

All seeds of a configuration are trained together. They are *replicas*: every
weight has a leading replica axis R, and nothing mixes replicas.
"""

from math import prod

import torch
from torch import Tensor

from rankattn.architecture import Architecture
from rankattn.attention import attention_weights
from rankattn.folded import FoldedAttention
from rankattn.layers import Attention, Feedforward, Norm, Part

# From this rank on, the matrix products of folded full-rank heads are faster.
FOLDED_DIM = 32


def initial_weights(arch: Architecture, generator: torch.Generator, protocol: str = "corrected") -> Tensor:
    """Flat initial weights (P,) of one replica, drawn on the CPU (spec: as PyTorch's own modules).

    qkv Xavier-uniform over each module's (3m, m) matrix, output projections
    uniform +-1/sqrt(m), linear layers uniform +-1/sqrt(fan_in), attention
    biases 0, norms 1, positions uniform(-1, 1) when concatenated and normal
    when added. ``published``: all layers start as copies of the first and added
    positions have mean -1; ``corrected``: independent layers, mean 0.
    """
    m, f = arch.model_dim, arch.feedforward
    bounds = {"qkv": (6 / (4 * m)) ** 0.5, "out": m**-0.5, "up": m**-0.5, "down": f**-0.5}
    bounds |= {"up_bias": bounds["up"], "down_bias": bounds["down"]}
    parts: dict[str, Tensor] = {}
    for name, shape in arch.weight_shapes().items():
        layer, _, kind = name.rpartition(".")
        value = torch.zeros(shape)
        if protocol == "published" and layer not in ("", "0"):
            value = parts[f"0.{kind}"].clone()
        elif kind in bounds:
            value.uniform_(-bounds[kind], bounds[kind], generator=generator)
        elif kind in ("norm1", "norm2"):
            value.fill_(1.0)
        elif kind == "positions" and arch.positional_encoding == "concatenated":
            value.uniform_(-1, 1, generator=generator)
        elif kind == "positions":
            value.normal_(-1.0 if protocol == "published" else 0.0, 1.0, generator=generator)
        parts[name] = value
    return torch.cat([part.flatten() for part in parts.values()])


def split(arch: Architecture, flat: Tensor) -> dict[str, Tensor]:
    """Views of flat weights (R, P) by name, each (R, *shape)."""
    shapes = arch.weight_shapes()
    parts = flat.split([prod(shape) for shape in shapes.values()], dim=1)
    return {name: part.unflatten(1, shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


class Encoder:
    """R replicas of one architecture.

    ``flat`` (R, P) holds all weights, one row per replica; ``weights`` are
    views into it, so one optimiser step on ``flat`` updates everything and a
    checkpoint is one tensor. :meth:`backward` adds to ``gradient`` (R, P), whose
    views are ``gradients``.
    """

    def __init__(self, arch: Architecture, flat: Tensor) -> None:
        count = sum(prod(shape) for shape in arch.weight_shapes().values())
        if flat.ndim != 2 or flat.shape[1] != count:
            raise ValueError(f"weights of shape {tuple(flat.shape)}: this architecture needs (replicas, {count})")
        self.arch = arch
        self.flat = flat.detach()
        self.gradient = torch.zeros_like(self.flat)
        self.weights = split(arch, self.flat)
        self.gradients = split(arch, self.gradient)
        self.parts = [part for layer in range(arch.layers) for part in self._layer(layer)]

    def _layer(self, layer: int) -> list[Part]:
        """Attention, norm, feedforward, norm (post-norm, as in the paper)."""
        own = [
            {name.partition(".")[2]: value for name, value in values.items() if name.startswith(f"{layer}.")}
            for values in (self.weights, self.gradients)
        ]
        folded = self.arch.rank == self.arch.model_dim >= FOLDED_DIM
        attention = FoldedAttention if folded else Attention
        return [
            attention(self.arch, *own),
            Norm("norm1", self.arch, *own),
            Feedforward(self.arch, *own),
            Norm("norm2", self.arch, *own),
        ]

    @property
    def replicas(self) -> int:
        return self.flat.shape[0]

    def __call__(self, points: Tensor) -> Tensor:
        """Outputs (R, B, N, d) for points (R, B, N, d), or (1, B, N, d) shared by all replicas."""
        x = self._embed(points)
        for part in self.parts:
            x, _ = part.forward(x)
        return self._read(x)

    def forward(self, points: Tensor) -> tuple[Tensor, list]:
        """The outputs, and what :meth:`backward` needs."""
        x, tape = self._embed(points), []
        for part in self.parts:
            x, saved = part.forward(x)
            tape.append(saved)
        return self._read(x), tape

    def backward(self, tape: list, grad: Tensor) -> None:
        """Add to ``gradient`` (and its views ``gradients``) from the gradient (R, B, N, d) of the outputs."""
        arch = self.arch
        grad = grad.permute(0, 3, 2, 1).reshape(self.replicas, arch.dim, -1)
        if arch.model_dim > arch.dim:  # outputs leave the positional coordinates out
            grad = torch.nn.functional.pad(grad, (0, 0, 0, arch.model_dim - arch.dim))
        for part in reversed(self.parts):
            grad = part.backward(tape.pop(), grad)
        if arch.positional_encoding != "none":
            rows = grad[:, -self.weights["positions"].shape[2] :]
            self.gradients["positions"] += rows.unflatten(2, (arch.points, -1)).sum(dim=3).mT

    def first_attention(self, points: Tensor) -> Tensor:
        """Softmax weights of the first layer: (R, H, N queries, N keys, B)."""
        qkv = self.parts[0].heads(self._embed(points))
        return attention_weights(qkv[:, 0], qkv[:, 1])

    def _embed(self, points: Tensor) -> Tensor:
        """(R, B, N, d) to features first (R, m, N B), with positions."""
        x = points.permute(0, 3, 2, 1).expand(self.replicas, -1, -1, -1)
        if self.arch.positional_encoding != "none":
            positions = self.weights["positions"].mT.unsqueeze(-1)  # (R, d or p, N, 1)
            if self.arch.positional_encoding == "additive":
                x = x + positions
            else:
                x = torch.cat([x, positions.expand(-1, -1, -1, x.shape[-1])], dim=1)
        return x.reshape(self.replicas, self.arch.model_dim, -1)

    def _read(self, x: Tensor) -> Tensor:
        """Features first to (R, B, N, d), without the positional coordinates."""
        return x[:, : self.arch.dim].unflatten(2, (self.arch.points, -1)).permute(0, 3, 2, 1)
