"""The parts of an encoder layer, each with its gradient written out.

Activations are features first, (R, m, T): R replicas, m coordinates, T tokens
ordered (N points, B sequences). Every part has ``forward(x)``, which returns its
output and what the gradient needs, and ``backward(saved, grad)``, which adds to
the gradients of its weights and returns the gradient of x. Written out, a step
is a short list of large operations: no graph, no copies of gradients, and sums
that go straight into the matrix products.
"""

import torch
from torch import Tensor

from rankattn import attention
from rankattn.architecture import Architecture

# Hidden activations in flight at once: 1 MB on a CPU, to stay in cache; a GPU takes all it is given.
HIDDEN = {"cpu": 2**18, "cuda": 2**40}


class Part:
    """Weights of one layer by their short names (``qkv``, ``up``, ...), and their gradients."""

    def __init__(self, arch: Architecture, weights: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        self.arch, self.weights, self.gradients = arch, weights, gradients

    def _linear(self, name: str, x: Tensor) -> Tensor:
        if self.arch.bias:
            return torch.baddbmm(self.weights[f"{name}_bias"], self.weights[name], x)
        return torch.bmm(self.weights[name], x)

    def _linear_gradients(self, name: str, x: Tensor, grad: Tensor) -> None:
        self.gradients[name].baddbmm_(grad, x.mT)
        if self.arch.bias:
            self.gradients[f"{name}_bias"] += grad.sum(dim=2, keepdim=True)


class Norm(Part):
    """Each token divided by its Euclidean norm, times one learned scalar (R, 1)."""

    def __init__(self, name: str, *args) -> None:
        super().__init__(*args)
        self.name = name

    def forward(self, x: Tensor) -> tuple[Tensor, tuple]:
        inverse = x.square().sum(dim=1, keepdim=True).rsqrt_()
        scale = inverse * self.weights[self.name].unsqueeze(-1)
        return x * scale, (x, inverse, scale)

    def backward(self, saved: tuple, grad: Tensor) -> Tensor:
        x, inverse, scale = saved
        along = (grad * x).sum(dim=1, keepdim=True).mul_(inverse)  # component of the gradient along x / |x|
        self.gradients[self.name] += along.sum(dim=2)
        return torch.addcmul(grad, x, along.mul_(inverse), value=-1).mul_(scale)


class Feedforward(Part):
    """``x + down(relu(up(x)))``, a few tokens at a time so that the hidden layer stays in cache."""

    def forward(self, x: Tensor) -> tuple[Tensor, tuple]:
        out = x + self.weights["down_bias"] if self.arch.bias else x.clone()
        hidden = []
        for part in self._parts(x):
            hidden.append(self._linear("up", x[:, :, part]).relu_())
            out[:, :, part].baddbmm_(self.weights["down"], hidden[-1])
        return out, (x, hidden)

    def backward(self, saved: tuple, grad: Tensor) -> Tensor:
        x, hidden = saved
        out = grad.clone()
        for part, h in zip(self._parts(x), hidden, strict=True):
            self._linear_gradients("down", h, grad[:, :, part])
            dh = torch.bmm(self.weights["down"].mT, grad[:, :, part])
            torch.ops.aten.threshold_backward.grad_input(dh, h, 0, grad_input=dh)
            self._linear_gradients("up", x[:, :, part], dh)
            out[:, :, part].baddbmm_(self.weights["up"].mT, dh)
        return out

    def _parts(self, x: Tensor) -> list[slice]:
        tokens = x.shape[2]
        step = max(64, HIDDEN[x.device.type] // (x.shape[0] * self.arch.feedforward))
        return [slice(start, min(start + step, tokens)) for start in range(0, tokens, step)]


class Attention(Part):
    """``x`` plus the average of w attention modules of any rank (paper, section 2)."""

    def forward(self, x: Tensor) -> tuple[Tensor, tuple]:
        heads, saved = attention.forward(self.heads(x))
        heads = heads.view(x.shape[0], -1, x.shape[2])
        out = torch.baddbmm(x, self.weights["out"], heads, alpha=1 / self.arch.width)
        if self.arch.bias:
            out += self.weights["out_bias"].sum(dim=1).div_(self.arch.width)
        return out, (x, heads, saved)

    def backward(self, saved: tuple, grad: Tensor) -> Tensor:
        x, heads, saved = saved
        self._out_bias_gradient(grad)
        self.gradients["out"].baddbmm_(grad, heads.mT, alpha=1 / self.arch.width)
        dheads = torch.bmm(self.weights["out"].mT, grad * (1 / self.arch.width))
        dqkv = attention.backward(saved, dheads.view_as(saved[1])).view(x.shape[0], -1, x.shape[2])
        self._linear_gradients("qkv", x, dqkv)
        return torch.baddbmm(grad, self.weights["qkv"].mT, dqkv)

    def heads(self, x: Tensor) -> Tensor:
        """Queries, keys and values of all heads: (R, 3, H, r, N, B)."""
        arch = self.arch
        return self._linear("qkv", x).view(x.shape[0], 3, arch.total_heads, arch.rank, arch.points, -1)

    def _out_bias_gradient(self, grad: Tensor) -> None:
        if self.arch.bias:
            self.gradients["out_bias"] += grad.sum(dim=2, keepdim=True).unsqueeze(1) / self.arch.width
