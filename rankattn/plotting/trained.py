"""Figures of trained transformers: error against rank.

Lines and bands are the paper's statistics: the least over seeds of the smallest
epoch mean, and the full range over seeds. The values tables also hold the
held-out error of the final weights, which is not biased by taking minima.
"""

from collections.abc import Sequence

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankattn.plotting.style import POSITIONAL, budget_label, panels, trained_on, value_ticks
from rankattn.tables import over_seeds

BUDGET_DASHES = ["-", "--", ":", "-."]
PUBLISHED = {"marker": "o", "markersize": 8, "markerfacecolor": "none", "linestyle": "none", "zorder": 5}
# Settings of the published runs: only points with these may carry published values.
PUBLISHED_SETTINGS = {"dim": 64, "points": 16}


def _line(axes: Axes, stats: pd.DataFrame, x: str = "rank", band: bool = False, **style) -> None:
    """One series with round markers; ``band`` shades the range over seeds."""
    axes.plot(stats[x], stats["published_min"], marker="o", markersize=4, **style)
    if band:
        axes.fill_between(
            stats[x], stats["published_min"], stats["published_max"], color=style.get("color"), alpha=0.2, linewidth=0
        )


def _with_published(stats: pd.DataFrame, table: pd.DataFrame, published: pd.DataFrame | None) -> pd.DataFrame:
    """Add ``published_value`` and ``published_reading`` where a published point has the same setting."""
    same = all((table[key] == value).all() for key, value in PUBLISHED_SETTINGS.items())
    if published is None or not same:
        return stats.assign(published_value=float("nan"), published_reading="")
    names = {"width_multiplier": "width", "mse": "published_value", "reading": "published_reading"}
    read = published.rename(columns=names)
    keys = [column for column in read.columns if column in stats.columns]
    return stats.merge(read[[*keys, "published_value", "published_reading"]], on=keys, how="left")


def rank_depth(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Error against rank, one panel per depth, one line per parameter budget (log-log)."""
    stats = over_seeds(table, ["layers", "width", "rank"])
    values = _with_published(stats, table, published)
    depths, widths = sorted(stats["layers"].unique()), sorted(stats["width"].unique())
    figure, axes = panels(len(depths), sharey=True)
    dim = int(table["dim"].iloc[0])
    for ax, depth in zip(axes, depths, strict=True):
        for i, width in enumerate(widths):
            part = values[(values["layers"] == depth) & (values["width"] == width)]
            style = {"color": f"C{i}", "linestyle": BUDGET_DASHES[i % len(BUDGET_DASHES)]}
            _line(ax, part, label=budget_label(width, dim), **style)
            ax.plot(part["rank"], part["published_value"], color=f"C{i}", **PUBLISHED)
        ax.set_title(f"{depth} layer" + ("s" if depth > 1 else ""))
    _finish(figure, axes, table, legend="parameters per layer")
    return figure, values


def positional_encoding(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Error against rank without, with additive and with concatenated positions, one panel per depth (log-log)."""
    stats = over_seeds(table, ["layers", "positional_encoding", "rank"])
    values = _with_published(stats, table, published)
    depths = sorted(stats["layers"].unique())
    figure, axes = panels(len(depths), sharey=True)
    for ax, depth in zip(axes, depths, strict=True):
        for kind in [kind for kind in POSITIONAL if kind in set(stats["positional_encoding"])]:
            part = values[(values["layers"] == depth) & (values["positional_encoding"] == kind)]
            label, color = POSITIONAL[kind]
            _line(ax, part, band=True, color=color, label=label)
            ax.plot(part["rank"], part["published_value"], color=color, **PUBLISHED)
        ax.set_title(f"{depth} layer" + ("s" if depth > 1 else ""))
    _finish(figure, axes, table, legend="positions")
    return figure, values


def as_published(name: str, published: pd.DataFrame) -> Figure | None:
    """The published figure redrawn from the values read off it; None for a figure that has none."""
    if name not in ("rank_depth", "positional_encoding"):
        return None
    depths = sorted(published["layers"].unique())
    figure, axes = panels(len(depths), sharey=True)
    for ax, depth in zip(axes, depths, strict=True):
        part = published[(published["layers"] == depth) & published["mse"].notna()]
        if name == "rank_depth":
            for i, (width, line) in enumerate(part.groupby("width_multiplier")):
                style = {"color": f"C{i}", "linestyle": BUDGET_DASHES[i], "marker": "o", "markersize": 4}
                ax.plot(line["rank"], line["mse"], label=budget_label(width, PUBLISHED_SETTINGS["dim"]), **style)
        else:
            for kind in POSITIONAL:
                line = part[part["positional_encoding"] == kind]
                label, color = POSITIONAL[kind]
                ax.plot(line["rank"], line["mse"], marker="o", markersize=4, color=color, label=label)
        ax.set_title(f"{depth} layer" + ("s" if depth > 1 else ""))
        value_ticks(ax, published["rank"].unique())
        ax.set_yscale("log")
        ax.set_xlabel("rank")
    axes[0].set_ylabel("mean squared error")
    axes[0].legend(title="parameters per layer" if name == "rank_depth" else "positions")
    figure.suptitle("published: d = 64, N = 16, values read off the figure", fontsize="medium")
    return figure


def context_length(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Error (linear) against rank, one line per context length N, longest first."""
    stats = over_seeds(table, ["points", "rank"])
    figure, axes = panels(size=(4.6, 3.4))
    lengths = sorted(stats["points"].unique(), reverse=True)
    for points, color in zip(lengths, sns.color_palette("viridis", len(lengths)), strict=True):
        _line(axes[0], stats[stats["points"] == points], band=True, color=color, label=f"N = {points}")
    _finish(figure, axes, table, legend="context length", yscale="linear")
    axes[0].set_ylim(bottom=0)
    return figure, stats


def dimension(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Error against rank as a share of d, one line per d (set up by the authors, never published)."""
    stats = over_seeds(table, ["dim", "rank"])
    stats.insert(2, "relative_rank", stats["rank"] / stats["dim"])
    figure, axes = panels(size=(4.6, 3.4))
    dims = sorted(stats["dim"].unique())
    for dim, color in zip(dims, sns.color_palette("viridis", len(dims)), strict=True):
        _line(axes[0], stats[stats["dim"] == dim], x="relative_rank", band=True, color=color, label=f"d = {dim}")
    _finish(figure, axes, table, legend="dimension", ticks=stats["relative_rank"].unique(), xlabel="rank / d")
    return figure, stats


def _finish(
    figure: Figure,
    axes: list[Axes],
    table: pd.DataFrame,
    legend: str,
    yscale: str = "log",
    xlabel: str = "rank",
    ticks: Sequence[float] | None = None,
) -> None:
    """Scales, labels, one legend and a title that says what was trained."""
    for ax in axes:
        value_ticks(ax, ticks if ticks is not None else table["rank"].unique())
        ax.set_yscale(yscale)
        ax.set_xlabel(xlabel)
    axes[0].set_ylabel("mean squared error")
    axes[0].legend(title=legend)
    figure.suptitle(trained_on(table), fontsize="medium")
