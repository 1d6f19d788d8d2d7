"""Laws of the majority vote (:mod:`rankattn.theory.majority_vote`): error of the network without running it."""

import numpy as np
from scipy.special import betaln
from scipy.stats import binom

from rankattn.theory.harmonics import check_dimension
from rankattn.theory.random_features import target_vector

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(400)


def edge(d: int) -> float:
    """Probability that one voter is right minus 1/2, N = 2, on average over inputs: b at angle 0, minus 1/2."""
    return float(target_vector(d, 1.0)) - 0.5


def _over_angles(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Angles arcsin|t| and weights of their law: Gauss-Legendre in the root, dense near 0 where the vote is decided."""
    check_dimension(d)
    root = (NODES + 1) / 2
    angle = np.pi / 2 * root**2
    return angle, np.pi / 2 * root * NODE_WEIGHTS * 2 * np.cos(angle) ** (d - 2) * np.exp(-betaln((d - 1) / 2, 0.5))


def exact_error(d: int, voters: int) -> float:
    """Error of the vote for N = 2, mean over voters and inputs (module's formula). ValueError for d < 3, voters < 1."""
    if voters < 1:
        raise ValueError(f"voters = {voters}: pass at least 1")
    angle, weight = _over_angles(d)
    right = 0.5 + angle / np.pi
    fewer = binom.cdf(np.ceil(voters / 2) - 1, voters, right)
    tie = binom.pmf(voters / 2, voters, right) if voters % 2 == 0 else 0.0
    return float(weight @ (2 * fewer + 0.5 * tie))


def concentration_bound(d: int, voters: float) -> float:
    """Upper bound on the error for N = 2: 2 E exp(-2 H arcsin(t)^2/pi^2) (Hoeffding). Raises as :func:`exact_error`."""
    if not voters >= 1:
        raise ValueError(f"voters = {voters}: pass at least 1")
    angle, weight = _over_angles(d)
    return float(weight @ (2 * np.exp(-2 * voters * (angle / np.pi) ** 2)))


def vote_law(d: int, points: int, voters: float) -> float:
    """(N - 1) sqrt(2 d/(N H)): the error's asymptotic law. ValueError for d < 3, N < 2 or voters <= 0."""
    check_dimension(d)
    if points < 2 or not voters > 0:
        raise ValueError(f"points = {points}, voters = {voters}: pass at least 2 points and a positive number")
    return (points - 1) * float(np.sqrt(2 * d / (points * voters)))
