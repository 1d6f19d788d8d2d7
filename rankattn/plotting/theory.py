"""Figures from closed forms: random rank-1 heads and the representing function."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from rankattn.plotting.style import panels, value_ticks
from rankattn.theory.degree_counting import rank_one_bound
from rankattn.theory.random_features import error_plateau

KEYS = {"corrected": "-", "published": ":"}


def random_features(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Error (linear) against number of heads (log), one line per d, the central 95% of draws shaded.

    Solid: the correct formula. Dotted: the published computation with its faults
    (spec, section 7.1). Hollow markers: values read off the published figure. Dashes on the
    right: the plateau (1 - d c_1^2)/2. Thin, dash-dotted: no rank-1 hardmax heads have a smaller error.
    """
    groups = table.groupby(["dim", "keys", "num_heads"])["mse"]
    values = groups.agg(
        mse_mean="mean", mse_low=lambda x: x.quantile(0.025), mse_high=lambda x: x.quantile(0.975), draws="size"
    ).reset_index()
    if published is not None:
        read = published.rename(columns={"mse_mean": "published_value", "reading": "published_reading"})
        values = values.merge(read, on=["dim", "num_heads"], how="left")
    else:
        values = values.assign(published_value=np.nan, published_reading="")
    values["bound"] = [
        rank_one_bound(dim, heads) for dim, heads in zip(values["dim"], values["num_heads"], strict=True)
    ]
    dims = sorted(values["dim"].unique())
    figure, axes = panels(size=(5.4, 3.8))
    for dim, color in zip(dims, sns.color_palette("colorblind", len(dims)), strict=True):
        for keys, dash in KEYS.items():
            part = values[(values["dim"] == dim) & (values["keys"] == keys)]
            label = f"d = {dim}" if keys == "corrected" else None
            axes[0].plot(part["num_heads"], part["mse_mean"], dash, marker=".", color=color, label=label)
            if keys == "corrected":
                axes[0].plot(part["num_heads"], part["bound"], "-.", color=color, linewidth=0.7)
                axes[0].fill_between(
                    part["num_heads"], part["mse_low"], part["mse_high"], color=color, alpha=0.2, linewidth=0
                )
        part = values[(values["dim"] == dim) & (values["keys"] == "published")]
        axes[0].plot(part["num_heads"], part["published_value"], "o", color=color, markerfacecolor="none", markersize=4)
        axes[0].axhline(error_plateau(dim), xmin=0.97, color=color, linestyle="--")
    axes[0].plot([], [], ":", color="0.3", label="with the published faults")
    axes[0].plot([], [], "-.", color="0.3", linewidth=0.7, label="lower bound, any heads")
    if values["published_value"].notna().any():
        axes[0].plot([], [], "o", color="0.3", markerfacecolor="none", markersize=4, label="published values")
    value_ticks(axes[0], values["num_heads"].unique()[::2])
    axes[0].set_ylim(bottom=0)
    axes[0].set_xlabel("number of heads H")
    axes[0].set_ylabel("mean squared error")
    axes[0].legend()
    figure.suptitle(f"random rank-1 heads, N = 2, {table['draw'].nunique()} draws, no training", fontsize="medium")
    return figure, values


def feature_representation(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """|u| against the angle between q and k, one stacked panel per d; values: heights and widths of the peaks."""
    dims = sorted(table["dim"].unique())
    figure, axes = panels(rows=len(dims), size=(5.4, 1.7), sharex=True)
    rows = []
    for ax, dim in zip(axes, dims, strict=True):
        part = table[table["dim"] == dim]
        size = part["u"].abs()
        ax.plot(part["angle"], size, color="C0", linewidth=0.9)
        ax.plot(part.loc[size.idxmax(), "angle"], size.max(), ".", color="C0", label="peak")
        ax.set_title(f"d = {dim}", fontsize="medium")
        ax.set_ylabel("|u|")
        at_half = part.loc[(part["angle"].abs() < np.pi / 2) & (size >= size.max() / 2), "angle"].abs().max()
        middle = size[(part["angle"].abs() - np.pi / 2).abs() < 0.5].max()
        rows.append(
            {
                "dim": dim,
                "max_degree": part["max_degree"].iloc[0],
                "peak": size.max(),
                "half_width": at_half,
                "middle": middle,
            }
        )
    values = pd.DataFrame(rows)
    if published is not None:
        read = published.rename(columns={"peak": "published_value", "reading": "published_reading"})
        values = values.merge(read, on="dim", how="left")
    axes[-1].set_xticks([-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], ["-π", "-π/2", "0", "π/2", "π"])
    axes[-1].set_xlabel("angle between q and k")
    figure.suptitle(f"odd degrees below {table['max_degree'].iloc[0]}, no training", fontsize="medium")
    return figure, values


def single_head(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Error against softmax scale (log-log), a panel per target: markers measured, lines the law."""
    finite = table[np.isfinite(table["scale"])]
    finite = finite[finite["law"] > 0]
    figure, axes = panels(2, sharey=True)
    dims, lengths = sorted(finite["dim"].unique()), sorted(finite["points"].unique())
    markers = dict(zip(lengths, ["o", "s", "^", "D", "v", "P", "X"] * len(lengths), strict=False))
    for ax, (target, rows) in zip(axes, finite.groupby("target", sort=False), strict=True):
        for dim, color in zip(dims, sns.color_palette("colorblind", len(dims)), strict=True):
            for points, part in rows[rows["dim"] == dim].groupby("points"):
                style = {"color": color, "marker": markers[points], "markersize": 4}
                ax.plot(part["scale"], part["law"], color=color, linewidth=0.8)
                ax.plot(part["scale"], part["error"], linestyle="none", label=f"d = {dim}, N = {points}", **style)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"{target} point")
        ax.set_xlabel("softmax scale c")
    axes[0].set_ylabel("mean squared error")
    axes[0].legend(fontsize="x-small")
    figure.suptitle("one full-rank head, Q = ±c I, no training; lines: κG/c", fontsize="medium")
    return figure, table
