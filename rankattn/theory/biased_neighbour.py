"""Biased nearest neighbour: exact for one full-rank head, exponentially many low-rank heads.

Target: output the point x_i with the least |x_i - y|^2 + b_i. The paper (section 5) shows that some biases make this
exponentially hard for low rank; its proof only shows that they exist. Here is a family in which everything can be
computed (our construction). w is uniform on S^{d-1}, and N unit vectors of R^{d+1} climb along w while
their last coordinate, which the query does not have, alternates::

    x_i = (s_i w, c_i sqrt(1 - s_i^2)),   c_i = (-1)^i,   s_i equally spaced in [-reach, reach],   y = (query, 0)
    b_i chosen so that points i and i + 1 tie at <w, query> = t_i, thresholds t_i `spacing`/sqrt(d) apart

              c:   +      -      +      -      +           the answer's last coordinate, a square wave
            ----|------|------|------|------|----- <w, query>

One full-rank head with one more coordinate is exact: score 2 <x_i, y> - b_i, the bias carried by the point, a
constant 1 by the query. Without biases the answer is an end point, and its last coordinate is sign<w, query>.

Low rank: the last coordinate, c(<w, y>) once the reach is small, has the share E_l = N_l E[c P_l]^2 in degree l. What H
heads of rank r reach in it is counted as in :mod:`degree_counting` (``label``: the values may read c_i,
b_i and any linear function of x_i), so error >= sum_l E_l (1 - H D_l/N_l)_+, where predicting zero has error 1. A
wave with a period of omega^-1 standard deviations of <w, y> has its energy near degree omega^2, and with N of order
sqrt(d) points and more, omega^2 is of order d: the dimension N_l to be filled is then exponential in d.
"""

import numpy as np
import pandas as pd
import torch
from scipy.special import betaln

from rankattn import tasks
from rankattn.seeding import torch_generator
from rankattn.theory.degree_counting import heads_at_least, unreached
from rankattn.theory.harmonics import check_dimension
from rankattn.theory.random_features import draw_heads

# Degrees of the square wave that are counted one by one.
DEGREE = 151
# Per piece of the wave; a polynomial of degree 151 turns at most 76 times on the longest, half the circle.
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(200)


def thresholds(d: int, points: int, spacing: float) -> np.ndarray:
    """t_1 < ... < t_{N-1}, symmetric, ``spacing``/sqrt(d) apart (d^-1/2 is the standard deviation of <w, y>): (N - 1,).

    Raises ValueError for d < 3, fewer than 2 points, or a negative spacing.
    """
    check_dimension(d)
    if points < 2 or not spacing >= 0:
        raise ValueError(f"points = {points}, spacing = {spacing}: pass at least 2 points and a spacing of at least 0")
    return (np.arange(1, points) - points / 2) * spacing / np.sqrt(d)


