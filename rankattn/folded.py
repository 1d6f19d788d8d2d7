"""Full-rank heads, with two projections instead of four.

A head of rank m scores <W_Q x_i + b_Q, W_K x_j + b_K> = <A x_i + a, x_j> + (a
number that is the same for all keys j, which a softmax does not see) with

    A = W_K^T W_Q,   a = W_K^T b_Q,

and adds C sum_j p_ij x_j + c to the output, with C = W_O W_V and c = W_O b_V.
So keys and values are the points themselves, shared by all heads. Products over
all heads of a sequence are then large enough for a matrix library: here
activations are tokens first, and heads are rows.
"""

import torch
from torch import Tensor

from rankattn.layers import Attention


class FoldedAttention(Attention):
    """:class:`Attention` for heads of full rank (one head per module)."""

    def forward(self, x: Tensor) -> tuple[Tensor, tuple]:
        tokens = self._tokens(x)
        to_scores, score_bias, to_out = self._fold()
        queries = torch.baddbmm(score_bias, tokens, to_scores) if self.arch.bias else tokens @ to_scores
        points, queries = self._sequences(tokens), self._sequences(queries)
        weights = (queries @ points.mT).softmax(dim=-1)  # (R B, N w, N)
        mixed = weights @ points
        out = x + self._features(mixed.view(x.shape[0], x.shape[2], -1) @ to_out)
        if self.arch.bias:
            q_k_v_bias = self.weights["qkv_bias"].unflatten(1, (3, -1))
            out += torch.baddbmm(
                self.weights["out_bias"].mean(dim=1), self.weights["out"], q_k_v_bias[:, 2], alpha=1 / self.arch.width
            )
        return out, (tokens, queries, weights, mixed, to_scores, to_out)

    def backward(self, saved: tuple, grad: Tensor) -> Tensor:
        tokens, queries, weights, mixed, to_scores, to_out = saved
        replicas, count = tokens.shape[:2]
        self._out_bias_gradient(grad)
        g, points = self._tokens(grad), self._sequences(tokens)
        dto_out = mixed.view(replicas, count, -1).mT @ g
        dmixed = self._sequences(g @ to_out.mT)
        dweights = dmixed @ points.mT
        dpoints = weights.mT @ dmixed
        dscores = (dweights - (dmixed * mixed).sum(dim=-1, keepdim=True)).mul_(weights)
        dpoints.baddbmm_(dscores.mT, queries)
        dqueries = (dscores @ points).view(replicas, count, -1)
        dto_scores = tokens.mT @ dqueries
        dtokens = torch.baddbmm(dpoints.view_as(tokens), dqueries, to_scores.mT)
        self._unfold(dto_scores, dqueries, dto_out, grad)
        return grad + self._features(dtokens)

    def _modules(self) -> tuple[Tensor, ...]:
        """W_Q, W_K, W_V (R, w, m, m) and W_O (R, m, w, m)."""
        m, width = self.arch.model_dim, self.arch.width
        return *self.weights["qkv"].unflatten(1, (3, width, m)).unbind(1), self.weights["out"].unflatten(2, (width, m))

    def _fold(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """A^T / sqrt(m) side by side (R, m, w m), a / sqrt(m) (R, 1, w m), C^T / w one below the other (R, w m, m)."""
        q, k, v, o = self._modules()
        scale = self.arch.model_dim**-0.5
        to_scores = (q.mT @ k).mul_(scale).transpose(1, 2).flatten(2)
        to_out = (v.mT @ o.permute(0, 2, 3, 1)).div_(self.arch.width).flatten(1, 2)
        if not self.arch.bias:
            return to_scores, None, to_out
        bias = self.weights["qkv_bias"].unflatten(1, (3, self.arch.width, -1))[:, 0]
        return to_scores, (k.mT @ bias).mul_(scale).flatten(1).unsqueeze(1), to_out

    def _unfold(self, dto_scores: Tensor, dqueries: Tensor, dto_out: Tensor, grad: Tensor) -> None:
        """Gradients of the four matrices and their biases from those of A, a and C. (That of b_K is zero.)"""
        q, k, v, o = self._modules()
        m, width = self.arch.model_dim, self.arch.width
        dq, dk, dv = self.gradients["qkv"].unflatten(1, (3, width, m)).unbind(1)
        do = self.gradients["out"].unflatten(2, (width, m))
        da = dto_scores.unflatten(2, (width, m)).transpose(1, 2) * m**-0.5  # (R, w, m, m): of W_Q^T W_K
        dq += k @ da.mT
        dk += q @ da
        dc = dto_out.unflatten(1, (width, m)) / width  # (R, w, m, m): of W_V^T W_O^T
        dv += (dc @ o.transpose(1, 2)).mT
        do += (v @ dc).permute(0, 3, 1, 2)
        if self.arch.bias:
            bias_q, _, bias_v = self.weights["qkv_bias"].unflatten(1, (3, width, m)).unbind(1)
            dbias_q, _, dbias_v = self.gradients["qkv_bias"].unflatten(1, (3, width, m)).unbind(1)
            dscore_bias = dqueries.sum(dim=1).unflatten(1, (width, m)).unsqueeze(-1) * m**-0.5
            dbias_q += k @ dscore_bias
            dk += bias_q @ dscore_bias.mT
            total = grad.sum(dim=2, keepdim=True) / width  # (R, m, 1)
            dbias_v += torch.bmm(self.weights["out"].mT, total).unflatten(1, (width, m))
            do += total.unsqueeze(-1) * bias_v.squeeze(-1).unsqueeze(1)

    def _tokens(self, x: Tensor) -> Tensor:
        """(R, m, N B) to (R, B N, m)."""
        return x.unflatten(2, (self.arch.points, -1)).permute(0, 3, 2, 1).flatten(1, 2)

    def _features(self, tokens: Tensor) -> Tensor:
        """Back to (R, m, N B)."""
        return tokens.unflatten(1, (-1, self.arch.points)).permute(0, 3, 2, 1).flatten(2)

    def _sequences(self, tokens: Tensor) -> Tensor:
        """(R, B N, k m) to (R B, N k, m): one matrix per sequence."""
        return tokens.reshape(-1, self.arch.points * tokens.shape[2] // self.arch.model_dim, self.arch.model_dim)
