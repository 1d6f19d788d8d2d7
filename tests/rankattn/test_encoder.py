"""The fused encoder equals a literal one made of PyTorch's own modules."""

from dataclasses import replace

import pytest
import torch

from rankattn import cost
from rankattn.architecture import Architecture
from rankattn.encoder import Encoder, initial_weights, split
from rankattn.folded import FoldedAttention
from rankattn.reference import ReferenceEncoder, encoder_from, parameters_by_name, stack
from rankattn.seeding import torch_generator

PLAIN = Architecture(dim=8, points=5, heads=2, layers=1, width=2, feedforward=12)
GRID = [
    (PLAIN, 3),
    (replace(PLAIN, heads=8), 3),  # rank 1
    (replace(PLAIN, heads=1, width=1), 2),  # one head
    (replace(PLAIN, heads=1, width=5, points=9), 1),  # batch 1, odd N, matrix-product path
    (replace(PLAIN, layers=3, points=7), 2),
    (replace(PLAIN, bias=False, layers=2), 2),
    (replace(PLAIN, points=2), 4),
    (replace(PLAIN, positional_encoding="additive", layers=2), 3),
    (replace(PLAIN, positional_encoding="concatenated", positional_dim=8, heads=16, width=3), 3),
    (replace(PLAIN, positional_encoding="concatenated", positional_dim=4, heads=3, layers=2), 2),
]


FULL_RANK = [
    (replace(PLAIN, heads=1, width=1), 3),
    (replace(PLAIN, heads=1, width=3, layers=2, points=2), 1),
    (replace(PLAIN, heads=1, width=2, bias=False), 4),
    (replace(PLAIN, heads=1, positional_encoding="additive", layers=2), 2),
    (replace(PLAIN, heads=1, width=3, positional_encoding="concatenated", positional_dim=4), 2),
]
PRECISIONS = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])


@PRECISIONS
@pytest.mark.parametrize(("arch", "batch"), GRID)
def test_outputs_and_gradients_equal_the_reference(arch, batch, dtype, tolerance):
    check_against_reference(arch, batch, dtype, tolerance)


@PRECISIONS
@pytest.mark.parametrize(("arch", "batch"), FULL_RANK)
def test_folded_full_rank_heads_equal_the_reference(arch, batch, dtype, tolerance, monkeypatch):
    monkeypatch.setattr("rankattn.encoder.FOLDED_DIM", 1)
    assert any(isinstance(part, FoldedAttention) for part in encoder_from([ReferenceEncoder(arch)]).parts)
    check_against_reference(arch, batch, dtype, tolerance)


def check_against_reference(arch, batch, dtype, tolerance):
    """Outputs and all gradients of two replicas."""
    torch.manual_seed(0)
    models = [ReferenceEncoder(arch).to(dtype) for _ in range(2)]
    with torch.no_grad():
        for model in models:
            for parameter in model.parameters():  # biases and norms away from 0 and 1
                parameter.add_(0.1 * torch.randn_like(parameter))
    encoder = encoder_from(models)
    x = torch.randn(2, batch, arch.points, arch.dim, dtype=dtype)
    output, tape = encoder.forward(x)
    expected = torch.stack([model(part) for model, part in zip(models, x, strict=True)])
    torch.testing.assert_close(output, expected, rtol=0, atol=tolerance)
    assert torch.equal(encoder(x), output)
    weight = torch.randn_like(output)
    encoder.backward(tape, weight)
    (expected * weight).sum().backward()
    for replica, model in enumerate(models):
        for name, parameters in parameters_by_name(model).items():
            gradient = stack(name, [parameter.grad for parameter in parameters])
            torch.testing.assert_close(encoder.gradients[name][replica], gradient, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("arch", "batch"), GRID)
def test_parameter_count_is_that_of_the_modules(arch, batch):
    count = sum(parameter.numel() for parameter in ReferenceEncoder(arch).parameters())
    assert cost.parameters(arch) == count
    assert cost.attention_parameters(arch) == arch.width * arch.model_dim**2


