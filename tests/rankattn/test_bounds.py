"""Lower bounds, heads needed and random subspaces: each against an independent route."""

import numpy as np
import pytest
import torch

from rankattn.seeding import torch_generator
from rankattn.theory import degree_counting, harmonics, heads_needed, random_features, random_subspaces, rank_bound


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_log_dimensions_are_the_dimensions():
    for d in (3, 8, 64):
        logs = degree_counting.log_harmonic_dimensions(30, d)
        np.testing.assert_allclose(np.exp(logs), harmonics.harmonic_dimensions(30, d), rtol=1e-10)


@pytest.mark.parametrize("d", [3, 8, 64])
def test_spectral_bound_is_the_plateau_once_degree_one_is_filled(d):
    assert degree_counting.rank_one_bound(d, d) == pytest.approx(random_features.error_plateau(d), rel=1e-12)
    below = [degree_counting.rank_one_bound(d, heads) for heads in (1, 2, d, 2 * d, d**3)]
    assert np.all(np.diff(below) < 0) and below[0] == pytest.approx((1 - harmonics.sign_coefficients(1, d)[1] ** 2) / 2)


def test_spectral_bound_is_that_of_a_discretised_operator():
    """Singular values of the matrix sign<w_i, y_j> on equal-weight points of the sphere in R^3 (a spiral)."""
    n = 1200
    z = 1 - (2 * np.arange(n) + 1) / n
    turn = np.pi * (1 + 5**0.5) * np.arange(n)
    y = np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)
    energy = np.linalg.svd(np.sign(y @ y.T + 1e-12), compute_uv=False) ** 2 / n**2
    for heads in (1, 3, 10, 21):
        assert degree_counting.rank_one_bound(3, heads) == pytest.approx((1 - energy[:heads].sum()) / 2, abs=2e-3)


@pytest.mark.parametrize("keys", random_features.DRAWS[::2])
def test_random_heads_stay_above_the_spectral_bound(keys):
    counts = [1, 5, 25, 125, 625]
    for d in (3, 6):
        curve = random_features.error_curve(d, counts, np.random.default_rng(1), keys)
        assert np.all(curve > [degree_counting.rank_one_bound(d, heads) for heads in counts])


def conditional_functionals(d, r, degree, values, generator, draws=150):
    """Rows E[(output of a head along w) Y(w) | key projections] for a basis of harmonics Y, complement of dimension 2.

    The complement is averaged over rotations and reflections of the plane by the trapezoid rule, exact for polynomials.
    """
    assert d - r == 2
    count = degree_counting.harmonic_count(degree, d)
    basis = unit(generator.standard_normal((count, d)))
    form, row = generator.standard_normal((d, d)), generator.standard_normal(d)
    turns = []
    for angle in 2 * np.pi * np.arange(4 * degree + 8) / (4 * degree + 8):
        plane = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        for mirror in (np.eye(2), np.diag([1.0, -1.0])):
            turns.append(np.block([[np.eye(r), np.zeros((r, 2))], [np.zeros((2, r)), plane @ mirror]]))
    turns = np.array(turns)
    rows = []
    for _ in range(draws):
        w, other = np.linalg.qr(generator.standard_normal((d, 2)))[0].T
        w, other = turns @ w, turns @ other
        harmonic = harmonics.gegenbauer(degree, d, np.clip(w @ basis.T, -1, 1))[degree]
        outputs = {
            "scalar": [np.ones(len(w))],
            "label": [np.ones(len(w)), w @ row],
            "matrix": [np.einsum("ni,ij,nj->n", w, form, x) for x in (w, other)],
        }[values]
        rows += [(output[:, None] * harmonic).mean(axis=0) for output in outputs]
    return np.array(rows)


@pytest.mark.parametrize("values", degree_counting.VALUES)
@pytest.mark.parametrize(("d", "r", "degree"), [(3, 1, 3), (3, 1, 5), (4, 2, 5), (5, 3, 3)])
def test_one_head_reaches_no_more_than_is_counted(values, d, r, degree):
    """Numerical rank of all functionals of the key projections on one degree; exact for scalar values."""
    rows = conditional_functionals(d, r, degree, values, np.random.default_rng(degree))
    rank = np.linalg.matrix_rank(rows, tol=1e-9 * np.abs(rows).max() * len(rows))
    counted = round(np.exp(degree_counting.log_head_functions(degree, r, values)[-1]))
    assert rank == counted if values == "scalar" else rank <= counted
    assert rank > (0 if values == "scalar" else np.exp(degree_counting.log_head_functions(degree, r)[-1]))


