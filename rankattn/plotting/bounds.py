"""Figures of the theory: heads needed, lower bounds, biased targets, majority votes, heights of series.

In all of them markers are measured on real heads, solid lines are exact or asymptotic values, dashed lines bounds.
"""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from rankattn.plotting.style import panels, value_ticks
from rankattn.theory.degree_counting import heads_at_least, symmetric_limit
from rankattn.theory.vote_laws import concentration_bound, exact_error

KINDS = {"independent": "q, k independent", "corrected": "angle(q, k) as published"}
NEEDED_ERRORS = (0.1, 0.2, 0.4)
MARKERS = ["o", "s", "^", "D", "v", "P"]


def _colors(values) -> dict:
    values = sorted(values)
    return dict(zip(values, sns.color_palette("colorblind", len(values)), strict=True))


def _dimension_axis(axes: Axes, values, label: str) -> None:
    value_ticks(axes, values)
    axes.set_xlabel(label)


def _key(axes: Axes, *entries: tuple[str, str]) -> None:
    """Legend entries in grey for what a mark means: (matplotlib format, text)."""
    for style, text in entries:
        axes.plot([], [], style, color="0.3", markersize=4, label=text)
    axes.legend(fontsize="x-small")


def _local_exponent(part: pd.DataFrame, x: str, y: str) -> pd.Series:
    """Slope of log y against log x from the row before, NaN in the first and where y is not finite or 1."""
    slope = np.log(part[y]).diff() / np.log(part[x]).diff()
    return slope.where(np.isfinite(part[y]) & (part[y].shift(1) > 1))


def _fitted_exponent(part: pd.DataFrame, x: str, y: str) -> float:
    """Least-squares slope of log y against log x, NaN with fewer than 3 points."""
    return np.polyfit(np.log(part[x]), np.log(part[y]), 1)[0] if len(part) > 2 else np.nan


