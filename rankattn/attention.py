"""Softmax attention for many small heads, exact and with bounded memory.

Layout. Queries, keys and values are (R, H, r, N, B): features first and batch
last, with R replicas, H heads, rank r, N points and B sequences. At the shapes
of this paper (up to 16 points) an N x r by r x N product is too small for a
matrix library: one call per sequence and head costs more than its arithmetic.
With the batch innermost, scores and weighted sums are one product and one sum
over long vectors (:class:`Elementwise`). Long contexts are turned to matrices
(:class:`Matrices`).

Memory. Products (R, H, r, N, N, B) and weights (R, H, N, N, B) are never all in
memory when they are large: blocks of a few heads (and, where one head is already
much, of one replica and a few sequences) are handled one after the other, so
small that they stay in cache, and recomputed in the backward pass. Blocks do not
interact, so this changes no result.

Arithmetic. Exponentials are taken to base 2, which is twice as fast on a CPU as
to base e (the factor log2(e) goes into the scale of the queries), and the
softmax is never divided out: outputs and their gradients are, which have r
numbers for a query where weights have N.
"""

from itertools import product
from math import e as EULER
from math import log2

import torch
from torch import Tensor

from rankattn import cost

# From this rank and this many points on, matrix products are faster.
MATRIX_RANK, MATRIX_POINTS = 8, {"cpu": 32, "cuda": 4}


class Elementwise:
    """Vectors (R, h, r, N, B) and weights (R, h, N queries, N keys, B)."""

    keys = 3  # axis

    @staticmethod
    def enter(x: Tensor) -> Tensor:
        """Vectors (R, h, r, N, B) in this layout."""
        return x

    @staticmethod
    def swap(x: Tensor) -> Tensor:
        """One number per query, (R, h, 1, N, B), to go with the weights."""
        return x.transpose(2, 3)

    @staticmethod
    def products(a: Tensor, b: Tensor) -> Tensor:
        """All inner products <a_i, b_j>."""
        products = a.unsqueeze(4) * b.unsqueeze(3)
        return products.squeeze(2) if a.shape[2] == 1 else products.sum(dim=2)

    @staticmethod
    def over_keys(weights: Tensor, values: Tensor, out: Tensor) -> None:
        """``out_i = sum_j weights_ij values_j``, into (R, h, r, N, B)."""
        torch.sum(weights.unsqueeze(2) * values.unsqueeze(3), 4, out=out)

    @staticmethod
    def over_queries(weights: Tensor, values: Tensor, out: Tensor) -> None:
        """``out_j = sum_i weights_ij values_i``, into (R, h, r, N, B)."""
        torch.sum(weights.unsqueeze(2) * values.unsqueeze(4), 3, out=out)


class Matrices:
    """Vectors (R, h, B, N, r) and weights (R, h, B, N queries, N keys); the same operations."""

    keys = 4

    @staticmethod
    def enter(x: Tensor) -> Tensor:
        return x.permute(0, 1, 4, 3, 2).contiguous()

    @staticmethod
    def swap(x: Tensor) -> Tensor:
        return x.permute(0, 1, 4, 3, 2)

    @staticmethod
    def products(a: Tensor, b: Tensor) -> Tensor:
        return a @ b.mT

    @staticmethod
    def over_keys(weights: Tensor, values: Tensor, out: Tensor) -> None:
        out.copy_((weights @ values).permute(0, 1, 4, 3, 2))

    @staticmethod
    def over_queries(weights: Tensor, values: Tensor, out: Tensor) -> None:
        out.copy_((weights.mT @ values).permute(0, 1, 4, 3, 2))


def attention_weights(q: Tensor, k: Tensor) -> Tensor:
    """Softmax weights (R, H, N queries, N keys, B) of q, k (R, H, r, N, B), scores <q, k> / sqrt(r)."""
    return Elementwise.products(q * q.shape[2] ** -0.5, k).softmax(dim=3)


def attend(qkv: Tensor) -> Tensor:
    """Softmax attention of every head (paper, section 2): (R, 3, H, r, N, B) to (R, H, r, N, B).

    Axis 1 holds queries, keys and values; scores are <q, k> / sqrt(r).
    """
    return forward(qkv)[0]


def forward(qkv: Tensor) -> tuple[Tensor, tuple]:
    """:func:`attend` and what :func:`backward` needs."""
    layout = _layout(qkv)
    scaled = qkv[:, 0] * (log2(EULER) * qkv.shape[3] ** -0.5)
    out, totals, kept = torch.empty_like(scaled), torch.empty_like(scaled[:, :, :1]), []
    for block in _blocks(qkv):
        q, k, v = (layout.enter(x[block]) for x in (scaled, qkv[:, 1], qkv[:, 2]))
        weights = layout.products(q, k)
        peak = weights.amax(dim=layout.keys, keepdim=True)
        weights.sub_(peak).exp2_()
        layout.swap(totals[block]).copy_(weights.sum(dim=layout.keys, keepdim=True))
        layout.over_keys(weights, v, out[block])
        kept.append((weights if _keep(qkv) else None, peak))
    return out.div_(totals), (qkv, scaled, out, totals, kept)


def backward(saved: tuple, grad: Tensor) -> Tensor:
    """Gradient with respect to qkv (R, 3, H, r, N, B) from that of the output (R, H, r, N, B)."""
    qkv, scaled, out, totals, kept = saved
    layout, dqkv, grad = _layout(qkv), torch.empty_like(qkv), grad / totals
    # Softmax backward: dS = P * (dP - <grad, out>), with one number per query and head.
    offsets = (grad * out).sum(dim=2, keepdim=True)
    for block, (weights, peak) in zip(_blocks(qkv), kept, strict=True):
        q, k, v, g = (layout.enter(x[block]) for x in (*qkv.unbind(1), grad))
        dq, dk, dv = (x[block] for x in dqkv.unbind(1))
        if weights is None:
            weights = layout.products(layout.enter(scaled[block]), k).sub_(peak).exp2_()
        layout.over_queries(weights, g, dv)
        ds = layout.products(g, v).sub_(layout.swap(offsets[block])).mul_(weights)
        layout.over_keys(ds, k, dq)
        layout.over_queries(ds, q, dk)
    dqkv[:, :2].mul_(qkv.shape[3] ** -0.5)
    return dqkv


def _layout(qkv: Tensor) -> type[Elementwise] | type[Matrices]:
    rank, points = qkv.shape[3:5]
    return Matrices if rank >= MATRIX_RANK and points >= MATRIX_POINTS[qkv.device.type] else Elementwise


def _blocks(qkv: Tensor) -> list[tuple[slice, ...]]:
    """Indices into (R, H, r, N, B) of blocks whose products are about ``cost.SLICES`` numbers at most."""
    replicas, _, heads, rank, points, batch = qkv.shape
    room = max(1, cost.SLICES[qkv.device.type] // (rank * points**2))  # sequences of one head
    steps = (replicas, max(1, room // (replicas * batch)), batch)
    if replicas * batch > 2 * room:  # one head of all replicas is already much
        steps = (1, 1, min(batch, max(64, room)))  # shorter vectors are slow
    ranges = [
        [slice(start, start + step) for start in range(0, size, step)]
        for size, step in zip((replicas, heads, batch), steps, strict=True)
    ]
    return [(r, h, slice(None), slice(None), b) for r, h, b in product(*ranges)]


def _keep(qkv: Tensor) -> bool:
    replicas, _, heads, _, points, batch = qkv.shape
    return replicas * heads * points * points * batch <= cost.KEPT_WEIGHTS