def test_random_subspaces_reach_all_that_is_counted():
    generator = np.random.default_rng(0)
    for d, r, heads, degree in ((6, 1, 5, 3), (7, 2, 19, 3), (8, 2, 40, 3), (8, 4, 2, 3), (8, 4, 5, 3), (6, 3, 8, 5)):
        frames = random_subspaces.random_frames(d, r, heads, generator)
        counted = heads * round(np.exp(degree_counting.log_head_functions(degree, r)[-1]))
        expected = min(counted, degree_counting.harmonic_count(degree, d))
        assert random_subspaces.reached_dimension(frames, degree, generator) == expected
    # Two 5-dimensional subspaces of R^8 meet in 2 dimensions: 4 cubics are counted twice.
    frames = random_subspaces.random_frames(8, 5, 2, generator)
    assert random_subspaces.reached_dimension(frames, 3, generator) == 2 * 35 - 4


def test_bound_is_attained_by_least_squares_on_a_rich_basis():
    """sign<w, y> fitted by odd polynomials up to degree 5 of two projections, averaged over y."""
    d, r, heads, n = 4, 1, 2, 30_000
    generator = np.random.default_rng(2)
    frames = random_subspaces.random_frames(d, r, heads, generator)[:, 0]
    w, y = unit(generator.standard_normal((n, d))), unit(generator.standard_normal((300, d)))
    basis = np.concatenate([(w @ frames.T) ** power for power in (1, 3, 5)], axis=1)
    target = np.sign(w @ y.T)
    error = 1 - np.sum(np.linalg.qr(basis)[0].T @ target * (np.linalg.qr(basis)[0].T @ target), axis=0) / n
    energies = harmonics.sign_energies(5, d)
    expected = degree_counting.unreached(energies, d, r, heads)
    # Polynomials of degree 5 reach nothing above degree 5, of which the formula takes off a share.
    expected += (1 - energies.sum()) * heads / degree_counting.harmonic_count(5, d)
    assert error.mean() == pytest.approx(expected, abs=4 * error.std() / 300**0.5 + 2e-3)