def heads_needed(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Random rank-1 heads that an error takes, against d (log-log), one panel per way of drawing them.

    Markers: exact count of real draws, mean and range. Solid: what the degrees predict (asymptotic estimate), with the
    exponent at its right end. Dashed: no rank-1 hardmax heads do with fewer.
    """
    groups = table.groupby(["kind", "error", "dim"])
    values = (
        groups["needed"]
        .agg(needed_mean="mean", needed_low="min", needed_high="max")
        .join(groups[["predicted", "bound"]].first())
    )
    # A mean over the draws that got there would be too low: all of them or none.
    values.loc[groups["needed"].count() < groups["draw"].nunique(), ["needed_mean", "needed_low", "needed_high"]] = (
        np.nan
    )
    values = values.reset_index()
    values["exponent"] = pd.concat(
        [_local_exponent(part, "dim", "predicted") for _, part in values.groupby(["kind", "error"])]
    )
    for _, part in values.groupby(["kind", "error"]):
        values.loc[part.index, "fitted_exponent"] = _fitted_exponent(
            part.dropna(subset="needed_mean"), "dim", "needed_mean"
        )
    figure, axes = panels(2, size=(4.0, 3.6), sharey=True)
    colors = _colors(values["error"].unique())
    for ax, (kind, title) in zip(axes, KINDS.items(), strict=True):
        for error, part in values[values["kind"] == kind].groupby("error"):
            color = colors[error]
            spread = [part["needed_mean"] - part["needed_low"], part["needed_high"] - part["needed_mean"]]
            ax.errorbar(part["dim"], part["needed_mean"], spread, fmt="o", markersize=3.5, color=color)
            ax.plot(part["dim"], part["predicted"], color=color, linewidth=1, label=f"error {error:g}")
            ax.plot(part["dim"], part["bound"], "--", color=color, linewidth=0.8)
            last = part.iloc[-1]
            ax.annotate(
                f"$d^{{{last['exponent']:.1f}}}$", (last["dim"], last["predicted"]), (4, -2), color=color,
                textcoords="offset points", fontsize="small",
            )  # fmt: skip
        ax.set_yscale("log")
        _dimension_axis(ax, [d for d in values["dim"].unique() if np.log2(d) % 1 == 0], "dimension d")
        ax.set_xlim(right=values["dim"].max() * 2)
        ax.set_title(title, fontsize="medium")
    axes[0].set_ylabel("number of heads H")
    _key(axes[0], ("o", "exact, random draws"), ("-", "predicted by degrees"), ("--", "lower bound"))
    figure.suptitle("random rank-1 heads, N = 2, no training", fontsize="medium")
    return figure, values


def rank_bound(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Lower bound on the number of heads against d/r (log-log), one line per error; solid scalar, dashed any values."""
    table = table.assign(d_over_r=table["dim"] / table["rank"]).sort_values(["values", "error", "d_over_r"])
    for _, part in table.groupby(["values", "error"]):
        table.loc[part.index, "exponent"] = _fitted_exponent(part[part["heads"] > 1], "d_over_r", "heads")
    figure, axes = panels(size=(4.6, 3.6))
    colors = _colors(table["error"].unique())
    for (kind, error), part in table.groupby(["values", "error"]):
        scalar = kind == "scalar"
        label = f"error {error:g}" if scalar else None
        axes[0].plot(part["d_over_r"], part["heads"], "-o" if scalar else "--", color=colors[error], label=label,
                     markersize=3.5)  # fmt: skip
        if scalar:
            last = part.iloc[-1]
            axes[0].annotate(
                f"$(d/r)^{{{last['exponent']:.1f}}}$", (last["d_over_r"], last["heads"]), (5, -3),
                color=colors[error], textcoords="offset points", fontsize="small",
            )  # fmt: skip
    axes[0].set_yscale("log")
    _dimension_axis(axes[0], table["d_over_r"].unique(), "d / r")
    axes[0].set_xlim(right=table["d_over_r"].max() * 2.6)
    axes[0].set_ylabel("heads needed at least")
    _key(axes[0], ("-o", "scalar values (attained)"), ("--", "any value matrices"))
    figure.suptitle(f"any function of r-dimensional keys, d = {table['dim'].iloc[0]}, N = 2", fontsize="medium")
    return figure, table.reset_index(drop=True)


def random_subspaces(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Error against d/r, one colour per number of heads: real hardmax heads, and bounds for generalised attention.

    A bar on a marker goes from the error on the fitted sample to the held-out one, each moved out by two
    standard errors over draws: the best error of such heads lies in it.
    """
    groups = table.groupby(["dim", "rank", "heads"])
    values = groups[["fitted", "held_out", "bound_scalar", "bound_matrix"]].mean()
    draws = table["draw"].nunique()
    for name in ("fitted", "held_out"):
        between = groups[name].std().fillna(0) / draws**0.5
        within = groups[f"{name}_se"].mean() / draws**0.5
        values[f"{name}_se"] = np.maximum(between, within)
    values = values.reset_index().assign(d_over_r=lambda v: v["dim"] / v["rank"])
    dim = values["dim"].iloc[0]
    figure, axes = panels(size=(5.2, 3.8))
    colors = _colors(values["heads"].unique())
    for heads, part in values.groupby("heads"):
        middle = (part["fitted"] + part["held_out"]) / 2
        low, high = part["fitted"] - 2 * part["fitted_se"], part["held_out"] + 2 * part["held_out_se"]
        style = {"color": colors[heads]}
        reach = [(middle - low).clip(lower=0), (high - middle).clip(lower=0)]
        axes[0].errorbar(part["d_over_r"], middle, reach, fmt="o", markersize=3.5, label=f"H = {heads}", **style)
        axes[0].plot(part["d_over_r"], part["bound_scalar"], linewidth=1, **style)
        axes[0].plot(part["d_over_r"], part["bound_matrix"], "--", linewidth=0.8, **style)
    axes[0].axhline(symmetric_limit(dim), color="0.5", linestyle=":", linewidth=1)
    _dimension_axis(axes[0], values["d_over_r"].unique(), "d / r")
    axes[0].set_ylim(-0.01, 1.0)
    axes[0].set_ylabel("mean squared error")
    _key(
        axes[0], ("o", "hardmax heads, measured"), ("-", "best, scalar values"), ("--", "bound, any values"),
        (":", "H → ∞, r = 1, hardmax"),
    )  # fmt: skip
    axes[0].legend(fontsize="x-small", ncols=2, loc="upper left")
    figure.suptitle(f"random subspaces, d = {dim}, N = 2, {draws} draws, no training", fontsize="medium")
    return figure, values


def biased_neighbour(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Left: error of d^2 heads against d, with and without biases. Right: heads needed for an error of 1/2 (log)."""
    figure, axes = panels(2, size=(4.0, 3.6))
    table = table.assign(share=(table["rank"] / table["dim"]).round(2).where(table["rank"] > 1, 0))
    colors = _colors(table["share"].unique())
    dash = {"biased": "-", "unbiased": "--"}
    for (share, target), part in table.groupby(["share", "target"]):
        name = "r = 1" if share == 0 else f"r = {share:g} d"
        style = {"color": colors[share], "linestyle": dash[target], "markersize": 3}
        axes[0].plot(part["dim"], part["bound"], **style)
        axes[1].plot(
            part["dim"], part["heads_for_half"], marker=".", **style, label=name if target == "biased" else None
        )
        if share == 0:
            bars = {"markersize": 4, "color": colors[share], "markerfacecolor": None if target == "biased" else "none"}
            marker = "o" if target == "biased" else "s"
            axes[0].errorbar(part["dim"], part["random_error"], 2 * part["random_se"], fmt=marker, **bars)
    axes[0].plot(table["dim"], table["full_rank"], "D", color="0.3", markersize=4)
    axes[0].set_ylim(-0.05, 1.1)
    axes[0].set_ylabel("error of $d^2$ heads (predicting zero: 1)")
    axes[1].set_yscale("log")
    axes[1].set_ylabel("heads needed at least for error 1/2")
    for ax in axes:
        ax.set_xlabel("dimension d")
    _key(axes[0], ("o", "rank-1 hardmax, biased"), ("s", "rank-1 hardmax, unbiased"), ("D", "one full-rank head"))
    _key(axes[1], ("-", "biased"), ("--", "unbiased"))
    figure.suptitle("lines: lower bounds at the hardest spacing of biases, N = d", fontsize="medium")
    return figure, table.drop(columns="share")


def _voters_needed(dims: list[int]) -> pd.DataFrame:
    """Columns dim, points, target_error, voters (exact, odd), voters_bound, voters_law, for N = 2."""
    return pd.DataFrame(
        [
            {"dim": dim, "points": 2, "target_error": error}
            | {"voters": heads_at_least(lambda h, d=dim: exact_error(d, 2 * int(h / 2) + 1), error, 1e9)}
            | {"voters_bound": heads_at_least(lambda h, d=dim: concentration_bound(d, h), error, 1e9)}
            | {"voters_law": dim / error**2}
            for dim in dims
            for error in NEEDED_ERRORS
        ]
    ).assign(voters=lambda rows: 2 * (rows["voters"] / 2).astype(int) + 1)


def majority_vote(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """The two-layer network (log-log): error against voters, N = 2 for several d, then one d for several N.

    Third panel: voters needed for a given error against d, N = 2: exact, by the bound, and the law d/error^2.
    """
    figure, axes = panels(3, size=(3.6, 3.6))
    two = table[table["points"] == 2]
    long = table[table["dim"].isin(table.loc[table["points"] > 2, "dim"])]
    for ax, part, column, name in ((axes[0], two, "dim", "d"), (axes[1], long, "points", "N")):
        colors = _colors(part[column].unique())
        for (value, group), marker in zip(part.groupby(column), MARKERS * 9, strict=False):
            style = {"color": colors[value], "markersize": 4}
            label = f"{name} = {value}"
            ax.errorbar(group["voters"], group["error"], 2 * group["error_se"], fmt=marker, label=label, **style)
            if column == "dim":
                ax.plot(group["voters"], group["exact"], linewidth=1, **style)
                ax.plot(group["voters"], group["bound"], "--", linewidth=0.8, **style)
            else:
                late = group[group["law"] <= 2.5]
                ax.plot(late["voters"], late["law"], ":", linewidth=1.2, **style)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("voters H")
        ax.set_ylim(0.01, 4)
    axes[0].set_ylabel("mean squared error")
    axes[0].set_title("N = 2", fontsize="medium")
    needed = _voters_needed(sorted(two["dim"].unique()))
    for error, part in needed.groupby("target_error"):
        color = _colors(NEEDED_ERRORS)[error]
        axes[2].plot(part["dim"], part["voters"], "-", color=color, linewidth=1, label=f"error {error:g}")
        axes[2].plot(part["dim"], part["voters_bound"], "--", color=color, linewidth=0.8)
        axes[2].plot(part["dim"], part["voters_law"], ":", color=color, linewidth=1.2)
    axes[2].set_yscale("log")
    axes[2].set_ylim(10, 1e6)  # room for the legend
    _dimension_axis(axes[2], needed["dim"].unique(), "dimension d")
    axes[2].set_ylabel("voters H needed")
    axes[2].set_title("N = 2", fontsize="medium")
    _key(axes[2], ("-", "exact"), ("--", "enough, by the bound"), (":", "$d/\\mathrm{error}^2$"))
    axes[1].set_title("" if long.empty else f"d = {long['dim'].iloc[0]}", fontsize="medium")
    _key(axes[0], ("-", "exact"), ("--", "concentration bound"))
    _key(axes[1], (":", "law $(N-1)\\sqrt{2d/(NH)}$"))
    figure.suptitle("majority vote in two layers of low-rank attention, no training", fontsize="medium")
    return figure, pd.concat([table, needed], ignore_index=True)


def representation_terms(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Height of |u| against the number of terms (log-log); dotted: the predicted power through the last point."""
    figure, axes = panels(2, size=(4.0, 3.4), sharey=True)
    table = table.assign(local_exponent=np.nan)
    colors = _colors(table["dim"].unique())
    for ax, (weighting, rows) in zip(axes, table.groupby("weighting", sort=False), strict=True):
        for dim, part in rows.groupby("dim"):
            table.loc[part.index, "local_exponent"] = _local_exponent(part, "terms", "peak")
            last = part.iloc[-1]
            law = last["peak"] * (part["terms"] / last["terms"]) ** last["exponent"]
            ax.plot(part["terms"], part["peak"], "o", color=colors[dim], markersize=4, label=f"d = {dim}")
            ax.plot(part["terms"], law, ":", color=colors[dim], linewidth=1)
            ax.annotate(
                f"$T^{{{last['exponent']:g}}}$", (last["terms"], last["peak"]), (5, -4), color=colors[dim],
                textcoords="offset points", fontsize="small",
            )  # fmt: skip
        ax.axvline(50, color="0.6", linewidth=0.8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.xaxis.set_major_locator(FixedLocator(sorted(table["terms"].unique())))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlim(right=table["terms"].max() * 2)
        ax.set_xlabel("terms T (odd degrees below T)")
        ax.set_title(f"{weighting} weighting", fontsize="medium")
    axes[0].set_ylabel("height of |u|")
    if published is not None:
        known = published[published["dim"].isin(table["dim"])]
        axes[0].plot([50] * len(known), known["peak"], "s", color="k", markerfacecolor="none", label="published values")
    _key(axes[0], (":", "predicted power"), ("-", "T of the published figure"))
    figure.suptitle("the series does not converge", fontsize="medium")
    return figure, table
