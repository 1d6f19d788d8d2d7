"""Sizes, fonts and colours of all figures, and how they are saved.

A figure function returns the matplotlib figure and the *values*: a table of
every plotted point. The values are what is published beside the figure and what the tests compare.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from rankattn.files import replacing
from rankattn.plotting.svg import save_svg

PANEL = (3.6, 3.0)  # inches of one panel
POSITIONAL = {"none": ("None", "C0"), "additive": ("Additive", "C1"), "concatenated": ("Concatenated", "C2")}


def use_style() -> None:
    """Settings for text without LaTeX or system fonts, and files that do not depend on time or machine."""
    sns.set_theme(context="paper", style="whitegrid", palette="colorblind")
    matplotlib.rcParams.update(
        {
            "font.family": "DejaVu Sans",  # ships with matplotlib
            "mathtext.fontset": "dejavusans",
            "pdf.fonttype": 42,  # TrueType, not Type 3
            "svg.fonttype": "none",
            "svg.hashsalt": "rankattn",
            "figure.constrained_layout.use": True,
            "savefig.dpi": 160,
        }
    )


def panels(columns: int = 1, rows: int = 1, size: tuple[float, float] = PANEL, **kwargs) -> tuple[Figure, list[Axes]]:
    """Figure with rows x columns axes, as a flat list."""
    figure, axes = plt.subplots(rows, columns, figsize=(size[0] * columns, size[1] * rows), squeeze=False, **kwargs)
    return figure, list(axes.flat)


def value_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Log x axis with exactly ``values`` as plain numbers."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(values)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


def budget_label(width: int, dim: int) -> str:
    """Legend text of w * d^2 parameters per layer, as a power of d where it is one (d^2, d^2.5, d^3)."""
    for exponent in (2, 2.5, 3):
        if abs(dim ** (exponent - 2) - width) < 1e-9:
            return f"$d^{{{exponent:g}}}$"
    return f"${width}\\,d^2$"


def trained_on(table: pd.DataFrame) -> str:
    """What was trained, for a figure's title: sizes, seeds and protocol found in the table."""
    sizes = ", ".join(
        f"{name} = {', '.join(str(v) for v in sorted(table[column].unique()))}"
        for name, column in (("d", "dim"), ("N", "points"))
        if table[column].nunique() == 1
    )
    seeds = table.groupby("run")["seed"].nunique()
    count = str(seeds.min()) if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    protocol = "/".join(sorted(table["protocol"].unique()))
    return f"{sizes}, {count} seeds, {protocol} protocol".lstrip(", ")


def save(figure: Figure, stem: str | Path) -> None:
    """Write ``<stem>.pdf``, ``.png`` and an interactive ``.svg``, without dates or versions in them."""
    with replacing(f"{stem}.pdf") as path:
        figure.savefig(path, metadata={"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None})
    with replacing(f"{stem}.png") as path:
        figure.savefig(path, metadata={"Software": None})
    save_svg(figure, f"{stem}.svg", Path(stem).name)