def make_points(w: torch.Tensor, cuts: np.ndarray, reach: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
    """Points and biases of the module's family: w (n, d), thresholds (N - 1,) to (n, N, d + 1) and (N,), float64.

    Raises ValueError unless 0 < reach < 1.
    """
    if not 0 < reach < 1:
        raise ValueError(f"reach = {reach}: pass a number between 0 and 1, the largest |<x_i, w>|")
    count = len(cuts) + 1
    along = torch.linspace(-reach, reach, count, dtype=torch.float64)
    labels = (-1.0) ** torch.arange(count, dtype=torch.float64) * (1 - along**2).sqrt()
    points = torch.cat([along[:, None] * w[:, None], labels.expand(len(w), -1)[..., None]], dim=-1)
    # 2 s_i t - b_i = 2 s_{i+1} t - b_{i+1} at t = t_i.
    steps = 2 * along.diff() * torch.as_tensor(cuts, dtype=torch.float64)
    return points, torch.cat([torch.zeros(1, dtype=torch.float64), steps.cumsum(0)])


def biased_index(points: torch.Tensor, query: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """argmin_i |x_i - y|^2 + b_i, literally: points (n, N, D), query (n, D), bias (N,) to (n,) (paper, section 5)."""
    return ((points - query[:, None]).square().sum(dim=-1) + bias).argmin(dim=-1)


def full_rank_head(points: torch.Tensor, query: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Output (n, D) of one hardmax head on points (n, N, D) with the bias as one more coordinate.

    Keys K (x_i, b_i) with K = I, queries Q (y, 1) with Q = diag(2, ..., 2, -1): rank D + 1.
    """
    keys = torch.cat([points, bias.expand(len(points), -1)[..., None]], dim=-1)
    form = torch.diag(torch.cat([torch.full_like(query[0], 2.0), -torch.ones_like(query[0, :1])]))
    queries = torch.cat([query, torch.ones_like(query[:, :1])], dim=-1) @ form
    scores = torch.einsum("nid,nd->ni", keys, queries)
    return tasks.gather_points(points, scores.argmax(dim=-1, keepdim=True))[:, 0]


def square_wave(t: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """c(t), the last coordinate of the answer at <w, y> = t: +1 below the first threshold, changing sign at each."""
    return (-1.0) ** np.searchsorted(cuts, t)


def wave_energies(d: int, cuts: np.ndarray, max_degree: int = DEGREE) -> np.ndarray:
    """E_l = N_l E[c(t) P_l(t)]^2, t one coordinate of a uniform unit vector: (max_degree + 1,), with sum at most 1.

    Between thresholds c is constant: Gauss-Legendre in arcsin(t) on each piece.
    Orthonormal polynomials by their three-term recurrence, so that no N_l overflows.
    """
    check_dimension(d)
    edges = np.arcsin(np.clip(np.concatenate(([-1.0], cuts, [1.0])), -1, 1))
    half = np.diff(edges)[:, None] / 2
    angle = edges[:-1, None] + half * (NODES + 1)
    measure = half * NODE_WEIGHTS * np.cos(angle) ** (d - 2) * np.exp(-betaln((d - 1) / 2, 0.5))
    measure = (measure * (-1.0) ** np.arange(len(edges) - 1)[:, None]).ravel()
    t = np.sin(angle).ravel()
    # t p_l = a_{l+1} p_{l+1} + a_l p_{l-1} with a_l^2 = l (l + d - 3)/((2l + d - 2)(2l + d - 4)), p_0 = 1.
    energies, previous, current, last = [], np.zeros_like(t), np.ones_like(t), 0.0
    for l in range(max_degree + 1):
        energies.append(float(measure @ current) ** 2)
        step = np.sqrt((l + 1) * (l + d - 2) / ((2 * l + d) * (2 * l + d - 2)))
        previous, current, last = current, (t * current - last * previous) / step, step
    return np.array(energies)


def random_heads_error(
    d: int, cuts: np.ndarray, biased: bool, heads: int, samples: int, generator: torch.Generator
) -> tuple[float, float]:
    """Held-out error, and its standard error, of real random rank-1 hardmax heads with fitted weights.

    A head scores point i by <q, y> (<k, x_i> + k_0 b_i), (q, k) as in :mod:`random_features`, k_0 Gaussian,
    <k, x_i> and b_i scaled to size 1, and outputs c_i; weights by least squares on one sample of ``samples``
    inputs, error on a second. An upper estimate of what such heads can do.
    Raises ValueError unless samples is at least 10 times heads.
    """
    if heads < 1 or samples < 10 * heads:
        raise ValueError(f"heads = {heads}, samples = {samples}: pass at least 1 head and 10 times more samples")
    drawn = draw_heads(d, heads, np.random.default_rng(generator.initial_seed()))
    q, k = torch.from_numpy(drawn.queries), torch.from_numpy(drawn.keys)
    on_bias = torch.randn(heads, generator=generator, dtype=torch.float64)
    fits = []
    for _ in range(2):
        w, query = tasks.sphere((2, samples, d), [generator], dtype=torch.float64)[0]
        points, bias = make_points(w, cuts)
        if not biased:
            bias = torch.zeros_like(bias)
        along, labels = points[0, :, :d] @ w[0], points[0, :, d].sign()
        queries, slopes = query @ q.T, d**0.5 * w @ k.T
        best, chosen = torch.full_like(queries, -torch.inf), torch.zeros_like(queries)
        for i, label in enumerate(labels):  # point by point: no (samples, heads, N) in memory
            key = slopes * (along[i] / along.abs().max()) + on_bias * (bias[i] / bias.abs().max().clamp(min=1e-30))
            score = queries * key
            chosen = torch.where(score > best, label, chosen)
            best = torch.maximum(best, score)
        answer = biased_index(points, torch.cat([query, torch.zeros_like(query[:, :1])], dim=-1), bias)
        fits.append((chosen.numpy(), labels[answer].numpy()))
    (features, target), (new_features, new_target) = fits
    weights = np.linalg.lstsq(features, target, rcond=None)[0]
    errors = (new_features @ weights - new_target) ** 2
    return float(errors.mean()), float(errors.std() / np.sqrt(samples))


def full_rank_error(d: int, cuts: np.ndarray, samples: int, generator: torch.Generator) -> float:
    """Mean squared error of the one full-rank head on random inputs of the biased target."""
    w, query = tasks.sphere((2, samples, d), [generator], dtype=torch.float64)[0]
    points, bias = make_points(w, cuts)
    query = torch.cat([query, torch.zeros_like(query[:, :1])], dim=-1)
    wanted = tasks.gather_points(points, biased_index(points, query, bias)[:, None])
    return tasks.error(full_rank_head(points, query, bias)[:, None], wanted).mean().item()


def table(
    dims: list[int], rank_shares: list[float], spacings: list[float], samples: int, measured_dims: list[int],
    seed: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """N = d points, H = d^2 heads: dim, target, rank, spacing, heads, bound, heads_for_half, random_*, full_rank.

    Ranks: 1 and the given shares of d. ``bound``: lower bound on the error of d^2 heads at the hardest spacing.
    ``heads_for_half``: no fewer heads reach an error of 1/2, at the spacing that is hardest for that. ``random_error``:
    real rank-1 heads at the same spacing (NaN where not measured); ``full_rank``: one full-rank head, measured.
    """
    if odd := [dim for dim in dims if dim % 2]:
        raise ValueError(f"dims {odd} are odd: with N = d odd both end points carry the same label; pass even ones")
    rows = []
    for dim in dims:
        waves = {spacing: wave_energies(dim, thresholds(dim, dim, spacing)) for spacing in spacings}
        targets = {"biased": waves, "unbiased": {0.0: wave_energies(dim, np.zeros(1))}}
        for name, energies in targets.items():
            for rank in sorted({1, *(max(1, round(share * dim)) for share in rank_shares)}):
                bounds = {s: unreached(e, dim, rank, dim**2, "label") for s, e in energies.items()}
                hardest = max(bounds, key=bounds.get)
                needed = [
                    heads_at_least(lambda h, e=e, d=dim, r=rank: unreached(e, d, r, h, "label"), 0.5)
                    for e in energies.values()
                ]
                row = {"dim": dim, "target": name, "rank": rank, "spacing": hardest, "heads": dim**2}
                row |= {"bound": bounds[hardest], "heads_for_half": max(needed)}
                key = ("biased_neighbour", seed, dim, name)
                # Without biases the answer does not depend on where the inner points are.
                cuts = thresholds(dim, dim, hardest or 1.0)
                random = (np.nan, np.nan)
                if rank == 1 and dim in measured_dims:
                    random = random_heads_error(dim, cuts, name == "biased", dim**2, samples, torch_generator(*key))
                exact = full_rank_error(dim, cuts, 1000, torch_generator(*key, "full rank"))
                rows.append(row | {"random_error": random[0], "random_se": random[1], "full_rank": exact})
    return pd.DataFrame(rows)
