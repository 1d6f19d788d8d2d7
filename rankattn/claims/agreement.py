"""Our values beside the published ones, where the settings are the same."""

from pathlib import Path

import numpy as np
import pandas as pd

# Relative precision of a value read off a published figure, by the quality of the reading.
# ``rounded``: given with one or two digits.
READING_ERROR = {"clear": 0.01, "partly_hidden": 0.05, "rounded": 0.05}
# Our value and its spread in a figure's table of plotted values, and what tells its points apart.
COLUMNS = {
    "rank_depth": ("published_min", "published_min", "published_max"),
    "positional_encoding": ("published_min", "published_min", "published_max"),
    "learned_heads": ("median", "lower_quartile", "upper_quartile"),
    "random_features": ("mse_mean", "mse_low", "mse_high"),
    "feature_representation": ("peak", "peak", "peak"),
}
NOT_AXES = {
    "published_value",
    "published_reading",
    "seeds",
    "diverged",
    "error",
    "error_se",
    "error_min",
    "error_max",
    "draws",
    "heads",
    "bound",
}


def compare(figure: str, values: pd.DataFrame) -> pd.DataFrame:
    """One row per point with a published value: ours, published, log10 ratio, tolerance, agreement.

    The tolerance in log10 is the reading error plus our own spread over seeds or
    draws (half its range in log10). Random features are compared with the published
    computation repeated, faults included: like with like.
    """
    column, low, high = COLUMNS[figure]
    points = values[values["published_value"].notna()]
    if figure == "random_features":
        points = points[points["keys"] == "published"]
    axes = [c for c in points.columns if c not in NOT_AXES | {column, low, high} and not c.startswith("published_")]
    names = [", ".join(f"{axis} {row[axis]}" for axis in axes if axis != "keys") for _, row in points.iterrows()]
    ratio = np.log10(points[column] / points["published_value"])
    reading = np.log10(1 + points["published_reading"].map(READING_ERROR))
    tolerance = reading + np.log10(points[high] / points[low]) / 2
    table = pd.DataFrame(
        {"figure": figure, "point": names, "ours": points[column], "published": points["published_value"]}
    )
    return table.assign(
        reading=points["published_reading"], log10_ratio=ratio, tolerance=tolerance, agrees=ratio.abs() <= tolerance
    ).reset_index(drop=True)


def agreement(tables: Path) -> pd.DataFrame:
    """All comparable points of all figures that have a table of values under ``tables``."""
    parts = [
        pd.DataFrame(columns=["figure", "point", "ours", "published", "reading", "log10_ratio", "tolerance", "agrees"])
    ]
    for figure in COLUMNS:
        path = tables / f"figure_{figure}.csv"
        values = pd.read_csv(path) if path.exists() else pd.DataFrame()
        if "published_value" in values and values["published_value"].notna().any():
            parts.append(compare(figure, values))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def summary(points: pd.DataFrame) -> pd.DataFrame:
    """Per figure: points compared, share in agreement, median absolute log10 ratio."""
    rows = [
        {
            "figure": figure,
            "points": len(group),
            "share_in_agreement": group["agrees"].mean(),
            "median_abs_log10_ratio": group["log10_ratio"].abs().median(),
        }
        for figure, group in points.groupby("figure", sort=False)
    ]
    return pd.DataFrame(rows, columns=["figure", "points", "share_in_agreement", "median_abs_log10_ratio"])
