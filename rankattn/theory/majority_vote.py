"""Two layers of low-rank attention find the nearest of N orthonormal points by majority vote (paper, section 6).

The network, as weights of the package's own attention. A token has the blocks

    coordinates (d) | code (N - 1) | votes (N - 1) | result (d)

Point i starts as (x_i, u_i, 0, 0), the query as (y, 0, 0, 0). The u_i are the corners of a regular simplex, a
concatenated positional encoding: +1 and -1 for N = 2. A query attends to the N points.

Layer 1: H random voters with q = k uniform; voter h picks the point with the largest <q, y><q, x_i> and adds its code,
divided by H, to the votes. A rank-1 head carries one number, so a voter is N - 1 heads with the same q and k.
Layer 2: heads of rank N - 1 (rank 1 for N = 2) score point i by <votes, u_i>, which is largest for the point with
most votes, and copy its coordinates, N - 1 of them each, to the result.

All scores have a large scale: softmax is hardmax up to rounding. Error for N = 2, exact. With t = <w, y> a random
voter is right with probability 1/2 + arcsin|t|/pi, independently of the others given the input, so

    error = E[2 P(fewer than H/2 right) + 1/2 P(exactly H/2 right)],  right ~ Binomial(H, 1/2 + arcsin|t|/pi),

and by Hoeffding error <= 2 E exp(-2 H arcsin(t)^2/pi^2), a bound. On average over inputs the edge is b - 1/2, b of
:mod:`random_features` at angle 0; exp(-2 H edge^2) with the *average* edge would be no bound,
because inputs with t near 0 have hardly any edge. They decide: error ~ sqrt(d/H), so an error eps takes d/eps^2 voters.

N > 2 (our own route: plurality instead of the paper's majority). To first order in t_i = <x_i, y> the chances of
two points differ by sqrt(2/pi) m_N/(N - 1) (t_i - t_j), m_N the mean of the largest of N normal numbers; a difference
of votes has variance 2 H/N, and the gap of the two largest t_i has the density m_N sqrt(d) at 0. m_N cancels:

    error ~ (N - 1) sqrt(2 d/(N H)),   an asymptotic law for d >> N and H -> infinity,

so 2 N d/eps^2 voters, or N - 1 times as many rank-1 heads, then one layer of rank N - 1. The price of context
is polynomial here, but rank N - 1 in the second layer is full rank once N exceeds d.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rankattn import targets, tasks
from rankattn.attention import attend
from rankattn.seeding import torch_generator
from rankattn.theory.harmonics import check_dimension
from rankattn.theory.vote_laws import concentration_bound, edge, exact_error, vote_law

# Large enough for hardmax in float64; the least difference of scores in layer 2 is about 1/H.
SCALE = 1e9


class Layer(NamedTuple):
    """Attention of queries over points: query, key, value (H, r, m), output (m, H, r)."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor

    def __call__(self, queries: Tensor, points: Tensor) -> Tensor:
        """queries (B, m) plus what the heads read from points (B, N, m): (B, m), by the package's attention."""
        k, v = (torch.einsum("hrm,bnm->hrnb", weight, points) for weight in (self.key, self.value))
        q = torch.zeros_like(k)  # attention has as many queries as keys; only the first is read
        q[:, :, 0] = torch.einsum("hrm,bm->hrb", self.query, queries)
        heads = attend(torch.stack((q, k, v))[None])[0, :, :, 0]  # (H, r, B)
        return queries + torch.einsum("mhr,hrb->bm", self.output, heads)


def simplex(points: int) -> Tensor:
    """N unit vectors of R^{N-1} with equal inner products -1/(N - 1): (N, N - 1). ValueError for fewer than 2."""
    if points < 2:
        raise ValueError(f"points = {points}: a vote needs at least 2")
    centred = torch.eye(points, dtype=torch.float64) - 1 / points
    _, _, basis = torch.linalg.svd(centred)
    codes = centred @ basis[: points - 1].T
    return codes / torch.linalg.vector_norm(codes, dim=1, keepdim=True)


def _check_voters(voters: Tensor) -> None:
    if voters.ndim != 2 or voters.shape[0] < 1:
        raise ValueError(f"voters have to be (H, d) with H >= 1, not {tuple(voters.shape)}")
    if not torch.allclose(torch.linalg.vector_norm(voters, dim=1), torch.ones((), dtype=voters.dtype)):
        raise ValueError("voters have to be unit vectors: divide each by its norm first")


