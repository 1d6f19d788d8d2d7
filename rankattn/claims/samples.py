"""Values of a table by configuration and replicate, and their bootstrap.

A *cell* is one configuration with its replicates (seeds, or draws of random heads). A
statistic sees only the mean of every cell; the bootstrap draws replicates with
replacement within cells and gives the statistic's distribution.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from rankattn.seeding import numpy_generator

# Axes that tell configurations apart in the claims.
TRAINED = ["dim", "points", "positional_encoding", "layers", "width", "rank"]


@dataclass(frozen=True)
class Cells:
    """``axes``: one row per cell; ``values``: (cells, replicates), NaN where a cell has fewer.

    ``block``: cells with the same number share their replicates (nested draws), so they are drawn together.
    """

    axes: pd.DataFrame
    values: np.ndarray
    block: np.ndarray

    @property
    def replicates(self) -> int:
        """Least number of replicates of any cell."""
        return int((~np.isnan(self.values)).sum(axis=1).min())

    def with_values(self, values: np.ndarray) -> pd.DataFrame:
        return self.axes.assign(value=values)

    def means(self) -> pd.DataFrame:
        """Axes with the mean over replicates in column ``value``."""
        return self.with_values(np.nanmean(self.values, axis=1))

    def resampled(self, generator: np.random.Generator) -> pd.DataFrame:
        """Axes with the mean of one bootstrap sample in column ``value``."""
        counts = (~np.isnan(self.values)).sum(axis=1)
        uniform = generator.random((self.block.max() + 1, self.values.shape[1]))[self.block]
        picked = (uniform * counts[:, None]).astype(int)
        drawn = np.take_along_axis(self.values, picked, axis=1)
        mask = np.arange(self.values.shape[1]) < counts[:, None]
        return self.with_values(np.where(mask, drawn, 0.0).sum(axis=1) / counts)


def cells(table: pd.DataFrame, axes: list[str], value: str, replicate: str, block: list[str] | None = None) -> Cells:
    """Cells of a tidy table. Replicates of a cell are sorted and packed to the left."""
    table = table.sort_values([*axes, replicate])
    grouped = table.groupby(axes, dropna=False, sort=True)
    keys = grouped.size().reset_index()[axes]
    rows = [group[value].to_numpy(dtype=float) for _, group in grouped]
    values = np.full((len(rows), max(len(row) for row in rows)), np.nan)
    for packed, row in zip(values, rows, strict=True):
        packed[: len(row)] = row
    number = keys.groupby(block).ngroup().to_numpy() if block else np.arange(len(keys))
    return Cells(keys, values, number)


def trained(path: Path) -> Cells:
    """Held-out error by configuration and seed; a diverged seed counts as an error of 1, predicting nothing."""
    table = pd.read_csv(path)
    table = table.assign(error=table["error"].where(table["status"] == "ok", 1.0))
    return cells(table, TRAINED, "error", "seed")


def head_angles(path: Path) -> Cells:
    """Median angle over the heads of a seed, by width."""
    table = pd.read_csv(path).groupby(["width", "seed"])["bilinear_angle"].median().reset_index()
    return cells(table, ["width"], "bilinear_angle", "seed")


def random_heads(path: Path) -> Cells:
    """Error of random rank-1 heads (corrected) by dimension and number of heads; draws are nested in H."""
    table = pd.read_csv(path)
    return cells(table[table["keys"] == "corrected"], ["dim", "num_heads"], "mse", "draw", block=["dim"])


def single_head(path: Path) -> Cells:
    """Error of one full-rank head by target, size and scale: exact up to Monte Carlo, one value per cell."""
    table = pd.read_csv(path).assign(replicate=0)
    return cells(table, ["target", "dim", "points", "scale", "law", "error_se"], "error", "replicate")


def representation(path: Path) -> Cells:
    """|u| by dimension and angle; a formula, one value per cell."""
    table = pd.read_csv(path).assign(replicate=0)
    return cells(table.assign(u=table["u"].abs()), ["dim", "angle"], "u", "replicate")


def formula(axes: list[str], value: str) -> Callable[[Path], Cells]:
    """Reader of a table with one value per cell: a formula, or a measurement whose error is among the axes."""
    return lambda path: cells(pd.read_csv(path).assign(replicate=0), axes, value, "replicate")


def heads_needed(path: Path) -> Cells:
    """Random heads that an error takes, by way of drawing, error and d, where every draw reached the error."""
    axes = ["kind", "error", "dim"]
    table = pd.read_csv(path)
    table = table[table.groupby(axes)["needed"].transform("count") == table.groupby(axes)["draw"].transform("size")]
    return cells(table, [*axes, "predicted"], "needed", "draw", block=["kind", "dim"])


def predicted_heads(path: Path) -> Cells:
    """The prediction by degrees of the same; an asymptotic formula, one value per cell."""
    table = pd.read_csv(path).drop_duplicates(["kind", "error", "dim"]).assign(replicate=0)
    return cells(table, ["kind", "error", "dim"], "predicted", "replicate")


def random_subspaces(path: Path) -> Cells:
    """Held-out error of heads on random subspaces by rank and number of heads; draws are nested in H."""
    axes = ["dim", "rank", "heads", "bound_scalar", "bound_matrix"]
    return cells(pd.read_csv(path), axes, "held_out", "draw", block=["rank"])


READERS: dict[str, Callable[[Path], Cells]] = {
    "trained": trained,
    "head_angles": head_angles,
    "random_heads": random_heads,
    "single_head": single_head,
    "representation": representation,
    "heads_needed": heads_needed,
    "predicted_heads": predicted_heads,
    "rank_bound": formula(["dim", "rank", "values", "error"], "heads"),
    "random_subspaces": random_subspaces,
    "biased_neighbour": formula(["dim", "target", "rank", "heads_for_half", "random_error", "full_rank"], "bound"),
    "majority_vote": formula(["dim", "points", "voters", "error_se", "exact", "bound", "law"], "error"),
    "representation_terms": formula(["dim", "weighting", "terms", "exponent"], "peak"),
}


def interval(
    sample: Cells, statistic: Callable[[pd.DataFrame], float], key: str, draws: int = 400, level: float = 0.95
) -> tuple[float, float, float]:
    """The statistic of the means and its bootstrap percentile interval.

    With one replicate per cell (a formula) the interval is the value itself.
    """
    value = statistic(sample.means())
    if sample.values.shape[1] == 1:
        return value, value, value
    generator = numpy_generator("claims", key)
    drawn = np.array([statistic(sample.resampled(generator)) for _ in range(draws)])
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return value, float(low), float(high)
