"""The statistics that claims are decided on: from cell means (axes and ``value``) to one number."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from rankattn.theory.random_features import error_plateau

Statistic = Callable[..., float]
STATISTICS: dict[str, Statistic] = {}


def statistic(function: Statistic) -> Statistic:
    """Make a function usable by its name in ``config/claims.yaml``."""
    STATISTICS[function.__name__] = function
    return function


def _by_rank(means: pd.DataFrame, **fixed) -> pd.Series:
    """Error by rank where the other axes have the given values; raises ValueError if there are none."""
    part = means
    for key, value in fixed.items():
        part = part[part[key] == value]
    if part.empty:
        raise ValueError(f"no configuration with {fixed}")
    return part.set_index("rank")["value"].sort_index()


def _end(means: pd.DataFrame, axis: str, which: str) -> int:
    """Least or greatest value of an axis, by the words of the claims file."""
    return means[axis].min() if which in ("least", "shallowest", "shortest") else means[axis].max()


def _geometric(values: pd.Series) -> float:
    return float(np.exp(np.log(values).mean()))


@statistic
def cliff(means: pd.DataFrame, layers: int) -> float:
    """Least over budgets of error at half rank / error at full rank."""
    ratios = []
    for width in means["width"].unique():
        errors = _by_rank(means, layers=layers, width=width)
        ratios.append(errors.iloc[-2] / errors.iloc[-1])
    return float(min(ratios))


@statistic
def step_down(means: pd.DataFrame, layers: int, width: int) -> float:
    """Least over neighbouring ranks of error at the lower / error at the higher rank, at H r = w d."""
    errors = _by_rank(means, layers=layers, width=width)
    return float((errors.shift(1) / errors).min())


@statistic
def heads_for_rank(means: pd.DataFrame, layers: int) -> float:
    """Error at half rank with the largest budget / error at full rank with the smallest budget."""
    many = _by_rank(means, layers=layers, width=_end(means, "width", "greatest"))
    few = _by_rank(means, layers=layers, width=_end(means, "width", "least"))
    return float(many.iloc[-2] / few.iloc[-1])


@statistic
def depth_gain(means: pd.DataFrame, deep: int) -> float:
    """Geometric mean over ranks up to d/2 of one-layer error / error with ``deep`` layers, largest budget."""
    width = _end(means, "width", "greatest")
    one, more = _by_rank(means, layers=1, width=width), _by_rank(means, layers=deep, width=width)
    return _geometric((one / more).iloc[:-1])


@statistic
def small_budget_error(means: pd.DataFrame, layers: int) -> float:
    """Least error over ranks with the smallest budget."""
    return float(_by_rank(means, layers=layers, width=_end(means, "width", "least")).min())


@statistic
def full_rank_lead(means: pd.DataFrame) -> float:
    """Least over depths and budgets of best error below full rank / error at full rank."""
    leads = []
    for (layers, width), _ in means.groupby(["layers", "width"]):
        errors = _by_rank(means, layers=layers, width=width)
        leads.append(errors.iloc[:-1].min() / errors.iloc[-1])
    return float(min(leads))


@statistic
def positions_effect(means: pd.DataFrame, kind: str, layers: str, full_rank: bool, reduce: str) -> float:
    """Error with positions / without, over ranks: ``reduce`` is mean (geometric), least or greatest."""
    depth = _end(means, "layers", layers)
    ratio = _by_rank(means, layers=depth, positional_encoding=kind)
    ratio = ratio / _by_rank(means, layers=depth, positional_encoding="none")
    ratio = ratio if full_rank else ratio.iloc[:-1]
    return _geometric(ratio) if reduce == "mean" else float(ratio.min() if reduce == "least" else ratio.max())


@statistic
def error_at_length(means: pd.DataFrame, length: str, rank: str) -> float:
    """At the shortest or longest context: greatest error of all ranks, or the error at full rank."""
    errors = _by_rank(means, points=_end(means, "points", length))
    return float(errors.max() if rank == "all" else errors.iloc[-1])


@statistic
def length_growth(means: pd.DataFrame) -> float:
    """Least over ranks up to d/2 of error in the longest context / error in the shortest."""
    table = means.pivot(index="rank", columns="points", values="value").sort_index().iloc[:-1]
    return float((table.iloc[:, -1] / table.iloc[:, 0]).min())


@statistic
def narrow_angle(means: pd.DataFrame) -> float:
    """Angle to the identity in degrees at the smallest budget."""
    return float(means.set_index("width")["value"].sort_index().iloc[0])


@statistic
def angle_loss(means: pd.DataFrame) -> float:
    """Angle at the smallest budget minus angle at the largest, in degrees."""
    angles = means.set_index("width")["value"].sort_index()
    return float(angles.iloc[0] - angles.iloc[-1])


@statistic
def growth_with_dimension(means: pd.DataFrame, num_heads: int) -> float:
    """Least over neighbouring dimensions of the factor by which the error of H random heads grows."""
    errors = means[means["num_heads"] == num_heads].set_index("dim")["value"].sort_index()
    return float((errors / errors.shift(1)).min())


@statistic
def heads_exponent(means: pd.DataFrame, error: float) -> float:
    """Slope of log H against log d, H the number of random heads that reach ``error`` (interpolated in log H)."""
    needed = {}
    for dim, part in means.groupby("dim"):
        errors = np.minimum.accumulate(part.sort_values("num_heads")["value"].to_numpy())
        if errors[-1] <= error < errors[0]:
            needed[dim] = np.interp(-error, -errors, np.log(np.sort(part["num_heads"])))
    if len(needed) < 3:
        raise ValueError(f"error {error} is reached in {len(needed)} dimensions, at least 3 are needed")
    return float(np.polyfit(np.log(list(needed)), list(needed.values()), 1)[0])


@statistic
def plateau_excess(means: pd.DataFrame, heads_per_square: int) -> float:
    """Greatest |error / plateau - 1| at H = ``heads_per_square`` d^2, over the dimensions that have it."""
    part = means[means["num_heads"] == heads_per_square * means["dim"] ** 2]
    if part.empty:
        raise ValueError(f"no dimension has {heads_per_square} d^2 heads")
    return float((part["value"] / part["dim"].map(error_plateau) - 1).abs().max())


@statistic
def hardmax_error(means: pd.DataFrame) -> float:
    """Greatest error of one full-rank hardmax head over targets, dimensions and lengths."""
    return float(means.loc[np.isinf(means["scale"]), "value"].max())


@statistic
def softmax_law(means: pd.DataFrame, scale: float) -> float:
    """Greatest |error - law| of one softmax head at a scale, in units of 3 standard errors + 10% of the law."""
    part = means[(means["scale"] == scale) & (means["law"] > 0)]
    return float(((part["value"] - part["law"]).abs() / (3 * part["error_se"] + 0.1 * part["law"])).max())


@statistic
def concentration(means: pd.DataFrame) -> float:
    """Least over d of the peak of |u| / the median of |u| over angles."""
    sizes = means.groupby("dim")["value"]
    return float((sizes.max() / sizes.median()).min())


@statistic
def peak_growth(means: pd.DataFrame) -> float:
    """Least over neighbouring dimensions of the factor by which the peak of |u| grows."""
    peaks = means.groupby("dim")["value"].max().sort_index()
    return float((peaks / peaks.shift(1)).min())
