"""The same encoder written literally with PyTorch's own modules: slow and obvious.

It is the yardstick of the tests and of the benchmark; nothing else uses it.
"""

import torch
from torch import Tensor, nn

from rankattn.architecture import Architecture
from rankattn.encoder import Encoder


class Norm(nn.Module):
    """x / |x| times one learned scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x / x.norm(dim=-1, keepdim=True)


class ReferenceLayer(nn.Module):
    """w separate ``MultiheadAttention`` modules, averaged; then feedforward; post-norm."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        m = arch.model_dim
        self.attention = nn.ModuleList(
            nn.MultiheadAttention(m, arch.heads, bias=arch.bias, batch_first=True) for _ in range(arch.width)
        )
        self.up = nn.Linear(m, arch.feedforward, bias=arch.bias)
        self.down = nn.Linear(arch.feedforward, m, bias=arch.bias)
        self.norm1, self.norm2 = Norm(), Norm()

    def forward(self, x: Tensor) -> Tensor:
        outputs = [module(x, x, x, need_weights=False)[0] for module in self.attention]
        x = self.norm1(x + sum(outputs) / len(outputs))
        return self.norm2(x + self.down(self.up(x).relu()))


class ReferenceEncoder(nn.Module):
    """One replica: (B, N, d) to (B, N, d)."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.arch = arch
        self.layers = nn.ModuleList(ReferenceLayer(arch) for _ in range(arch.layers))
        if arch.positional_encoding == "additive":
            self.positions = nn.Parameter(torch.randn(arch.points, arch.dim))
        if arch.positional_encoding == "concatenated":
            self.positions = nn.Parameter(torch.rand(arch.points, arch.positional_dim) * 2 - 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.arch.positional_encoding == "additive":
            x = x + self.positions
        if self.arch.positional_encoding == "concatenated":
            x = torch.cat([x, self.positions.expand(x.shape[0], -1, -1)], dim=-1)
        for layer in self.layers:
            x = layer(x)
        return x[..., : self.arch.dim]


def parameters_by_name(model: ReferenceEncoder) -> dict[str, list[nn.Parameter]]:
    """Weight names of :class:`Encoder` and the reference's parameters that make them up.

    The qkv weights of several modules are listed module by module; use
    :func:`stack` to bring their values (or gradients) into the encoder's order.
    """
    names: dict[str, list[nn.Parameter]] = {}
    if model.arch.positional_encoding != "none":
        names["positions"] = [model.positions]
    for i, layer in enumerate(model.layers):
        names[f"{i}.qkv"] = [module.in_proj_weight for module in layer.attention]
        names[f"{i}.out"] = [module.out_proj.weight for module in layer.attention]
        names[f"{i}.norm1"], names[f"{i}.norm2"] = [layer.norm1.gain], [layer.norm2.gain]
        names[f"{i}.up"], names[f"{i}.down"] = [layer.up.weight], [layer.down.weight]
        if model.arch.bias:
            names[f"{i}.qkv_bias"] = [module.in_proj_bias for module in layer.attention]
            names[f"{i}.out_bias"] = [module.out_proj.bias for module in layer.attention]
            names[f"{i}.up_bias"], names[f"{i}.down_bias"] = [layer.up.bias], [layer.down.bias]
    return names


def stack(name: str, parts: list[Tensor]) -> Tensor:
    """Join one value per module into the encoder's layout for that weight (no replica axis)."""
    kind = name.rpartition(".")[2]
    if kind in ("qkv", "qkv_bias"):  # (q|k|v, module, head*rank, ...)
        joined = torch.stack([part.unflatten(0, (3, -1)) for part in parts], dim=1).flatten(0, 2)
    elif kind == "out":
        joined = torch.cat(parts, dim=1)
    elif kind == "out_bias":
        joined = torch.stack(parts)
    else:
        joined = parts[0]
    return joined.unsqueeze(-1) if kind.endswith("bias") else joined


def encoder_from(models: list[ReferenceEncoder]) -> Encoder:
    """Fast encoder with the reference models' weights as its replicas."""
    arch = models[0].arch
    rows = []
    for model in models:
        values = {name: stack(name, [p.detach() for p in parts]) for name, parts in parameters_by_name(model).items()}
        rows.append(torch.cat([values[name].flatten() for name in arch.weight_shapes()]))
    return Encoder(arch, torch.stack(rows))