def network(voters: Tensor, points: int) -> tuple[Layer, Layer]:
    """The two layers of the module's construction for voters (H, d), unit vectors, and N points.

    Layer 1 has (N - 1) H heads of rank 1, layer 2 ceil(d/(N - 1)) heads of rank N - 1.
    Raises ValueError for voters that are not unit vectors, H = 0, or fewer than 2 points.
    """
    _check_voters(voters)
    count, d = voters.shape
    rank = simplex(points).shape[1]
    width = 2 * d + 2 * rank
    code, votes, result = d, d + rank, d + 2 * rank  # first coordinate of each block
    first = Layer(*(torch.zeros(count, rank, width, dtype=torch.float64) for _ in range(4)))
    first.query[:, :, :d] = SCALE * voters[:, None]
    first.key[:, :, :d] = voters[:, None]
    for c in range(rank):
        first.value[:, c, code + c] = 1
        first.output[:, c, votes + c] = 1 / count
    first = Layer(
        *(weight.reshape(-1, 1, width) for weight in first[:3]), first.output.reshape(-1, 1, width).permute(2, 0, 1)
    )
    copiers = -(-d // rank)
    second = Layer(*(torch.zeros(copiers, rank, width, dtype=torch.float64) for _ in range(4)))
    for c in range(rank):
        second.query[:, c, votes + c] = SCALE
        second.key[:, c, code + c] = 1
    for coordinate in range(d):
        head, c = divmod(coordinate, rank)
        second.value[head, c, coordinate] = 1
        second.output[head, c, result + coordinate] = 1
    return first, second._replace(output=second.output.permute(2, 0, 1))


def run(layers: tuple[Layer, Layer], points: Tensor, query: Tensor) -> Tensor:
    """The network's answer (B, d) to points (B, N, d) and queries (B, d)."""
    batch, count, d = points.shape
    codes = simplex(count).expand(batch, -1, -1)
    spare = torch.zeros(batch, count, count - 1 + d, dtype=torch.float64)
    tokens = torch.cat([points, codes, spare], dim=-1)
    state = torch.cat([query, torch.zeros(batch, tokens.shape[-1] - d, dtype=torch.float64)], dim=-1)
    for layer in layers:
        state = layer(state, tokens)
    return state[:, -d:]


def draw_inputs(d: int, points: int, samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Orthonormal points (samples, N, d), uniform, and uniform queries (samples, d). ValueError for N > d."""
    check_dimension(d)
    if not 2 <= points <= d:
        raise ValueError(f"points = {points}: orthonormal points in dimension {d} are 2 to {d}")
    frames, _ = torch.linalg.qr(torch.randn(samples, d, points, generator=generator, dtype=torch.float64))
    return frames.mT.contiguous(), tasks.sphere((samples, d), [generator], dtype=torch.float64)[0]


def measured_error(
    d: int, points: int, voters: int, inputs: int, draws: int, generator: torch.Generator
) -> tuple[float, float]:
    """Error of the network, and its standard error: ``draws`` networks with random voters, ``inputs`` inputs each."""
    if draws < 2 or inputs < 1:
        raise ValueError(f"draws = {draws}, inputs = {inputs}: a standard error needs at least 2 draws and 1 input")
    errors = []
    for _ in range(draws):
        layers = network(tasks.sphere((voters, d), [generator], dtype=torch.float64)[0], points)
        x, y = draw_inputs(d, points, inputs, generator)
        wanted = tasks.gather_points(x, targets.nearest_index(x, y[:, None]))
        errors.append(tasks.error(run(layers, x, y)[:, None], wanted).mean())
    errors = torch.stack(errors)
    return errors.mean().item(), (errors.std() / draws**0.5).item()


def table(
    dims: list[int], lengths: list[int], length_dim: int, voters: list[int], max_heads: int, inputs: int, draws: int,
    seed: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """Columns dim, points, voters, error, error_se (the network), exact, bound (N = 2), law, edge.

    Every dimension with N = 2, and ``length_dim`` with every length, as far as (N - 1) H is at most ``max_heads``.
    """
    rows = []
    for dim, points in dict.fromkeys([(d, 2) for d in dims] + [(length_dim, n) for n in lengths]):
        for count in (h for h in voters if (points - 1) * h <= max_heads):
            generator = torch_generator("majority_vote", seed, dim, points, count)
            error, error_se = measured_error(dim, points, count, inputs, draws, generator)
            row = {"dim": dim, "points": points, "voters": count, "error": error, "error_se": error_se}
            row["exact"] = exact_error(dim, count) if points == 2 else np.nan
            row["bound"] = concentration_bound(dim, count) if points == 2 else np.nan
            rows.append(row | {"law": vote_law(dim, points, count), "edge": edge(dim) if points == 2 else np.nan})
    return pd.DataFrame(rows)
