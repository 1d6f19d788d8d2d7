"""Figure of the trained full-rank heads: angle to the identity and size."""

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from rankattn.plotting.style import budget_label, panels, trained_on

MEASURES = {"angle": "angle to the identity (degrees)", "size": "Frobenius norm / √d"}


def learned_heads(table: pd.DataFrame, published: pd.DataFrame | None = None) -> tuple[Figure, pd.DataFrame]:
    """Two box plots over all heads and seeds against the parameter budget, for the form W_Q^T W_K.

    The values table gives quartiles of both forms, W_Q^T W_K and the published W_Q W_K^T.
    """
    dim = int(table["dim"].iloc[0])
    figure, axes = panels(2)
    for ax, (measure, label) in zip(axes, MEASURES.items(), strict=True):
        sns.boxplot(table, x="width", y=f"bilinear_{measure}", ax=ax, color="C0", width=0.5, fliersize=2)
        medians = table.groupby("width")[f"bilinear_{measure}"].median()
        widths = list(medians.index)
        ax.plot(range(len(widths)), medians, "D", color="0.2", markersize=3, label="median")
        ax.set_xticks(range(len(widths)), [budget_label(width, dim) for width in widths])
        ax.set_xlabel("parameters per layer")
        ax.set_ylabel(label)
    axes[0].set_ylim(top=180)
    axes[1].set_ylim(bottom=0)
    figure.suptitle(trained_on(table), fontsize="medium")
    return figure, _with_published(quartiles(table), dim, published)


def quartiles(table: pd.DataFrame) -> pd.DataFrame:
    """Median and quartiles over heads and seeds, per width and measure."""
    rows = []
    for width, group in table.groupby("width"):
        for form in ("bilinear", "published"):
            for measure in MEASURES:
                low, median, high = group[f"{form}_{measure}"].quantile([0.25, 0.5, 0.75])
                row = {"width": width, "form": form, "measure": measure, "heads": len(group)}
                rows.append(row | {"lower_quartile": low, "median": median, "upper_quartile": high})
    return pd.DataFrame(rows)


def _with_published(values: pd.DataFrame, dim: int, published: pd.DataFrame | None) -> pd.DataFrame:
    """Add the published medians (of W_Q W_K^T, d = 64) to the rows of the published form."""
    if published is None or dim != 64:
        return values.assign(published_value=float("nan"), published_reading="")
    read = published.melt(["width", "reading"], ["median_angle", "median_size"], "measure", "published_value")
    read = read.rename(columns={"reading": "published_reading"})
    read = read.assign(measure=read["measure"].str.removeprefix("median_"), form="published")
    return values.merge(read, on=["width", "form", "measure"], how="left")
