"""Verdicts: intervals, thresholds, and broken models that have to turn claims red."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from rankattn import attention, evaluation, results, tables, targets, tasks, training
from rankattn.architecture import Architecture
from rankattn.claims import agreement, samples, statistics, verdicts
from rankattn.claims.verify import scorecard
from rankattn.config import ConfigError
from rankattn.runs import Run
from tests.rankattn.test_training import CPU, RECIPE

CLAIMS = {claim["id"]: claim for claim in verdicts.load_claims()}


def trained_table(path, errors):
    """Write a rank_depth table: errors[(layers, width, rank)] is a list over seeds."""
    rows = [
        {"dim": 8, "points": 4, "positional_encoding": "none", "layers": layers, "width": width, "rank": rank}
        | {"seed": seed, "status": "ok", "error": error}
        for (layers, width, rank), values in errors.items()
        for seed, error in enumerate(values)
    ]
    path.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(path / "rank_depth.csv", index=False)
    return path


GOOD = {
    (layers, width, rank): [base / layers**0.5, 1.02 * base / layers**0.5, 0.98 * base / layers**0.5]
    for layers in (1, 3)
    for width in (1, 8)
    for rank, base in ((8, 0.05), (4, 0.4), (2, 0.5), (1, 0.6))
}
RANK_CLAIMS = ["one_layer_cliff", "more_heads_hurt", "heads_do_not_replace_rank", "depth_helps_low_rank"]
RANK_CLAIMS += ["full_rank_best"]


def test_a_healthy_table_is_reproduced_with_an_interval_around_the_value(tmp_path):
    for name in RANK_CLAIMS:
        row = verdicts.decide(CLAIMS[name], "laptop", trained_table(tmp_path / "t", GOOD))
        assert row["verdict"] == verdicts.REPRODUCED, row
        assert row["low"] <= row["value"] <= row["high"]
        assert row["replicates"] == 3


def test_each_way_of_breaking_the_table_turns_its_claim_red(tmp_path):
    flat = {key: GOOD[(key[0], key[1], 4)] if key[2] == 8 else value for key, value in GOOD.items()}
    no_depth = {key: GOOD[(1, key[1], key[2])] for key in GOOD}
    for broken, red in ((flat, ["one_layer_cliff", "full_rank_best"]), (no_depth, ["depth_helps_low_rank"])):
        folder = trained_table(tmp_path / "t", broken)
        for name in red:
            assert verdicts.decide(CLAIMS[name], "laptop", folder)["verdict"] != verdicts.REPRODUCED


def test_one_lucky_seed_decides_nothing(tmp_path):
    """Two of three seeds see no cliff: the value may be above the threshold, the interval straddles it."""
    lucky = {**GOOD, (1, 1, 8): [0.38, 0.02, 0.39]}
    row = verdicts.decide(CLAIMS["one_layer_cliff"], "laptop", trained_table(tmp_path / "t", lucky))
    assert row["verdict"] == verdicts.UNDECIDABLE
    assert row["note"] == "the interval straddles the threshold"
    table = pd.DataFrame([row])
    assert len(verdicts.failures(table)) == 1


def test_a_preset_that_cannot_decide_says_why(tmp_path):
    row = verdicts.decide(CLAIMS["one_layer_cliff"], "smoke", tmp_path)
    assert (row["verdict"], row["decidable"]) == (verdicts.UNDECIDABLE, False)
    assert row["note"]
    assert verdicts.failures(pd.DataFrame([row])).empty
    assert "one_layer_cliff" in scorecard(pd.DataFrame([row]))


def test_a_diverged_seed_counts_as_predicting_nothing(tmp_path):
    folder = trained_table(tmp_path / "t", GOOD)
    table = pd.read_csv(folder / "rank_depth.csv")
    table.loc[0, ["status", "error"]] = ["diverged", np.nan]
    table.to_csv(folder / "rank_depth.csv", index=False)
    cells = samples.trained(folder / "rank_depth.csv")
    assert cells.values.max() == 1.0


def test_bootstrap_has_the_spread_of_the_mean():
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"kind": 0, "seed": range(40), "x": generator.normal(5, 2, 40)})
    sample = samples.cells(table, ["kind"], "x", "seed")
    value, low, high = samples.interval(sample, lambda means: means["value"].iloc[0], "key")
    assert value == pytest.approx(table["x"].mean())
    assert (high - low) / 2 == pytest.approx(1.96 * table["x"].std() / 40**0.5, rel=0.15)
    assert samples.interval(sample, lambda means: means["value"].iloc[0], "key") == (value, low, high)


def test_nested_draws_are_resampled_together():
    table = pd.DataFrame({"dim": 8, "num_heads": [1, 2] * 4, "draw": np.repeat(range(4), 2), "mse": range(8)})
    sample = samples.cells(table, ["dim", "num_heads"], "mse", "draw", block=["dim"])
    for seed in range(20):
        means = sample.resampled(np.random.default_rng(seed))["value"]
        assert means[1] - means[0] == pytest.approx(1)  # the two values of a draw differ by 1


def test_exponent_and_plateau_of_known_curves():
    rows = [(d, h, min(1.0, (d**2 / h) ** 0.5)) for d in (8, 16, 32) for h in 2.0 ** np.arange(20)]
    means = pd.DataFrame(rows, columns=["dim", "num_heads", "value"])
    assert statistics.heads_exponent(means, error=0.25) == pytest.approx(2, abs=0.01)
    with pytest.raises(ValueError, match="reached in 0 dimensions"):
        statistics.heads_exponent(means, error=1e-9)


def test_registry_is_checked(tmp_path):
    path = tmp_path / "claims.yaml"
    text = verdicts.CLAIMS.read_text()
    for old, new, message in (
        ("statistic: cliff", "statistic: clif", "one_layer_cliff.statistic = 'clif': use one of"),
        ("id: full_rank_best", "id: depth_helps_low_rank", "depth_helps_low_rank stands twice"),
        ("least over budgets\n    above: 2\n", "least over budgets\n", "claims.2"),
        ("where: Section 3, Fact 1", "were: Section 3, Fact 1", "claims.0"),
    ):
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(ConfigError, match=message):
            verdicts.load_claims(path)


def train_cells(tmp_path, name):
    """A small real one-layer experiment at d = 6, w = 1, ranks 6 and 3, as a rank_depth table."""
    recipe = replace(RECIPE, epochs=20, steps_per_epoch=40, batch_size=64, warmup=0.05, test_sequences=1000)
    rows = []
    for heads in (1, 2):
        run = Run("farthest", Architecture(6, 4, heads, 1, feedforward=48), recipe, (0, 1, 2))
        state = training.train(run, CPU)
        summary = results.summarise(pd.DataFrame(state.history), evaluation.evaluate(run, state.flat, CPU), {})
        rows.append(summary.assign(**tables.axes(run)))
    folder = tmp_path / name
    folder.mkdir()
    pd.concat(rows).to_csv(folder / "rank_depth.csv", index=False)
    return folder


def verdict(name, folder):
    return verdicts.decide(CLAIMS[name], "laptop", folder)["verdict"]


def test_broken_models_turn_the_right_claims_red(tmp_path, monkeypatch):
    """Really trained: healthy, with the rank of every head clipped to half, and with a shuffled target."""
    healthy = train_cells(tmp_path, "healthy")
    assert verdict("one_layer_cliff", healthy) == verdict("full_rank_best", healthy) == verdicts.REPRODUCED

    forward, backward = attention.forward, attention.backward

    def clipped_forward(qkv):
        """Queries lose all but the first 3 coordinates: no head has a rank above d/2."""
        qkv = qkv.clone()
        qkv[:, 0, :, 3:] = 0
        return forward(qkv)

    def clipped_backward(saved, grad):
        dqkv = backward(saved, grad)
        dqkv[:, 0, :, 3:] = 0
        return dqkv

    with monkeypatch.context() as patch:
        patch.setattr(attention, "forward", clipped_forward)
        patch.setattr(attention, "backward", clipped_backward)
        clipped = train_cells(tmp_path, "clipped")
    assert verdict("one_layer_cliff", clipped) != verdicts.REPRODUCED

    def shuffled(points):
        return targets.farthest_index(points).roll(1, dims=-2)  # the answers of another sequence

    with monkeypatch.context() as patch:
        patch.setitem(targets.TARGETS, "farthest", shuffled)
        noise = train_cells(tmp_path, "noise")
    assert verdict("one_layer_cliff", noise) == verdicts.NOT_REPRODUCED
    assert pd.read_csv(noise / "rank_depth.csv")["error"].min() > 0.6


def test_agreement_counts_reading_error_and_spread():
    values = pd.DataFrame(
        {
            "layers": 1,
            "width": 1,
            "rank": [64, 32, 16],
            "published_min": [0.0100, 0.0200, 0.0300],
            "published_max": [0.0100, 0.0220, 0.0300],
            "published_value": [0.01005, 0.0208, 0.0400],
            "published_reading": ["clear"] * 3,
        }
    )
    points = agreement.compare("rank_depth", values)
    assert list(points["agrees"]) == [True, True, False]
    assert points["log10_ratio"].iloc[2] == pytest.approx(np.log10(0.75))
    summary = agreement.summary(points).iloc[0]
    assert summary["share_in_agreement"] == pytest.approx(2 / 3)
    assert summary["points"] == 3


def test_single_head_law_and_constant():
    from rankattn.seeding import torch_generator
    from rankattn.theory import single_head

    # Known value: G = 8.1 +- 0.3 by simulation for d = 8 and N = 16 in the self-attention form.
    assert single_head.near_tie_constant(8, 15) == pytest.approx(8.28, abs=0.01)
    # Two candidates in dimension 3: one coordinate is uniform on (-1, 1), so G = 2 * 1/4 * int 2 (1 - t^2) = 4/3.
    assert single_head.near_tie_constant(3, 2) == pytest.approx(4 / 3, rel=1e-9)
    # Against simulation of the gap itself.
    x = tasks.sphere((200_000, 5, 4), [torch_generator("gap")], dtype=torch.float64)[0]
    scores, order = x[..., 0].sort(dim=-1)  # the query is the first basis vector
    pair = tasks.gather_points(x, order[:, :2])
    close = (scores[:, 1] - scores[:, 0] < 0.01).double()
    counted = close * (pair[:, 0] - pair[:, 1]).square().sum(-1) / 0.01
    error = 4 * (counted.std() / 200_000**0.5).item()
    assert single_head.near_tie_constant(4, 5) == pytest.approx(counted.mean().item(), abs=error + 0.05)
    for target in single_head.TARGETS:
        measured, se = single_head.head_error(target, 5, 6, 100.0, 4000, torch_generator(target))
        law = single_head.KAPPA * single_head.near_tie_constant(5, single_head.candidates(target, 6)) / 100
        assert abs(measured - law) < 4 * se + 0.03 * law
        assert single_head.head_error(target, 5, 6, float("inf"), 500, torch_generator(target)) == (0, 0)
    with pytest.raises(ValueError, match="scale"):
        single_head.head_error("nearest", 5, 6, -1.0, 10, torch_generator("x"))
    with pytest.raises(ValueError, match="target"):
        single_head.candidates("middle", 5)