def test_bounds_fall_with_rank_heads_and_freedom_and_vanish_at_full_rank():
    for d in (6, 16):
        grid = np.array([[degree_counting.subspace_bound(d, r, h) for h in (1, 8, 64)] for r in range(1, d + 1)])
        assert np.all(np.diff(grid, axis=0) <= 1e-15) and np.all(np.diff(grid, axis=1) <= 1e-15)
        assert np.all(grid[-1] == 0)
        for r in (1, 2, d // 2):
            assert degree_counting.subspace_bound(d, r, 4, "matrix") < degree_counting.subspace_bound(d, r, 4)


def test_heads_at_least_inverts_the_bound():
    def bound(heads):
        return degree_counting.subspace_bound(16, 2, heads)

    heads = degree_counting.heads_at_least(bound, 0.15)
    assert bound(heads) == pytest.approx(0.15, rel=1e-6)
    assert degree_counting.heads_at_least(bound, 0.6) == 1
    assert degree_counting.heads_at_least(lambda h: 0.2, 0.1) == np.inf


def test_bound_at_rank_one_grows_like_d_to_the_degree():
    """With r = 1 the counts are N_l: exponents 1, 3 and 5 of d, by which degree has to be filled."""
    for error, exponent in ((0.3, 1), (0.15, 3), (0.12, 5)):
        needed = [
            degree_counting.heads_at_least(lambda h, d=d: degree_counting.subspace_bound(d, 1, h), error)
            for d in (1024, 2048)
        ]
        assert np.log2(needed[1] / needed[0]) == pytest.approx(exponent, rel=0.03)
    # For large d sign is expanded in Hermite polynomials: shares 2/pi and 1/(3 pi) of degrees 1 and 3.
    hermite = [(1 - 2 / np.pi) / 2, (1 - 7 / (3 * np.pi)) / 2]
    assert rank_bound.plateaus(4000, 3) == pytest.approx(hermite, rel=1e-3)


@pytest.mark.parametrize("kind", heads_needed.KINDS)
def test_equivalent_predicts_the_exact_error(kind):
    for d in (4, 8):
        equivalent = heads_needed.Equivalent(d, kind)
        counts = [64, 256, 1024]
        exact = np.mean(
            [random_features.error_curve(d, counts, np.random.default_rng(seed), kind) for seed in range(5)], axis=0
        )
        np.testing.assert_allclose([equivalent.error(heads) for heads in counts], exact, rtol=0.025)


def test_equivalent_has_the_exponents_of_the_degrees():
    for kind, exponents in (("independent", (2, 6)), ("corrected", (1, 3))):
        for error, exponent in zip((0.25, 0.15), exponents, strict=True):
            needed = [
                degree_counting.heads_at_least(heads_needed.Equivalent(d, kind).error, error, 1e60) for d in (256, 512)
            ]
            assert heads_needed.exponent((256, 512), needed) == pytest.approx(exponent, rel=0.04)


def test_heads_needed_table_counts_its_own_curves():
    table = heads_needed.table([5], [16], [0.3, 0.05], 64, 2)
    assert list(table.groupby("dim")["draw"].agg(["min", "max"]).loc[16]) == [-1, -1]
    row = table[(table["dim"] == 5) & (table["error"] == 0.3)].iloc[0]
    generator = heads_needed.numpy_generator("heads_needed", 0, 5, row["kind"], 0)
    curve = random_features.error_curve(5, range(1, 65), generator, row["kind"])
    assert curve[int(row["needed"]) - 1] <= 0.3 < curve[int(row["needed"]) - 2]
    assert table.loc[table["error"] == 0.05, "needed"].isna().all()


def test_independent_keys_are_independent():
    heads = random_features.draw_heads(20, 4000, np.random.default_rng(0), "independent")
    np.testing.assert_allclose(np.linalg.norm(heads.keys, axis=1), 1, rtol=1e-12)
    assert heads.cosines.std() == pytest.approx(20**-0.5, rel=0.05)


def test_real_heads_of_rank_one_agree_with_the_closed_form():
    """Exact error of heads with k = +-q, from the kernel; the fit brackets it."""
    d, counts = 5, [1, 4, 16]
    frames = random_subspaces.random_frames(d, 1, 16, np.random.default_rng(3))
    q = frames[:, 0]
    sign = (-1.0) ** np.arange(16)
    kernel = random_features.head_kernel(q, q, sign[:, None] * q, sign[:, None] * q)
    target = random_features.target_vector(d, sign)
    fits = random_subspaces.fitted_errors(frames, counts, 40_000, torch_generator("subspaces"))
    for count, (fitted, held_out) in zip(counts, fits, strict=True):
        exact = 1 - target[:count] @ np.linalg.solve(kernel[:count, :count], target[:count])
        assert fitted.mean - 4 * fitted.standard_error < exact < held_out.mean + 4 * held_out.standard_error
        assert held_out.mean == pytest.approx(exact, abs=4 * held_out.standard_error + 0.002)


def test_symmetric_limit_is_where_many_heads_end():
    d, heads = 4, 1500
    q = unit(np.random.default_rng(4).standard_normal((heads, d)))
    sign = (-1.0) ** np.arange(heads)
    kernel = random_features.head_kernel(q, q, sign[:, None] * q, sign[:, None] * q)
    target = random_features.target_vector(d, sign)
    assert 1 - target @ np.linalg.solve(kernel, target) == pytest.approx(degree_counting.symmetric_limit(d), rel=0.01)


def test_full_rank_subspaces_are_exact():
    frames = random_subspaces.random_frames(4, 4, 2, np.random.default_rng(0))
    for fitted, held_out in random_subspaces.fitted_errors(frames, [1, 2], 200, torch.Generator().manual_seed(0)):
        assert fitted.mean == pytest.approx(0, abs=1e-12) and held_out.mean == pytest.approx(0, abs=1e-12)


BAD_CALLS = [
    ("at least 3", degree_counting.rank_one_bound, 2, 5),
    ("at least 1", degree_counting.rank_one_bound, 8, 0),
    ("1 to d = 8", degree_counting.subspace_bound, 8, 9, 5),
    ("1 to d = 8", degree_counting.subspace_bound, 8, 0, 5),
    ("positive number of heads", degree_counting.subspace_bound, 8, 2, 0),
    ("one of scalar", degree_counting.subspace_bound, 8, 2, 1, "wrong"),
    ("positive error", degree_counting.heads_at_least, lambda h: 1.0, 0.0),
    ("one of independent", heads_needed.Equivalent, 8, "published"),
    ("positive number of heads", heads_needed.Equivalent(8).error, 0),
    ("at least 2 finite", heads_needed.exponent, [1, 2], [3, np.inf]),
    ("at least 1", random_subspaces.random_frames, 8, 2, 0, np.random.default_rng(0)),
    ("orthonormal", random_subspaces.reached_dimension, np.ones((1, 2, 4)), 3, np.random.default_rng(0)),
    ("10 times", random_subspaces.fitted_errors, np.eye(4)[None], [1], 5, torch.Generator()),
    ("at least 3", degree_counting.symmetric_limit, 2),
]


@pytest.mark.parametrize("case", BAD_CALLS, ids=lambda case: f"{case[1].__name__}-{case[0]}")
def test_bad_arguments_are_refused_with_advice(case):
    message, function, *arguments = case
    with pytest.raises(ValueError, match=message):
        function(*arguments)