def test_attention_weights_equal_those_of_the_module():
    torch.manual_seed(0)
    arch = replace(PLAIN, width=1, heads=4)
    model = ReferenceEncoder(arch)
    x = torch.randn(3, arch.points, arch.dim)
    module = model.layers[0].attention[0]
    expected = module(x, x, x, need_weights=True, average_attn_weights=False)[1]  # (B, H, N, N)
    weights = encoder_from([model]).first_attention(x[None])[0].permute(3, 0, 1, 2)
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-6)


def test_a_replica_does_not_depend_on_the_others():
    """Up to rounding: batched products may sum in another order. Stated tolerance 1e-6."""
    rows = torch.stack([initial_weights(PLAIN, torch_generator("replica", i)) for i in range(3)])
    x = torch.randn(3, 4, PLAIN.points, PLAIN.dim, generator=torch_generator("x"))
    together = Encoder(PLAIN, rows)(x)
    for i in range(3):
        torch.testing.assert_close(Encoder(PLAIN, rows[i : i + 1])(x[i : i + 1])[0], together[i], rtol=0, atol=1e-6)


def test_points_shared_by_all_replicas():
    rows = torch.stack([initial_weights(PLAIN, torch_generator("replica", i)) for i in range(2)])
    x = torch.randn(1, 4, PLAIN.points, PLAIN.dim, generator=torch_generator("x"))
    encoder = Encoder(PLAIN, rows)
    assert torch.equal(encoder(x), encoder(x.expand(2, -1, -1, -1)))


def test_order_of_points_does_not_matter_without_positions():
    encoder = Encoder(PLAIN, initial_weights(PLAIN, torch_generator("w"))[None])
    x = torch.randn(1, 4, PLAIN.points, PLAIN.dim, generator=torch_generator("x"))
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(encoder(x[:, :, order]), encoder(x)[:, :, order], rtol=0, atol=1e-6)
    placed = replace(PLAIN, positional_encoding="additive")
    encoder = Encoder(placed, initial_weights(placed, torch_generator("w"))[None])
    assert (encoder(x[:, :, order]) - encoder(x)[:, :, order]).abs().max() > 0.01


@pytest.mark.parametrize("arch", [replace(PLAIN, dim=32, width=3, layers=2, feedforward=64)])
def test_initial_weights_are_distributed_as_those_of_the_modules(arch):
    torch.manual_seed(0)
    ours = split(arch, initial_weights(arch, torch_generator("init"))[None])
    for name, parameters in parameters_by_name(ReferenceEncoder(arch)).items():
        theirs = stack(name, [parameter.detach() for parameter in parameters])
        if name.endswith(".out"):  # MultiheadAttention: NonDynamicallyQuantizableLinear, uniform +-1/sqrt(m)
            assert theirs.abs().max() <= 32**-0.5 + 1e-6
        a, b = ours[name][0], theirs
        assert a.abs().max() <= b.abs().max() * 1.2 + 1e-9, name
        if a.numel() > 500:
            assert abs(a.std() / b.std() - 1) < 0.1, name
            assert abs(a.mean()) < 4 * a.std() / a.numel() ** 0.5, name


def test_protocols():
    arch = replace(PLAIN, layers=3, positional_encoding="additive", dim=32, points=64)
    for protocol, copies, mean in (("published", True, -1.0), ("corrected", False, 0.0)):
        weights = split(arch, initial_weights(arch, torch_generator("p"), protocol)[None])
        assert torch.equal(weights["0.qkv"], weights["2.qkv"]) == copies
        assert torch.equal(weights["0.up_bias"], weights["1.up_bias"]) == copies
        assert abs(weights["positions"].mean() - mean) < 0.1
        assert abs(weights["positions"].std() - 1) < 0.1


def test_impossible_sizes_are_refused():
    with pytest.raises(ValueError, match=r"heads = 3 does not divide the model dimension 8: use one of \[1, 2, 4, 8\]"):
        replace(PLAIN, heads=3)
    with pytest.raises(ValueError, match="positional_dim"):
        replace(PLAIN, positional_dim=4)
    with pytest.raises(ValueError, match="needs"):
        Encoder(PLAIN, torch.zeros(2, 7))
