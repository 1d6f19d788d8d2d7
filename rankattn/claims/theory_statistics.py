"""Statistics of the claims on the theory's own tables: bounds, exponents, constructions."""

import numpy as np
import pandas as pd

from rankattn.claims.statistics import statistic
from rankattn.theory.degree_counting import rank_one_bound
from rankattn.theory.random_features import error_plateau


def _slope(x: pd.Series, y: pd.Series) -> float:
    """Least-squares slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _last_exponents(means: pd.DataFrame) -> pd.Series:
    """Exponent of d between the two largest dimensions, by kind and error."""
    found = {}
    for key, part in means.groupby(["kind", "error"]):
        found[key] = _slope(*(part.sort_values("dim")[column].tail(2) for column in ("dim", "value")))
    return pd.Series(found)


@statistic
def prediction_error(means: pd.DataFrame) -> float:
    """Greatest |mean of log(heads needed / predicted) over d and errors|, of all ways of drawing."""
    ratio = np.log(means["value"] / means["predicted"])
    return float(ratio.groupby(means["kind"]).mean().abs().max())


@statistic
def exponents_by_degree(means: pd.DataFrame, kind: str, first: float, second: float) -> float:
    """Greatest |exponent / expected - 1| at the largest d; expected ``first`` above the plateau, else ``second``."""
    largest = means["dim"].max()
    exponents = _last_exponents(means)[kind]
    expected = np.where(exponents.index > error_plateau(largest), first, second)
    return float(np.abs(exponents / expected - 1).max())


@statistic
def exponent_gain(means: pd.DataFrame) -> float:
    """Least over ways of drawing: exponent of d at the least error minus that at the greatest."""
    exponents = _last_exponents(means).unstack()
    return float((exponents.iloc[:, 0] - exponents.iloc[:, -1]).min())


@statistic
def above_spectral_bound(means: pd.DataFrame) -> float:
    """Least error of random rank-1 heads / least error that any rank-1 hardmax heads could have."""
    bound = [rank_one_bound(dim, heads) for dim, heads in zip(means["dim"], means["num_heads"], strict=True)]
    return float((means["value"] / bound).min())


@statistic
def rank_exponent_gain(means: pd.DataFrame, values: str) -> float:
    """Fitted exponent of d/r in the heads needed at least: at the least error minus at the greatest."""
    part = means[(means["values"] == values) & (means["value"] > 1)]
    slopes = [_slope(group["dim"] / group["rank"], group["value"]) for _, group in part.groupby("error")]
    return slopes[0] - slopes[-1]


@statistic
def above_subspace_bound(means: pd.DataFrame) -> float:
    """Least error of heads on random subspaces / bound with scalar values, where that is not 0."""
    part = means[means["bound_scalar"] > 1e-9]
    return float((part["value"] / part["bound_scalar"]).min())


@statistic
def rank_gain(means: pd.DataFrame) -> float:
    """Least over H and neighbouring ranks below full of error at the lower / error at the higher rank."""
    errors = means[means["rank"] < means["dim"]].pivot(index="rank", columns="heads", values="value").sort_index()
    return float((errors.shift(1) / errors).min(axis=None))


@statistic
def biased_full_rank(means: pd.DataFrame) -> float:
    """Greatest measured error of one full-rank head on the biased target."""
    return float(means["full_rank"].max())


@statistic
def biased_bound(means: pd.DataFrame, greatest_share: float) -> float:
    """Least lower bound on the error of d^2 heads on the biased target, over d and ranks up to a share of d."""
    part = means[(means["target"] == "biased") & (means["rank"] <= greatest_share * means["dim"])]
    return float(part["value"].min())


@statistic
def biased_rate(means: pd.DataFrame) -> float:
    """Least over d and ranks of log(heads needed for error 1/2) / (d - r) on the biased target."""
    part = means[means["target"] == "biased"]
    return float((np.log(part["heads_for_half"]) / (part["dim"] - part["rank"])).min())


@statistic
def bias_contrast(means: pd.DataFrame) -> float:
    """Least over d of the measured error of d^2 random rank-1 heads with biases / without."""
    errors = means.dropna(subset="random_error").pivot(index="dim", columns="target", values="random_error")
    return float((errors["biased"] / errors["unbiased"]).min())


@statistic
def vote_deviation(means: pd.DataFrame, expected: str, tolerance: float, voters: str = "all") -> float:
    """Greatest |error - expected| in units of 3 standard errors + ``tolerance`` of the expected.

    ``expected``: exact (N = 2) or law (N > 2); ``voters``: all, or the most that every length has.
    """
    part = means[means["points"] == 2] if expected == "exact" else means[means["points"] > 2]
    if voters == "most":
        part = part[part["voters"] == part.groupby("points")["voters"].transform("max")]
    away = (part["value"] - part[expected]).abs()
    return float((away / (3 * part["error_se"] + tolerance * part[expected])).max())


@statistic
def vote_within_bound(means: pd.DataFrame) -> float:
    """Greatest measured error / concentration bound, N = 2."""
    part = means[means["points"] == 2]
    return float((part["value"] / part["bound"]).max())


@statistic
def voters_exponent(means: pd.DataFrame, error: float) -> float:
    """Slope of log H against log d, H the voters that reach ``error`` for N = 2 (interpolated in logarithms)."""
    needed = {}
    for dim, part in means[means["points"] == 2].groupby("dim"):
        errors = np.minimum.accumulate(part.sort_values("voters")["value"].to_numpy())
        if errors[-1] <= error < errors[0]:
            needed[dim] = np.exp(np.interp(-np.log(error), -np.log(errors), np.log(np.sort(part["voters"]))))
    if len(needed) < 3:
        raise ValueError(f"error {error} is reached in {len(needed)} dimensions, at least 3 are needed")
    return _slope(pd.Series(list(needed)), pd.Series(list(needed.values())))


@statistic
def vote_against_plateau(means: pd.DataFrame) -> float:
    """Greatest over d of error with most voters / plateau of one layer of random rank-1 heads, N = 2."""
    part = means[means["points"] == 2]
    part = part[part["voters"] == part.groupby("dim")["voters"].transform("max")]
    return float((part["value"] / part["dim"].map(error_plateau)).max())


@statistic
def divergence(means: pd.DataFrame) -> float:
    """Least over d and weightings of the measured / predicted exponent of the height in the number of terms."""
    ratios = []
    for _, part in means.groupby(["dim", "weighting"]):
        last = part.sort_values("terms").tail(2)
        ratios.append(_slope(last["terms"], last["value"]) / last["exponent"].iloc[0])
    return float(min(ratios))
