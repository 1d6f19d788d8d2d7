"""The paper's transformer encoder (section 6): any rank, heads, depth and width.

All seeds of a configuration are trained together. They are *replicas*: every
weight has a leading replica axis R, and nothing mixes replicas.
"""

from math import prod

import torch
from torch import Tensor

from rankattn.architecture import Architecture
from rankattn.attention import attend, attention_weights


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
    checkpoint is one tensor. :meth:`backward` fills ``flat.grad``.
    """

    def __init__(self, arch: Architecture, flat: Tensor) -> None:
        count = sum(prod(shape) for shape in arch.weight_shapes().values())
        if flat.ndim != 2 or flat.shape[1] != count:
            raise ValueError(f"weights of shape {tuple(flat.shape)}: this architecture needs (replicas, {count})")
        self.arch = arch
        self.flat = flat.detach().requires_grad_()
        self.flat.grad = torch.zeros_like(flat)
        self.weights = {k: v.requires_grad_() for k, v in split(arch, self.flat.detach()).items()}
        self.gradients = split(arch, self.flat.grad)

    @property
    def replicas(self) -> int:
        return self.flat.shape[0]

    def __call__(self, points: Tensor) -> Tensor:
        """Outputs (R, B, N, d) for points (R, B, N, d), or (1, B, N, d) shared by all replicas."""
        x = self._embed(points)
        for layer in range(self.arch.layers):
            x = _normalise(x + self._attention(x, layer), self.weights[f"{layer}.norm1"])
            x = _normalise(x + self._feedforward(x, layer), self.weights[f"{layer}.norm2"])
        x = x.unflatten(2, (self.arch.points, -1))
        return x[:, : self.arch.dim].permute(0, 3, 2, 1)

    def backward(self, loss: Tensor, accumulate: bool = False) -> None:
        """Set ``flat.grad`` (and its views ``gradients``) to the gradient of a scalar loss, or add it."""
        gradients = torch.autograd.grad(loss, list(self.weights.values()))
        write = torch._foreach_add_ if accumulate else torch._foreach_copy_
        write(list(self.gradients.values()), list(gradients))

    def first_attention(self, points: Tensor) -> Tensor:
        """Softmax weights of the first layer: (R, H, N queries, N keys, B)."""
        qkv = self._heads(self._embed(points), 0)
        return attention_weights(qkv[:, 0], qkv[:, 1])

    def _embed(self, points: Tensor) -> Tensor:
        """(R, B, N, d) to features first (R, m, N*B), with positions."""
        x = points.permute(0, 3, 2, 1).expand(self.replicas, -1, -1, -1)
        if self.arch.positional_encoding != "none":
            positions = self.weights["positions"].mT.unsqueeze(-1)  # (R, d or p, N, 1)
            if self.arch.positional_encoding == "additive":
                x = x + positions
            else:
                x = torch.cat([x, positions.expand(-1, -1, -1, x.shape[-1])], dim=1)
        return x.reshape(self.replicas, self.arch.model_dim, -1)

    def _heads(self, x: Tensor, layer: int) -> Tensor:
        """Queries, keys and values of all heads: (R, 3, H, r, N, B)."""
        arch = self.arch
        qkv = self._linear(x, f"{layer}.qkv")
        return qkv.view(self.replicas, 3, arch.total_heads, arch.rank, arch.points, -1)

    def _attention(self, x: Tensor, layer: int) -> Tensor:
        heads = attend(self._heads(x, layer))
        heads = heads.view(self.replicas, self.arch.width * self.arch.model_dim, -1)
        out = torch.bmm(self.weights[f"{layer}.out"], heads).div_(self.arch.width)
        return out + self.weights[f"{layer}.out_bias"].mean(dim=1) if self.arch.bias else out

    def _feedforward(self, x: Tensor, layer: int) -> Tensor:
        return self._linear(self._linear(x, f"{layer}.up").relu_(), f"{layer}.down")

    def _linear(self, x: Tensor, name: str) -> Tensor:
        if self.arch.bias:
            return torch.baddbmm(self.weights[f"{name}_bias"], self.weights[name], x)
        return torch.bmm(self.weights[name], x)


def _normalise(x: Tensor, gain: Tensor) -> Tensor:
    """Each token divided by its Euclidean norm, times one learned scalar: x (R, m, T), gain (R, 1)."""
    return x * (gain.unsqueeze(-1) * x.square().sum(dim=1, keepdim=True).rsqrt())
