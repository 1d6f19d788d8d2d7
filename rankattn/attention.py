"""Softmax attention for many small heads, exact and with bounded memory.

Layout. Everything is stored features first and batch last: queries, keys and
values are (R, H, r, N, B) with R replicas, H heads, rank r, N points and B
sequences. At rank 1 to 4 and N up to 16, the shapes of this paper, an N x r by
r x N product is too small for a matrix library: one call per sequence and head
costs more than its arithmetic. With the batch innermost the same sums are long
vector operations, one multiply-add for every value of the summed index.

Memory. Weights (R, H, N, N, B) are never all in memory: heads are handled a few
at a time (so that their weights stay in cache) and recomputed in the backward
pass. Heads do not interact, so this changes no result.
"""

import torch
from torch import Tensor

# Attention weights in flight at once. On a CPU 1 MB stays in the cache of one
# core; on a GPU a large slice is needed to fill it.
SLICE = {"cpu": 2**18, "cuda": 2**26}
# From this rank on, and for more than 4 points, matrix products are faster.
MATMUL_RANK = 8


def _products(a: Tensor, b: Tensor) -> Tensor:
    """All inner products <a_i, b_j>: (R, h, r, N, B) twice to (R, h, N, N, B)."""
    out = a[:, :, 0, :, None] * b[:, :, 0, None]
    for c in range(1, a.shape[2]):
        out.addcmul_(a[:, :, c, :, None], b[:, :, c, None])
    return out


def _mix(weights: Tensor, values: Tensor, out: Tensor) -> None:
    """``out_i = sum_j weights_ij values_j``: (R, h, N, N, B) and (R, h, r, N, B) to (R, h, r, N, B)."""
    torch.mul(weights[:, :, None, :, 0], values[:, :, :, 0, None], out=out)
    for j in range(1, weights.shape[3]):
        out.addcmul_(weights[:, :, None, :, j], values[:, :, :, j, None])


def attention_weights(q: Tensor, k: Tensor) -> Tensor:
    """Softmax weights (R, H, N queries, N keys, B) of q, k (R, H, r, N, B), scores <q, k> / sqrt(r)."""
    return _products(q * q.shape[2] ** -0.5, k).softmax(dim=3)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv: Tensor) -> Tensor:
        scaled = qkv[:, 0] * qkv.shape[3] ** -0.5
        out = torch.empty_like(scaled)
        for s in _slices(scaled):
            q, k, v = scaled[:, s], qkv[:, 1, s], qkv[:, 2, s]
            if _use_matmul(q):
                out[:, s] = _inner((_outer(q) @ _outer(k).mT).softmax(-1) @ _outer(v))
            else:
                _mix(_products(q, k).softmax(dim=3), v, out[:, s])
        ctx.save_for_backward(qkv, scaled, out)
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        qkv, scaled, out = ctx.saved_tensors
        dqkv = torch.empty_like(qkv)
        # Softmax backward: dS = P * (dP - <grad, out>), with one number per query and head.
        offset = (grad * out).sum(dim=2)
        for s in _slices(scaled):
            q, k, v, g = scaled[:, s], qkv[:, 1, s], qkv[:, 2, s], grad[:, s]
            dq, dk, dv = dqkv[:, 0, s], dqkv[:, 1, s], dqkv[:, 2, s]
            if _use_matmul(q):
                q, k, v, g = _outer(q), _outer(k), _outer(v), _outer(g)
                weights = (q @ k.mT).softmax(-1)
                ds = (g @ v.mT).sub_(offset[:, s].transpose(2, 3)[..., None]).mul_(weights)
                dq.copy_(_inner(ds @ k)), dk.copy_(_inner(ds.mT @ q)), dv.copy_(_inner(weights.mT @ g))
            else:
                weights = _products(q, k).softmax(dim=3)
                _mix(weights.transpose(2, 3), g, dv)
                ds = _products(g, v).sub_(offset[:, s, :, None]).mul_(weights)
                _mix(ds, k, dq)
                _mix(ds.transpose(2, 3), q, dk)
        dqkv[:, 0].mul_(qkv.shape[3] ** -0.5)
        return dqkv


def _use_matmul(q: Tensor) -> bool:
    return q.is_cuda or (q.shape[2] >= MATMUL_RANK and q.shape[3] > 4)


def _slices(q: Tensor) -> list[slice]:
    replicas, heads, _, points, batch = q.shape
    step = max(1, SLICE[q.device.type] // (replicas * points * points * batch))
    return [slice(start, start + step) for start in range(0, heads, step)]


def _outer(x: Tensor) -> Tensor:
    """(R, h, r, N, B) to (R, h, B, N, r), the layout of matrix products."""
    return x.permute(0, 1, 4, 3, 2).contiguous()


def _inner(x: Tensor) -> Tensor:
    """Back to (R, h, r, N, B)."""
    return x.permute(0, 1, 4, 3, 2)


def attend(qkv: Tensor) -> Tensor:
    """Softmax attention of every head (paper, section 2): (R, 3, H, r, N, B) to (R, H, r, N, B).

    Axis 1 holds queries, keys and values; scores are <q, k> / sqrt(r). Differentiable once.
    """
    return _Attention.apply(qkv)
