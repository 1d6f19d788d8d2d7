"""Figures: what is drawn is what the tables say, and drawing it again gives the same file."""

import matplotlib

matplotlib.use("agg")

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from rankattn import plotting

pytestmark = pytest.mark.workflow
# Columns that tell the points of a figure apart; panel, line and x are among them.
KEYS = {
    "rank_depth": ["layers", "width", "rank"],
    "positional_encoding": ["layers", "positional_encoding", "rank"],
    "context_length": ["points", "rank"],
    "dimension": ["dim", "rank"],
}
# Figure: column of the panels, column of the lines, order of the lines.
LINES = {
    "rank_depth": ("layers", "width", sorted),
    "positional_encoding": ("layers", "positional_encoding", ["none", "additive", "concatenated"].index),
    "context_length": (None, "points", lambda values: sorted(values, reverse=True)),
    "dimension": (None, "dim", sorted),
}


@pytest.fixture(autouse=True)
def style():
    with matplotlib.rc_context():
        plotting.use_style()
        yield
    plt.close("all")


def read(smoke, name):
    return pd.read_csv(smoke.results / "tables" / f"{name}.csv")


def statistics(rows, keys):
    """Mean, standard error and extremes over seeds, without the package's own function."""
    groups = rows[rows["status"] == "ok"].groupby(keys)
    return pd.DataFrame(
        {
            "seeds": groups["seed"].count(),
            "published_min": groups["published_error"].min(),
            "published_max": groups["published_error"].max(),
            "error": groups["error"].sum() / groups["error"].count(),
            "error_se": groups["error"].std(ddof=1) / np.sqrt(groups["error"].count()),
            "error_min": groups["error"].min(),
            "error_max": groups["error"].max(),
        }
    )


@pytest.mark.parametrize("name", KEYS)
def test_plotted_values_are_those_of_the_table(smoke, name):
    """Each plotted number, computed again from the rows; sorted by number, so that 16 comes after 2."""
    values = read(smoke, f"figure_{name}").set_index(KEYS[name])
    expected = statistics(read(smoke, name), KEYS[name])
    assert values.index.is_unique and list(values.index) == sorted(expected.index)
    pd.testing.assert_frame_equal(values[expected.columns], expected, check_dtype=False, rtol=1e-12)
    assert (values["diverged"] == 0).all()


def series(axes):
    """The lines with filled markers of one panel, in the order of drawing, as (label, x, y)."""
    shown = [line for line in axes.get_lines() if line.get_marker() == "o" and line.get_markerfacecolor() != "none"]
    return [(line.get_label(), *map(np.asarray, line.get_data())) for line in shown]


@pytest.mark.parametrize("name", KEYS)
def test_every_table_row_is_one_drawn_point(smoke, name):
    """Per panel: one line for each value of the grid, with the table's numbers, one point for each row."""
    rows = read(smoke, name)
    figure, _ = getattr(plotting, name)(rows)
    panel, line, _ = LINES[name]
    expected = statistics(rows, KEYS[name]).reset_index()
    panels = [expected] if panel is None else [part for _, part in expected.groupby(panel)]
    assert len(figure.axes) == len(panels)
    for axes, part in zip(figure.axes, panels, strict=True):
        drawn = [(x, y) for _, x, y in series(axes) if len(x)]
        assert sum(len(x) for x, _ in drawn) == len(part)
        wanted = [group for _, group in part.groupby(line)]
        assert len(drawn) == len(wanted)
        for group in wanted:
            x = group["rank"] / group["dim"] if name == "dimension" else group["rank"]
            assert any(
                np.array_equal(x, xs) and np.allclose(group["published_min"], ys, rtol=1e-12)
                for xs, ys in drawn
                if len(xs) == len(x)
            ), f"{line} {group[line].iloc[0]} is not drawn"


def grid_value(name, text, dim):
    """The value of the grid that a legend text stands for."""
    if name == "rank_depth":
        power, factor = re.fullmatch(r"\$d\^\{([\d.]+)\}\$", text), re.fullmatch(r"\$(\d+)\\,d\^2\$", text)
        return round(dim ** (float(power[1]) - 2)) if power else int(factor[1])
    return text.lower() if name == "positional_encoding" else int(text.partition(" = ")[2])


@pytest.mark.parametrize("name", KEYS)
def test_legends_and_ticks_are_the_grids_values(smoke, name):
    """The legend lists exactly the values of the grid in their own order; the x axis shows exactly the ranks."""
    rows = read(smoke, name)
    figure, _ = getattr(plotting, name)(rows)
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    shown = [grid_value(name, text, rows["dim"].iloc[0]) for text in texts]
    values = list(rows[LINES[name][1]].unique())
    order = LINES[name][2]
    assert shown == (sorted(values, key=order) if name == "positional_encoding" else order(values))
    ticks = (rows["rank"] / rows["dim"] if name == "dimension" else rows["rank"]).unique()
    for axes in figure.axes:
        np.testing.assert_array_equal(axes.get_xticks(), sorted(ticks))
        figure.canvas.draw()
        assert [label.get_text() for label in axes.get_xticklabels()] == [f"{tick:g}" for tick in sorted(ticks)]
    seeds = rows.groupby("run")["seed"].nunique().iloc[0]
    assert f"{seeds} seeds" in figure.get_suptitle() and "protocol" in figure.get_suptitle()


