"""The sliced, batch-innermost attention equals the textbook formula, with its gradients."""

import pytest
import torch

from rankattn import attention, cost


def textbook(qkv):
    """Softmax attention on (R, H, B, N, r), one matrix product at a time."""
    q, k, v = qkv.permute(0, 1, 2, 5, 4, 3).unbind(1)
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return (weights @ v).permute(0, 1, 4, 3, 2), weights.permute(0, 1, 3, 4, 2)


def random_heads(replicas, heads, rank, points, batch, dtype=torch.float64):
    generator = torch.Generator().manual_seed(heads * 1000 + rank * 100 + points * 10 + batch)
    return torch.randn(replicas, 3, heads, rank, points, batch, generator=generator, dtype=dtype)


SHAPES = [
    (1, 1, 1, 2, 1),
    (2, 3, 1, 5, 3),
    (3, 1, 2, 7, 4),
    (2, 2, 4, 4, 5),
    (1, 2, 8, 4, 3),
    (2, 3, 8, 9, 3),
    (1, 1, 16, 16, 2),
    (2, 2, 8, 33, 2),  # long enough for matrix products
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("slice_elements", [1, 100, 2**18])
def test_equals_textbook(shape, slice_elements, monkeypatch):
    monkeypatch.setitem(cost.SLICES, "cpu", slice_elements)
    heads = random_heads(*shape).requires_grad_()
    out, (expected, weights) = attention.attend(heads.detach()), textbook(heads)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(attention.attention_weights(heads[:, 0], heads[:, 1]), weights, rtol=0, atol=1e-12)
    gradient = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (want,) = torch.autograd.grad(expected, heads, gradient)
    for kept in (0, 2**24):  # recomputed or kept
        monkeypatch.setattr(cost, "KEPT_WEIGHTS", kept)
        out, saved = attention.forward(heads.detach())
        torch.testing.assert_close(attention.backward(saved, gradient), want, rtol=0, atol=1e-12)


def test_both_ways_of_computing_agree(monkeypatch):
    heads = random_heads(2, 3, 4, 6, 5)
    slow = attention.attend(heads)
    monkeypatch.setattr(attention, "MATRIX_RANK", 1)
    monkeypatch.setitem(attention.MATRIX_POINTS, "cpu", 1)
    torch.testing.assert_close(attention.attend(heads), slow, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 6, 1, 5, 64), (3, 2, 8, 4, 128), (2, 6, 1, 5, 3)])
def test_blocks_change_no_result(shape, monkeypatch):
    """Not a bit, except that very short batches may be summed in another order."""
    heads = random_heads(*shape, dtype=torch.float32)
    whole = attention.attend(heads)
    monkeypatch.setitem(cost.SLICES, "cpu", 1)
    blocks = attention.attend(heads)
    assert len(attention._blocks(heads)) >= shape[0] * shape[1]
    torch.testing.assert_close(blocks, whole, rtol=0, atol=0 if shape[-1] >= 64 else 1e-6)


def test_logits_in_the_thousands_stay_finite():
    out, saved = attention.forward(1000 * random_heads(1, 2, 1, 6, 4, dtype=torch.float32))
    assert out.isfinite().all()
    assert attention.backward(saved, torch.ones_like(out)).isfinite().all()


@pytest.mark.parametrize(("points", "dim"), [(2, 2), (5, 3), (16, 8), (9, 16)])
def test_one_full_rank_head_with_large_scale_is_the_target(points, dim):
    """Paper, Fact 1: Q = -c I, K = V = I tends to the farthest point; c = 1e9 is exact up to ties."""
    from rankattn.seeding import torch_generator
    from rankattn.targets import farthest_index
    from rankattn.tasks import gather_points, sphere

    x = sphere((50, points, dim), [torch_generator("fact1", points, dim)], dtype=torch.float64)
    inner = x.permute(0, 3, 2, 1)
    heads = torch.stack([-1e9 * inner, inner, inner], dim=1).unsqueeze(2)  # one head
    out = attention.attend(heads)[:, 0].permute(0, 3, 2, 1)
    torch.testing.assert_close(out, gather_points(x, farthest_index(x)), rtol=0, atol=1e-6)
