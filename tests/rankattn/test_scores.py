"""Held-out scores, run folders, tables and head measurements."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from rankattn import cost, evaluation, heads, results, tables, targets, tasks, training
from rankattn.architecture import Architecture
from rankattn.config import load
from rankattn.encoder import initial_weights, split
from rankattn.grid import expand
from rankattn.reference import ReferenceEncoder, encoder_from
from rankattn.runs import Member
from rankattn.seeding import torch_generator
from tests.rankattn.test_training import CPU, RECIPE, RUN

ONE_HEAD = replace(RUN, architecture=Architecture(dim=4, points=4, heads=1, layers=1, feedforward=8))


def test_held_out_error_is_that_of_the_reference_on_the_test_stream():
    torch.manual_seed(0)
    models = [ReferenceEncoder(RUN.architecture) for _ in range(2)]
    flat = encoder_from(models).flat.detach()
    scores = evaluation.evaluate(RUN, flat, CPU)
    x = torch.cat([evaluation.test_points("farthest", 4, 4, block)[0] for block in range(2)])[:300]
    y = tasks.gather_points(x, targets.farthest_index(x))
    for seed, model, score in zip(RUN.seeds, models, scores, strict=True):
        output = model(x)
        errors = (output - y).square().sum(-1).mean(-1)
        assert score["seed"] == seed
        assert score["error"] == pytest.approx(errors.mean().item(), abs=1e-6)
        assert score["error_se"] == pytest.approx(errors.std().item() / 300**0.5, rel=1e-4)
        decoded = torch.cdist(output / output.norm(dim=-1, keepdim=True), x).argmin(-1)
        assert score["decoded_accuracy"] == pytest.approx(
            (decoded == targets.farthest_index(x)).float().mean().item(), abs=1e-6
        )
        assert math.isnan(score["attended_accuracy"])


def test_test_stream_is_shared_and_a_longer_one_extends_a_shorter():
    a = evaluation.test_points("farthest", 4, 4, 0)
    assert torch.equal(a, evaluation.test_points("farthest", 4, 4, 0))
    assert not torch.isin(a, evaluation.test_points("farthest", 4, 4, 1)).any()
    train = tasks.sphere((8, 4, 4), training.streams(RUN, 0, CPU)[0])
    assert not torch.isin(train, a).any()


def test_attended_accuracy_sees_through_the_decoding_trap():
    """Attending to oneself and answering -m x decodes well but attends to the wrong point."""
    flat = torch.zeros(1, cost.parameters(ONE_HEAD.architecture))
    weights = split(ONE_HEAD.architecture, flat)
    weights["0.norm1"].fill_(1)
    weights["0.norm2"].fill_(1)
    eye = torch.eye(4)
    for sign, attended in ((1.0, 0.0), (-1.0, 1.0)):
        weights["0.qkv"][0] = torch.cat([sign * 300 * eye, eye, eye])
        weights["0.out"][0] = -3 * eye if sign > 0 else 3 * eye
        score = evaluation.evaluate(replace(ONE_HEAD, seeds=(0,)), flat, CPU)[0]
        assert score["attended_accuracy"] == attended
        assert score["decoded_accuracy"] > 0.7


def write_run(folder, run=RUN, digest="d", flat=None):
    state = training.train(run, CPU)
    history = pd.DataFrame(state.history)
    summary = results.summarise(history, evaluation.evaluate(run, state.flat, CPU), state.diverged)
    results.write(folder, run, digest, history, summary, {"device": "cpu"}, flat)
    return history, summary


def test_summary_has_the_published_statistic_and_marks_divergence():
    rows = [
        {"seed": s, "epoch": e, "training_error": v}
        for s, vs in ((0, (0.9, 0.3, 0.4)), (1, (0.8, math.nan, math.nan)))
        for e, v in enumerate(vs)
    ]
    scores = [{"seed": s, "error": 0.5, "error_se": 0.1, "decoded_accuracy": 1, "attended_accuracy": 1} for s in (0, 1)]
    summary = results.summarise(pd.DataFrame(rows), scores, {1: 7}).set_index("seed")
    assert summary.loc[0, "published_error"] == 0.3
    assert summary.loc[0, "final_training_error"] == 0.4
    assert list(summary["status"]) == ["ok", "diverged"]
    assert summary.loc[1, "diverged_step"] == 7


def test_a_run_folder_reads_back_and_every_fault_is_named(tmp_path):
    folder = tmp_path / "rank_depth" / "a"
    _, summary = write_run(folder)
    read, provenance = results.read(folder, RUN, "d")
    pd.testing.assert_frame_equal(read, summary.astype({"diverged_step": float}), check_dtype=False)
    assert provenance["device"] == "cpu"
    with pytest.raises(results.BadRun, match="other code"):
        results.read(folder, RUN, "e")
    with pytest.raises(results.BadRun, match=r"other settings \(training\.epochs\)"):
        results.read(folder, replace(RUN, training=replace(RECIPE, epochs=5)), "d")
    history = folder / "history.csv"
    content = history.read_bytes()
    for damaged in (b"", content.split(b"\n")[0] + b"\n", content[:-7], content[: content.rindex(b"\n", 0, -1) + 1]):
        history.write_bytes(damaged)
        with pytest.raises(results.BadRun, match=r"history\.csv"):
            results.read(folder, RUN, "d")
    history.write_bytes(content)
    (folder / "run.json").write_text("{")
    with pytest.raises(tables.BadRuns, match=r"1 of 1 runs cannot be used:\n.*rank_depth/a"):
        tables.collect([Member("rank_depth/a", RUN)], tmp_path, "d")


def test_collect_makes_one_row_per_seed_and_refuses_duplicates(tmp_path):
    write_run(tmp_path / "e" / "a")
    table = tables.collect([Member("e/a", RUN)], tmp_path, "d")
    assert list(table["seed"]) == [0, 1]
    assert (table["rank"] == 2).all()
    assert (table["total_heads"] == 4).all()
    assert (table["steps"] == 12).all()
    with pytest.raises(tables.BadRuns, match="twice"):
        tables.collect([Member("e/a", RUN)] * 2, tmp_path, "d")


def test_statistics_over_seeds_count_everything_once():
    table = pd.DataFrame(
        {
            "kind": ["none", None, "none", "none", None],
            "rank": [128, 4, 16, 16, 4],
            "status": ["ok", "ok", "ok", "diverged", "ok"],
            "published_error": [0.1, 0.2, 0.3, 0.01, 0.4],
            "error": [0.2, 0.3, 0.4, 0.01, 0.5],
        }
    )
    stats = tables.over_seeds(table, ["kind", "rank"])
    assert stats["seeds"].sum() + stats["diverged"].sum() == len(table)
    assert list(stats["rank"]) == [16, 128, 4]
    assert stats.loc[0, "published_min"] == 0.3  # the diverged seed does not win
    assert stats.loc[2, "error"] == pytest.approx(0.4)
    assert stats.loc[2, "error_se"] == pytest.approx(np.std([0.3, 0.5], ddof=1) / 2**0.5)


def test_angle_and_size_of_known_heads():
    arch = Architecture(dim=6, points=3, heads=1, layers=1, width=2, feedforward=4)
    flat = initial_weights(arch, torch_generator("h"))[None]
    qkv = split(arch, flat)["0.qkv"][0].view(3, 2, 6, 6)
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=torch_generator("q")))[0]
    qkv[0, 0], qkv[1, 0] = -5 * rotation, rotation  # -5 I as a form on points
    qkv[0, 1], qkv[1, 1] = torch.eye(6), torch.diag(torch.tensor([1.0, -1, 1, -1, 1, -1]))
    table = heads.measure(arch, flat)
    assert list(table["head"]) == [0, 1]
    assert table["bilinear_angle"].tolist() == pytest.approx([180, 90], abs=0.1)
    assert table["bilinear_size"].tolist() == pytest.approx([5, 1], rel=1e-5)
    # Both forms have the same trace; their norms differ for weights that are not orthogonal.
    qkv[0, 0], qkv[1, 0] = torch.triu(torch.ones(6, 6)), torch.diag(torch.arange(6.0))
    skewed = heads.measure(arch, flat).iloc[0]
    traces = [math.cos(math.radians(skewed[f"{f}_angle"])) * skewed[f"{f}_size"] for f in ("bilinear", "published")]
    assert traces[0] == pytest.approx(traces[1], rel=1e-6)
    assert skewed["bilinear_size"] != pytest.approx(skewed["published_size"], rel=0.01)


def test_dense_arithmetic_is_what_pytorch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    arch = Architecture(dim=16, points=6, heads=4, layers=2, width=3, feedforward=32)
    model, x = ReferenceEncoder(arch), torch.randn(5, 6, 16)
    with FlopCounterMode(display=False) as counter:
        model(x)
    # Attention inside MultiheadAttention is not counted on a CPU: count its two products alone.
    assert counter.get_total_flops() == cost.dense_flops(arch, 5)
    q = torch.randn(5 * arch.layers * arch.total_heads, arch.points, arch.rank)
    with FlopCounterMode(display=False) as counter:
        (q @ q.mT) @ q
    assert counter.get_total_flops() == cost.attention_flops(arch, 5)


def test_batch_is_split_until_it_fits():
    big = replace(
        RUN, architecture=replace(RUN.architecture, feedforward=4096), training=replace(RECIPE, batch_size=64)
    )
    parts = [cost.batch_parts(replace(big, training=replace(big.training, memory_gib=g))) for g in (10, 0.02, 0.01)]
    assert parts[0] == 1
    assert parts == sorted(parts)
    assert all(64 % n == 0 for n in parts)
    with pytest.raises(ValueError, match="one sequence already needs"):
        cost.batch_parts(replace(big, training=replace(big.training, memory_gib=1e-5)))


def test_every_paper_cell_fits_24_gib():
    """With the margin that a job asks for, on a CPU or a GPU."""
    for path, run in expand(load("paper")).runs.items():
        assert 1.25 * cost.peak_bytes(run) / 2**20 + 700 < 24 * 1024, path
