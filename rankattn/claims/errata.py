"""The known faults of the published runs, each with its size measured by running both ways."""

from pathlib import Path

import pandas as pd

COLUMNS = ["fault", "published", "right", "measured"]


def _random_features(tables: Path) -> str:
    values = pd.read_csv(tables / "figure_random_features.csv")
    means = values.pivot(index=["dim", "num_heads"], columns="keys", values="mse_mean")
    dim = means.index.get_level_values("dim").min()
    parts = [
        f"{heads} heads {means.loc[(dim, heads), 'published']:.4f} against {means.loc[(dim, heads), 'corrected']:.4f}"
        for heads in (256, 1024, 4096)
        if (dim, heads) in means.index
    ]
    worst = (1 - means["published"] / means["corrected"]).max()
    return f"d = {dim}: {'; '.join(parts)}. Too low by up to {100 * worst:.1f}% over all points."


def _heads(tables: Path) -> str:
    table = pd.read_csv(tables / "learned_heads.csv")
    difference = (table["bilinear_angle"] - table["published_angle"]).abs()
    size = (table["bilinear_size"] / table["published_size"] - 1).abs()
    return (
        f"Over {len(table)} trained heads the angles differ by {difference.median():.2f} degrees in the median and"
        f" {difference.max():.2f} at most, the sizes by {100 * size.median():.2f}% and {100 * size.max():.2f}%."
    )


def _minimum(tables: Path) -> str:
    table = pd.read_csv(tables / "rank_depth.csv")
    ratio = table["published_error"] / table["error"]
    seeds = table.groupby("run").agg(least=("published_error", "min"), mean=("error", "mean"))
    both = seeds["least"] / seeds["mean"]
    return (
        f"Least epoch mean / held-out error of the final weights: median {ratio.median():.3f}, from {ratio.min():.3f}"
        f" to {ratio.max():.3f} over {len(ratio)} trainings. Least over seeds as well: median {both.median():.3f},"
        f" lowest {both.min():.3f}."
    )


def _protocol(tables: Path, what: dict) -> str:
    table = pd.read_csv(tables / "protocol.csv")
    for key, value in what.items():
        table = table[table[key] == value]
    parts = []
    for rank, group in table.groupby("rank"):
        by = group.groupby("protocol")["error"].agg(["mean", "std"])
        old, new = by.loc["published"], by.loc["corrected"]
        parts.append(
            f"rank {rank}: error {old['mean']:.4f} (standard deviation over seeds {old['std']:.4f}) as published,"
            f" {new['mean']:.4f} ({new['std']:.4f}) independent"
        )
    return "; ".join(parts) + "."


def _final_rate(tables: Path) -> str:
    table = pd.read_csv(tables / "protocol.csv")
    changed = table[table["final_rate"] > 0]
    same = table[
        (table["final_rate"] == 0) & (table["protocol"] == "corrected") & (table["positional_encoding"] == "none")
    ]
    parts = []
    for (rank, layers), group in changed.groupby(["rank", "layers"]):
        base = same[(same["rank"] == rank) & (same["layers"] == layers)]["error"].mean()
        parts.append(
            f"rank {rank}, {layers} layer: {base:.4f} ending at 0, {group['error'].mean():.4f} ending at a tenth"
        )
    return "; ".join(parts) + "."


def errata(tables: Path) -> pd.DataFrame:
    """One row per fault. Rows whose tables are not there say so."""
    plain = {"positional_encoding": "none", "final_rate": 0.0}
    entries = [
        (
            "Random features: keys, rounding, series",
            "Keys not normalised, the target vector rounded to half precision, the series cut at degree 50.",
            "Keys of length 1, double precision, as many terms as 1e-12 needs.",
            lambda: _random_features(tables),
        ),
        (
            "Learned heads: the wrong product",
            "W_Q W_K^T was analysed, and the size plotted is divided by sqrt(d) although the axis says Frobenius norm.",
            "W_Q^T W_K acts on points.",
            lambda: _heads(tables),
        ),
        (
            "Seeds were not independent",
            "All seeds had the same initial weights and shared most of their data.",
            "Weights and data of every seed from their own generators.",
            lambda: "One layer, " + _protocol(tables, {**plain, "layers": 1}),
        ),
        (
            "Layers started as copies",
            "All layers of a network had the same initial values.",
            "Independent layers.",
            lambda: "Three layers (and shared seeds), " + _protocol(tables, {**plain, "layers": 3}),
        ),
        (
            "Learning rate ended at 0",
            "The rate of the first epoch and the final rate were 0.",
            "The authors meant to end at a tenth of the peak. We keep the schedule as it ran.",
            lambda: _final_rate(tables),
        ),
        (
            "Metric is a minimum",
            "The least of the noisy epoch means of the training error, then the least over seeds.",
            "Held-out error of the final weights, mean over seeds with its standard error.",
            lambda: _minimum(tables),
        ),
        (
            "Additive positions started at mean -1",
            "Drawn from a normal distribution with mean -1.",
            "Mean 0.",
            lambda: "One layer, " + _protocol(tables, {**plain, "positional_encoding": "additive"}),
        ),
        (
            "Five layers with d^2 parameters did not train",
            "Their line is drawn like the others.",
            "It says nothing about what such networks can represent.",
            lambda: "See the claim deep_small_budget_fails.",
        ),
    ]
    rows = []
    for fault, published, right, measure in entries:
        try:
            measured = measure()
        except (FileNotFoundError, KeyError):
            measured = "Not measured in this preset."
        rows.append(dict(zip(COLUMNS, (fault, published, right, measured), strict=True)))
    return pd.DataFrame(rows, columns=COLUMNS)
