"""Heads of rank r on random subspaces: real hardmax heads by Monte Carlo, above the bound by counting.

A head looks at points and query through one uniform r-dimensional subspace P: Q = K, an orthonormal basis of it. It
outputs x_1 exactly when <P y, P x_1> > <P y, P x_2>; at r = d it is exact. Every second head has K = -Q and
outputs the other point, so that large weights can sum to 1. H of them with the best scalar
weights a have, with s_h = +-sign<P_h y, P_h w> and s = sign<y, w>, the error

    1/2 (sum a - 1)^2 + 1/2 E (sum_h a_h s_h - s)^2.

No closed form is known for r > 1, so the weights are fitted on one sample. Their error on that sample is too low
on average, on a second one it is an unbiased estimate of the error of these weights, which is at
least the best: the best error lies between the two in the mean, and both are reported with standard errors.

More heads of this kind do not help without end: by symmetry infinitely many add up to one odd function of <y, w>,
for rank 1 to arcsin<y, w>, and leave the error of :func:`rankattn.theory.degree_counting.symmetric_limit`.
"""

import numpy as np
import pandas as pd

from rankattn.seeding import numpy_generator, torch_generator
from rankattn.theory.degree_counting import VALUES, check_rank, harmonic_count, log_head_functions, subspace_bound
from rankattn.theory.harmonics import gegenbauer
from rankattn.theory.monte_carlo import BLOCK, Estimate, draw_points


def random_frames(d: int, r: int, heads: int, generator: np.random.Generator) -> np.ndarray:
    """Orthonormal bases of uniform r-dimensional subspaces of R^d: (heads, r, d). The first do not depend on ``heads``.

    Raises ValueError for d < 3, r outside 1 ... d, or heads < 1.
    """
    check_rank(d, r)
    if heads < 1:
        raise ValueError(f"heads = {heads}: pass at least 1")
    bases, _ = np.linalg.qr(generator.standard_normal((heads, d, r)))
    return bases.transpose(0, 2, 1)


def reached_dimension(frames: np.ndarray, degree: int, generator: np.random.Generator) -> int:
    """Dimension of what generalised attention on these subspaces reaches in one degree, numerically.

    frames (H, r, d), orthonormal. The functions of P_h w of degree l are spanned by P_l(<u, w>), u in the
    subspace, whose inner products are P_l(<u, u'>)/N_l: the rank of their Gram matrix at 4 C(l) random u per head.
    Raises ValueError for d < 3, or for frames that are not orthonormal.
    """
    heads, r, d = frames.shape
    if not np.allclose(frames @ frames.transpose(0, 2, 1), np.eye(r), atol=1e-9):
        raise ValueError("frames have to be orthonormal rows: pass them through a QR decomposition first")
    # Four times as many as are needed: with just enough, some would be close to dependent by chance.
    per_head = 4 * round(np.exp(log_head_functions(degree, r)[-1]))
    directions = generator.standard_normal((heads, per_head, r)) @ frames
    directions = directions.reshape(-1, d)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    gram = gegenbauer(degree, d, np.clip(directions @ directions.T, -1, 1))[degree]
    return min(int(np.linalg.matrix_rank(gram, tol=1e-12 * len(gram))), harmonic_count(degree, d))


def head_signs(frames: np.ndarray, samples: int, generator) -> tuple[np.ndarray, np.ndarray]:
    """Choices of real heads on random points: signs s_h (samples, H) and s (samples,), +1 for x_1, -1 for x_2.

    ``generator``: a torch generator. A head scores the points by +-<P y, P x_i> (minus: every second head) and takes
    the larger score.
    """
    heads, r, d = frames.shape
    rows = frames.reshape(heads * r, d).T
    signs, targets = [], []
    for start in range(0, samples, BLOCK // 2):
        points, query = (x.numpy() for x in draw_points(d, min(BLOCK // 2, samples - start), generator))
        projected = query @ rows
        scores = [((x @ rows) * projected).reshape(-1, heads, r).sum(axis=2) for x in (points[:, 0], points[:, 1])]
        chosen = np.where(scores[0] > scores[1], np.float32(1), np.float32(-1))
        chosen[:, 1::2] *= -1
        signs.append(chosen)
        products = np.einsum("nid,nd->ni", points, query)
        targets.append(np.where(products[:, 0] > products[:, 1], np.float32(1), np.float32(-1)))
    return np.concatenate(signs), np.concatenate(targets)


def _errors(signs: np.ndarray, target: np.ndarray, weights: np.ndarray) -> Estimate:
    """Error of given weights on a sample, and its standard error."""
    values = 0.5 * (weights.sum() - 1) ** 2 + 0.5 * (signs @ weights - target) ** 2
    return Estimate(values.mean(), values.std() / np.sqrt(len(values)))


def fitted_errors(frames: np.ndarray, counts: list[int], samples: int, generator) -> list[tuple[Estimate, Estimate]]:
    """Error of the best weights of the first H heads on the sample they are fitted to, and on a second one.

    One pair per H in ``counts``; ``generator`` is a torch generator. Raises ValueError unless every H is at least 1 and
    samples at least 10 max(H) (fewer fit noise).
    """
    if min(counts) < 1 or samples < 10 * max(counts):
        raise ValueError(f"counts = {counts}, samples = {samples}: pass counts of at least 1 and 10 times more samples")
    fit, held_out = (head_signs(frames[: max(counts)], samples, generator) for _ in range(2))
    kernel = 0.5 + 0.5 * (fit[0].T @ fit[0]).astype(float) / samples
    target = 0.5 + 0.5 * (fit[0].T @ fit[1]).astype(float) / samples
    results = []
    for count in counts:
        weights = np.linalg.lstsq(kernel[:count, :count], target[:count], rcond=1e-12)[0]
        results.append(tuple(_errors(signs[:, :count], aim, weights) for signs, aim in (fit, held_out)))
    return results


def table(dim: int, ranks: list[int], heads: list[int], draws: int, samples: int, seed: int = 0) -> pd.DataFrame:
    """Columns dim, rank, heads, draw, fitted, held_out (errors of real heads), *_se, bound_scalar, bound_matrix.

    A draw is a new set of subspaces and of samples.
    """
    rows = []
    for rank in ranks:
        bounds = {
            count: {
                f"bound_{values}": subspace_bound(dim, rank, count, values) for values in VALUES if values != "label"
            }
            for count in heads
        }
        for draw in range(draws):
            key = ("random_subspaces", seed, dim, rank, draw)
            frames = random_frames(dim, rank, max(heads), numpy_generator(*key))
            measured = fitted_errors(frames, heads, samples, torch_generator(*key))
            for count, (fitted, held_out) in zip(heads, measured, strict=True):
                row = {"dim": dim, "rank": rank, "heads": count, "draw": draw}
                row |= {"fitted": fitted.mean, "fitted_se": fitted.standard_error}
                row |= {"held_out": held_out.mean, "held_out_se": held_out.standard_error}
                rows.append(row | bounds[count])
    return pd.DataFrame(rows)