def test_lines_of_one_panel_can_be_told_apart(smoke):
    """Different values have different colours or dashes."""
    for name in KEYS:
        figure, _ = getattr(plotting, name)(read(smoke, name))
        for axes in figure.axes:
            labelled = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
            looks = {(to_hex(line.get_color()), line.get_linestyle()) for line in labelled}
            assert len(looks) == len(labelled), name


def test_a_diverged_seed_is_counted_and_left_out(smoke):
    """It changes the number of seeds, not the mean of the others; a configuration without a seed is no point."""
    rows = read(smoke, "rank_depth")
    bad = (rows["run"] == rows["run"].iloc[0]) & (rows["seed"] == rows["seed"].iloc[0])
    gone = rows["run"] == rows["run"].iloc[-1]
    rows.loc[bad | gone, "status"] = "diverged"
    rows.loc[bad | gone, ["error", "final_training_error"]] = np.nan
    figure, values = plotting.rank_depth(rows)
    keys = KEYS["rank_depth"]
    values = values.set_index(keys)
    first, last = (tuple(rows.loc[where, keys].iloc[0]) for where in (bad, gone))
    other = rows[(rows["run"] == rows["run"].iloc[0]) & ~bad]
    assert values.loc[first, "seeds"] == len(other) and values.loc[first, "diverged"] == 1
    assert values.loc[first, "error"] == pytest.approx(other["error"].mean())
    assert values.loc[last, "seeds"] == 0 and np.isnan(values.loc[last, "published_min"])
    points = sum(np.isfinite(y).sum() for axes in figure.axes for _, _, y in series(axes))
    assert points == len(values) - 1


def test_published_points_keep_the_rows(smoke, root):
    """Values read off the paper are joined point by point, at the paper's sizes only, and never multiply rows."""
    for name in ("rank_depth", "positional_encoding"):
        rows, read_off = read(smoke, name), pd.read_csv(root / "config" / "published" / f"{name}.csv")
        assert plotting.__dict__[name](rows, read_off)[1]["published_value"].isna().all()
        width = read_off.get("width", read_off.get("width_multiplier", 8))
        paper = read_off.assign(
            width=width, run=range(len(read_off)), seed=0, dim=64, points=16, status="ok", protocol="corrected",
            published_error=0.5, error=0.5,
        )  # fmt: skip
        _, values = plotting.__dict__[name](paper.drop(columns="mse"), read_off)
        assert len(values) == len(read_off)
        merged = values.merge(paper[[*KEYS[name], "mse"]], on=KEYS[name])
        pd.testing.assert_series_equal(merged["published_value"], merged["mse"], check_names=False)


def test_random_features_are_drawn_as_tabulated(smoke, root):
    """Means and the central 95% of the draws; a solid and a dotted line and a legend entry per dimension."""
    rows, values = read(smoke, "random_features"), read(smoke, "figure_random_features")
    groups = rows.groupby(["dim", "keys", "num_heads"])["mse"]
    values = values.set_index(["dim", "keys", "num_heads"])
    np.testing.assert_allclose(values["mse_mean"], groups.mean()[values.index], rtol=1e-12)
    np.testing.assert_allclose(values["mse_low"], groups.quantile(0.025)[values.index], rtol=1e-12)
    np.testing.assert_allclose(values["mse_high"], groups.quantile(0.975)[values.index], rtol=1e-12)
    assert len(values) == groups.ngroups and (values["draws"] == rows["draw"].nunique()).all()
    read_off = pd.read_csv(root / "config" / "published" / "random_features.csv")
    figure, _ = plotting.random_features(rows, read_off)
    (axes,) = figure.axes
    lines = [line for line in axes.get_lines() if len(line.get_xdata()) > 2 and line.get_linestyle() in ("-", ":")]
    assert len(lines) == 2 * rows["dim"].nunique()
    assert sum(len(line.get_xdata()) for line in lines) == len(values)
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [text for text in texts if text.startswith("d = ")] == [f"d = {dim}" for dim in sorted(rows["dim"].unique())]
    at = values.reset_index()
    at = at[at["keys"] == "published"].merge(read_off, on=["dim", "num_heads"], suffixes=("_here", ""))
    assert len(at) and np.array_equal(at["published_value"], at["mse_mean"], equal_nan=True)


def test_heads_and_representation_are_drawn_as_tabulated(smoke):
    """One box per width with the table's median; one panel per dimension with all angles."""
    rows = read(smoke, "learned_heads")
    values = read(smoke, "figure_learned_heads").set_index(["form", "measure", "width"])["median"].sort_index()
    figure, _ = plotting.learned_heads(rows)
    for axes, measure in zip(figure.axes, ("angle", "size"), strict=True):
        medians = rows.groupby("width")[f"bilinear_{measure}"].median()
        np.testing.assert_allclose(values["bilinear", measure][medians.index], medians)
        (boxes,) = axes.containers
        np.testing.assert_allclose([line.get_ydata()[0] for line in boxes.medians], medians)
        assert len(axes.get_xticklabels()) == rows["width"].nunique()
    rows, values = read(smoke, "feature_representation"), read(smoke, "figure_feature_representation")
    figure, _ = plotting.feature_representation(rows)
    for axes, (dim, part) in zip(figure.axes, rows.groupby("dim"), strict=True):
        line = axes.get_lines()[0]
        np.testing.assert_array_equal(line.get_xdata(), part["angle"])
        np.testing.assert_array_equal(line.get_ydata(), part["u"].abs())
        assert axes.get_title() == f"d = {dim}"
        assert values.set_index("dim").loc[dim, "peak"] == part["u"].abs().max()
