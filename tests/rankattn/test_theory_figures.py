"""Figures of the theory show the numbers of their tables, and their claims read them. Small tables, real functions."""

import importlib

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from rankattn import plotting
from rankattn.claims import samples, statistics, verdicts
from rankattn.config import load

NAMES = [name for name in load("smoke")["theory"] if hasattr(plotting.bounds, name)]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Each table with the settings of the smoke preset, as a file."""
    folder = tmp_path_factory.mktemp("tables")
    for name in NAMES:
        table = importlib.import_module(f"rankattn.theory.{name}").table(**load("smoke")["theory"][name])
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.fixture(autouse=True)
def style():
    with matplotlib.rc_context():
        plotting.use_style()
        yield
    plt.close("all")


def drawn(figure):
    """All finite y values of all lines of a figure."""
    heights = [line.get_ydata() for axes in figure.axes for line in axes.get_lines()]
    heights = np.concatenate([np.asarray(y, dtype=float) for y in heights])
    return heights[np.isfinite(heights)]


def assert_drawn(wanted, heights):
    wanted = np.asarray(wanted, dtype=float)
    for value in wanted[np.isfinite(wanted)]:
        assert np.isclose(heights, value, rtol=1e-9).any(), value


def test_there_is_a_figure_for_each_part():
    assert len(NAMES) == 6


SHOWN = {
    "heads_needed": ["needed_mean", "predicted", "bound"],
    "rank_bound": ["heads"],
    "random_subspaces": ["bound_scalar", "bound_matrix"],
    "biased_neighbour": ["bound", "heads_for_half", "random_error", "full_rank"],
    "majority_vote": ["error", "exact", "bound", "voters_bound", "voters_law"],
    "representation_terms": ["peak"],
}


@pytest.mark.parametrize("name", SHOWN)
def test_every_value_is_drawn(tables, name):
    table = pd.read_csv(tables / f"{name}.csv")
    figure, values = getattr(plotting, name)(table)
    for column in SHOWN[name]:
        assert values[column].notna().any()
        assert_drawn(values[column], drawn(figure))
    assert all(axes.get_xlabel() for axes in figure.axes) and figure.axes[0].get_legend() is not None


def test_means_over_draws_are_those_of_the_table(tables):
    rows = pd.read_csv(tables / "random_subspaces.csv")
    figure, values = plotting.random_subspaces(rows)
    means = rows.groupby(["rank", "heads"])[["fitted", "held_out"]].mean()
    np.testing.assert_allclose(values.set_index(["rank", "heads"])[["fitted", "held_out"]], means, rtol=1e-12)
    assert_drawn(means.mean(axis=1), drawn(figure))
    rows = pd.read_csv(tables / "heads_needed.csv")
    _, values = plotting.heads_needed(rows)
    groups = rows.groupby(["kind", "error", "dim"])["needed"]
    complete = groups.count() == groups.size()
    values = values.set_index(["kind", "error", "dim"])["needed_mean"]
    assert complete.any() and not complete.all()
    np.testing.assert_allclose(values[complete], groups.mean()[complete])
    assert values[~complete].isna().all()


def test_published_heights_stand_at_fifty_terms(tables):
    published = pd.DataFrame({"dim": [4, 6, 8], "peak": [1.4e8, 6.5e12, 6e16]})
    figure, values = plotting.representation_terms(pd.read_csv(tables / "representation_terms.csv"), published)
    assert_drawn(published["peak"], drawn(figure))
    ours = values[(values["terms"] == 50) & (values["weighting"] == "published")]["peak"].to_numpy()
    np.testing.assert_allclose(ours, published["peak"], rtol=0.05)


def claims_of(name):
    return [claim for claim in verdicts.load_claims() if claim["table"] == name]


@pytest.mark.parametrize("name", NAMES)
def test_each_part_has_claims_that_can_be_decided(tables, name):
    """Readers and statistics fit the tables (verdicts of the smoke preset's numbers mean nothing)."""
    assert claims_of(name)
    for claim in claims_of(name):
        if claim["statistic"] == "voters_exponent":  # needs three dimensions
            continue
        row = verdicts.decide({**claim, "presets": ["smoke"]}, "smoke", tables)
        assert np.isfinite([row["value"], row["low"], row["high"]]).all(), row
        assert row["low"] <= row["value"] <= row["high"]


def verdict(name, table, folder):
    (claim,) = (claim for claim in verdicts.load_claims() if claim["id"] == name)
    table.to_csv(folder / f"{claim['table']}.csv", index=False)
    return verdicts.decide(claim, "laptop", folder)["verdict"]


def test_broken_tables_turn_their_claims_red(tables, tmp_path):
    """An error below a bound, a head that is not exact, a vote without concentration, a series that converges."""
    vote = pd.read_csv(tables / "majority_vote.csv")
    assert verdict("vote_concentrates", vote, tmp_path) == verdicts.REPRODUCED
    assert verdict("vote_concentrates", vote.assign(error=2.5), tmp_path) == verdicts.NOT_REPRODUCED
    assert verdict("vote_exact", vote.assign(error=vote["error"] + 1), tmp_path) == verdicts.NOT_REPRODUCED
    biased = pd.read_csv(tables / "biased_neighbour.csv")
    assert verdict("biased_full_rank_exact", biased, tmp_path) == verdicts.REPRODUCED
    assert verdict("biased_full_rank_exact", biased.assign(full_rank=0.1), tmp_path) == verdicts.NOT_REPRODUCED
    polynomial = biased.assign(heads_for_half=biased["dim"] ** 0.5)
    assert verdict("biased_exponential", polynomial, tmp_path) == verdicts.NOT_REPRODUCED
    subspaces = pd.read_csv(tables / "random_subspaces.csv")
    lower = subspaces.assign(held_out=0.9 * subspaces["bound_scalar"])
    assert verdict("subspaces_above_bound", lower, tmp_path) == verdicts.NOT_REPRODUCED
    heights = pd.read_csv(tables / "representation_terms.csv")
    assert verdict("representation_diverges", heights.assign(peak=1.0), tmp_path) == verdicts.NOT_REPRODUCED


def test_exponents_of_known_powers():
    rows = [
        (kind, error, d, 3.0 * d**power)
        for kind, powers in (("independent", {0.3: 2, 0.15: 6}), ("corrected", {0.3: 1, 0.15: 3}))
        for error, power in powers.items()
        for d in (64, 128)
    ]
    means = pd.DataFrame(rows, columns=["kind", "error", "dim", "value"])
    assert statistics.STATISTICS["exponent_gain"](means) == pytest.approx(2)
    by_degree = statistics.STATISTICS["exponents_by_degree"]
    assert by_degree(means, kind="independent", first=2, second=6) == pytest.approx(0, abs=1e-9)
    assert by_degree(means, kind="corrected", first=2, second=6) == pytest.approx(0.5)
    vote = pd.DataFrame([(d, 2, h, min(1.0, (d / h) ** 0.5)) for d in (8, 16, 32) for h in 9.0 ** np.arange(6)])
    vote.columns = ["dim", "points", "voters", "value"]
    assert statistics.STATISTICS["voters_exponent"](vote, error=0.2) == pytest.approx(1, abs=0.01)


def test_formula_reader_keeps_one_value_per_cell(tmp_path):
    pd.DataFrame({"a": [1, 2], "b": [3.0, np.nan], "x": [5.0, 6.0]}).to_csv(tmp_path / "t.csv", index=False)
    cells = samples.formula(["a", "b"], "x")(tmp_path / "t.csv")
    assert cells.means()["value"].tolist() == [5.0, 6.0] and cells.replicates == 1
