"""Softmax attention for many small heads, exact and with bounded memory.

Layout. Everything is stored features first and batch last: queries, keys and
values are (G, r, N, B) with G groups (replicas times heads), rank r, N points
and B sequences. At rank 1 to 4 and N up to 16, the shapes of this paper, an
N x r by r x N product is too small for a matrix library: one call per sequence
and head costs more than its arithmetic. With the batch innermost the same
sums are long vector operations.

Memory. Weights (G, N, N, B) are never all in memory: groups are handled a few
at a time (so that their weights stay in cache) and recomputed in the backward
pass. Groups do not interact, so this changes no result.
"""

import torch
from torch import Tensor

# Attention weights in flight at once. On a CPU 1 MB stays in the cache of one
# core; on a GPU a large slice is needed to fill it.
SLICE = {"cpu": 2**18, "cuda": 2**26}
# From this rank on, and for more than 4 points, matrix products are faster.
MATMUL_RANK = 8


def _products(a: Tensor, b: Tensor) -> Tensor:
    """All inner products <a_i, b_j>: (g, r, N, B) twice to (g, N, N, B)."""
    out = a[:, 0, :, None] * b[:, 0, None]
    for c in range(1, a.shape[1]):
        out.addcmul_(a[:, c, :, None], b[:, c, None])
    return out


def _mix(weights: Tensor, values: Tensor, out: Tensor, over: int) -> None:
    """``out[:, c] = sum over axis `over` of weights * values[:, c]``; over 2 sums keys, 1 queries."""
    for c in range(values.shape[1]):
        value = values[:, c, None] if over == 2 else values[:, c, :, None]
        out[:, c] = (weights * value).sum(dim=over)


def _softmax_(scores: Tensor) -> Tensor:
    """Softmax over the keys (axis 2) in place."""
    scores.sub_(scores.amax(dim=2, keepdim=True)).exp_()
    return scores.div_(scores.sum(dim=2, keepdim=True))


def attention_weights(q: Tensor, k: Tensor) -> Tensor:
    """Softmax weights (G, N queries, N keys, B) of q, k (G, r, N, B), scores <q, k> / sqrt(r)."""
    return _softmax_(_products(q * q.shape[1] ** -0.5, k))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = torch.empty_like(q)
        for s in _slices(q):
            if _use_matmul(q):
                out[s] = _inner((_outer(q[s]) @ _outer(k[s]).mT).softmax(-1) @ _outer(v[s]))
            else:
                _mix(_softmax_(_products(q[s], k[s])), v[s], out[s], over=2)
        ctx.save_for_backward(q, k, v, out)
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, out = ctx.saved_tensors
        grad = grad.contiguous()
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        # Softmax backward: dS = P * (dP - <grad, out>), with one number per query and head.
        offset = (grad * out).sum(dim=1)
        for s in _slices(q):
            if _use_matmul(q):
                qs, ks, vs, gs = (_outer(t[s]) for t in (q, k, v, grad))
                weights = (qs @ ks.mT).softmax(-1)
                dv[s] = _inner(weights.mT @ gs)
                ds = (gs @ vs.mT).sub_(offset[s].permute(0, 2, 1)[..., None]).mul_(weights)
                dq[s], dk[s] = _inner(ds @ ks), _inner(ds.mT @ qs)
            else:
                weights = _softmax_(_products(q[s], k[s]))
                _mix(weights, grad[s], dv[s], over=1)
                ds = _products(grad[s], v[s]).sub_(offset[s][:, :, None]).mul_(weights)
                _mix(ds, k[s], dq[s], over=2)
                _mix(ds, q[s], dk[s], over=1)
        return dq, dk, dv


def _use_matmul(q: Tensor) -> bool:
    return q.is_cuda or (q.shape[1] >= MATMUL_RANK and q.shape[2] > 4)


def _slices(q: Tensor) -> list[slice]:
    groups, _, points, batch = q.shape
    step = max(1, SLICE[q.device.type] // (points * points * batch))
    return [slice(start, start + step) for start in range(0, groups, step)]


def _outer(x: Tensor) -> Tensor:
    """(g, r, N, B) to (g, B, N, r), the layout of matrix products."""
    return x.permute(0, 3, 2, 1).contiguous()


def _inner(x: Tensor) -> Tensor:
    """Back to (g, r, N, B)."""
    return x.permute(0, 3, 2, 1)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention of every group (paper, section 2): q, k, v (G, r, N, B) to (G, r, N, B).

    Scores are <q, k> / sqrt(r). Differentiable once in all three arguments.
    """
    return _Attention.apply(q * q.shape[1] ** -0.5, k, v)
