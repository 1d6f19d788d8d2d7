"""Closed forms against quadrature, real hardmax heads and the published curve."""

import numpy as np
import pytest
import torch
from scipy.special import beta, eval_gegenbauer

from rankattn.theory import harmonics, monte_carlo, random_features, representation

DIMS = (3, 4, 8, 17, 64)
# Published means of 5 draws, all read clearly, at these numbers of heads: {d: errors}.
COUNTS = [32, 128, 256, 512, 1024, 2048]
PUBLISHED = {
    8: [0.3497, 0.2268, 0.1910, 0.1753, 0.1660, 0.1601],
    16: [0.4273, 0.3097, 0.2511, 0.2142, 0.1928, 0.1825],
    32: [0.4691, 0.3828, 0.3194, 0.2668, 0.2261, 0.2014],
    64: [0.4919, 0.4310, 0.3810, 0.3273, 0.2739, 0.2320],
}


def sphere_rule(d, low=-np.pi / 2, nodes=400):
    """Gauss-Legendre in theta = arcsin(t): t, and weights of t's law on S^{d-1}, t > sin(low)."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    half = (np.pi / 2 - low) / 2
    theta = low + half * (x + 1)
    return np.sin(theta), half * w * np.cos(theta) ** (d - 2) / beta((d - 1) / 2, 0.5)


@pytest.mark.parametrize("d", DIMS)
def test_polynomials_are_orthogonal_and_match_scipy(d):
    t, weight = sphere_rule(d)
    p = harmonics.gegenbauer(30, d, t)
    orthonormal = p * np.sqrt(harmonics.harmonic_dimensions(30, d))[:, None]
    np.testing.assert_allclose((orthonormal * weight) @ orthonormal.T, np.eye(31), atol=1e-9)
    for l in (1, 2, 7, 30):
        reference = eval_gegenbauer(l, d / 2 - 1, t) / eval_gegenbauer(l, d / 2 - 1, 1.0)
        np.testing.assert_allclose(p[l], reference, atol=1e-11)
    np.testing.assert_allclose(harmonics.gegenbauer(30, d, 1.0), 1, rtol=1e-13)
    coefficients = np.arange(31.0)
    np.testing.assert_allclose(harmonics.gegenbauer_sum(coefficients, d, t), coefficients @ p, atol=1e-10)


@pytest.mark.parametrize("d", DIMS)
def test_coefficients_of_sign_and_arcsin_equal_their_integrals(d):
    t, weight = sphere_rule(d, low=0)
    p = harmonics.gegenbauer(25, d, t)
    # Both functions are odd: twice the integral over t > 0 for odd degrees, else 0.
    sign, arcsin = (2 * (np.arange(26) % 2) * (p @ (weight * f)) for f in (1, np.arcsin(t)))
    np.testing.assert_allclose(harmonics.sign_coefficients(25, d), sign, atol=1e-13)
    np.testing.assert_allclose(harmonics.arcsin_coefficients(25, d), arcsin, atol=1e-13)


@pytest.mark.parametrize("d", DIMS)
def test_energies_of_sign_sum_to_one(d):
    energies = harmonics.sign_energies(60001, d)
    explicit = harmonics.harmonic_dimensions(99, d) * harmonics.sign_coefficients(99, d) ** 2
    np.testing.assert_allclose(energies[:100], explicit, rtol=1e-10)
    # N_l c_l^2 falls like l^-2, so what is left falls like 1/L.
    left = 1 - np.array([energies[:30002].sum(), energies.sum()])
    assert 0 < left[1] < 1e-3 and left[0] / left[1] == pytest.approx(2, rel=0.01)


def test_target_vector_at_angle_zero_and_plateau():
    values = {8: (0.5969, 0.1612), 16: (0.5659, 0.1716), 32: (0.5457, 0.1767), 64: (0.5320, 0.1792)}
    for d, (at_zero, plateau) in values.items():
        assert random_features.target_vector(d, 1.0) == pytest.approx(at_zero, abs=5e-5)
        assert random_features.error_plateau(d) == pytest.approx(plateau, abs=5e-5)


@pytest.mark.parametrize("d", [4, 8, 64])
def test_truncation_of_target_is_within_its_bound(d):
    t = np.linspace(-1, 1, 101)
    exact = random_features.target_vector(d, t)
    for degree in (5, 15, 49):
        cut = random_features.target_vector(d, t, degree, tolerance=np.inf)
        assert np.abs(cut - exact).max() <= random_features.target_tail(d, degree) + 2e-12
    np.testing.assert_allclose(exact, random_features.target_vector(d, t, 16383), atol=1e-12)


@pytest.mark.parametrize("d", [3, 6])
def test_closed_forms_match_real_heads(d):
    heads = random_features.draw_heads(d, 5, np.random.default_rng(3))
    kernel = random_features.head_kernel(heads.queries, heads.queries, heads.keys, heads.keys)
    target = random_features.target_vector(d, heads.cosines)
    weights = np.linalg.solve(kernel, target)
    generator = torch.Generator().manual_seed(d)
    measured = monte_carlo.measure_heads(heads.queries, heads.keys, weights, 200_000, generator)
    # 31 numbers, most of them distinct: 4 standard errors by chance once in about 500 seeds.
    for (mean, standard_error), value in zip(measured, (kernel, target, 1 - target @ weights), strict=True):
        assert np.max(standard_error) < 4e-3
        assert np.all(np.abs(mean - value) <= 4 * standard_error + 1e-7)


def test_monte_carlo_sees_that_unnormalised_keys_break_the_formula():
    q, k, cosines = random_features.draw_heads(4, 5, np.random.default_rng(3), "published")
    np.testing.assert_allclose(np.sum(q * k, axis=1), cosines, atol=1e-14)
    measured = monte_carlo.measure_heads(q, k, np.ones(5), 50_000, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(np.diag(measured.kernel.mean), 1)
    assert np.all(np.diag(random_features.head_kernel(q, q, k, k)) < 0.99)


@pytest.mark.parametrize("keys", random_features.KEYS)
def test_draws_are_nested_and_errors_equal_a_direct_solve(keys):
    d, counts = 5, [1, 2, 37, 256, 257, 400]
    few, many = (random_features.draw_heads(d, n, np.random.default_rng(7), keys) for n in (257, 700))
    for a, b in zip(few, many, strict=True):
        np.testing.assert_array_equal(a, b[:257])
    np.testing.assert_allclose(np.linalg.norm(many.queries, axis=1), 1, rtol=1e-12)
    lengths = np.linalg.norm(many.keys, axis=1)
    assert np.all(lengths < 1) if keys == "published" else np.allclose(lengths, 1, rtol=1e-12)

    curve = random_features.error_curve(d, counts, np.random.default_rng(7), keys)
    for count, value in zip(counts, curve, strict=True):
        q, k, cosines = (part[:count] for part in many)
        kernel, target = random_features.head_kernel(q, q, k, k), random_features.target_vector(d, cosines)
        if keys == "published":
            target = random_features.target_vector(d, cosines, 49, np.inf).astype(np.float16).astype(float)
        assert value == pytest.approx(1 - target @ np.linalg.solve(kernel, target), abs=1e-9)
    assert np.all(np.diff(curve) < 0)


@pytest.mark.parametrize("d", PUBLISHED)
def test_published_variant_reproduces_the_published_curve(d):
    table = random_features.table([d], 2048, 8, ["published"]).groupby("num_heads")["mse"]
    # Reading precision 1%, and the spread of means of 8 and of 5 draws.
    sigma = table.std()[COUNTS] * np.sqrt(1 / 8 + 1 / 5)
    difference = table.mean()[COUNTS] - PUBLISHED[d]
    assert np.all(np.abs(difference) < 0.01 * np.array(PUBLISHED[d]) + 3 * sigma), difference


def test_corrected_variant_lies_above_the_published_curve():
    table = random_features.table([8], 1024, 5).groupby(["keys", "num_heads"])["mse"].mean()
    assert table["corrected", 256] == pytest.approx(0.204, rel=0.02)
    assert table["corrected", 1024] == pytest.approx(0.175, rel=0.01)
    assert table["corrected", 1024] > 1.04 * PUBLISHED[8][COUNTS.index(1024)]
    assert np.all(table["corrected"] > table["published"])


def test_table_is_tidy_and_its_draws_do_not_depend_on_its_extent():
    small = random_features.table([3], 4, 2)
    assert list(small.columns) == ["dim", "num_heads", "draw", "keys", "mse"] and len(small) == 3 * 2 * 2
    large = random_features.table([4, 3], 100, 3, ["corrected"])
    assert large["num_heads"].max() == 64
    both = small.merge(large, on=["dim", "num_heads", "draw", "keys"])
    assert len(both) == 6
    np.testing.assert_allclose(both["mse_x"], both["mse_y"], rtol=1e-12)


def test_representing_function_has_the_published_peaks():
    angles = np.linspace(-np.pi, np.pi, 20001)
    for d, height in ((4, 1.349e8), (6, 6.465e12), (8, 6.029e16)):  # read: 1.4e8, 6.5e12, 6e16
        u = representation.representing_function(d, angles)
        assert np.abs(u).max() == pytest.approx(height, rel=1e-3)
        np.testing.assert_allclose(np.abs(u[[0, 10000, -1]]), representation.peak_height(d), rtol=1e-9)
        assert np.abs(u[np.abs(np.sin(angles)) > 0.5]).max() < 0.3 * height
        assert representation.peak_height(d, 100) > 10 * height


def test_exact_weighting_represents_the_target():
    d, samples = 4, 200_000
    generator = np.random.default_rng(5)
    q, k = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in generator.standard_normal((2, samples, d)))
    angle = np.arccos(np.sum(q * k, axis=1))
    fixed = random_features.draw_heads(d, 6, generator)
    kernel = random_features.head_kernel(q, fixed.queries, k, fixed.keys) - 0.5
    expected = random_features.target_vector(d, fixed.cosines, 1, np.inf) - 0.5
    for weighting, holds in (("exact", True), ("published", False)):
        u = representation.representing_function(d, angle, 2, weighting)
        values = kernel * u[:, None]  # (samples, 6)
        sigma = values.std(axis=0) / np.sqrt(samples)
        assert np.all(np.abs(values.mean(axis=0) - expected) < 4 * sigma) == holds


BAD_CALLS = [
    ("at least 3", harmonics.gegenbauer, 3, 2, 0.0),
    ("at least 3", representation.representing_function, 2, 0.0),
    ("at least 0", harmonics.sign_energies, -1, 4),
    ("cosines", harmonics.gegenbauer, 3, 4, 1.1),
    ("cosines", random_features.target_vector, 4, np.nan),
    ("per degree", harmonics.gegenbauer_sum, [], 4, 0.0),
    ("odd", random_features.target_vector, 8, 0.5, 50),
    ("max_degree=511", random_features.target_vector, 8, 0.5, 49),
    ("positive, not", random_features.target_degree, 8, 0.0),
    ("its norm", random_features.head_kernel, *4 * [np.ones((2, 3))]),
    ("at least 1", random_features.draw_heads, 8, 0, np.random.default_rng(0)),
    ("positive whole", random_features.error_curve, 8, [1.5], np.random.default_rng(0)),
    ("one of corrected", random_features.error_curve, 8, [1], np.random.default_rng(0), "wrong"),
    ("at least 2", monte_carlo.draw_points, 1, 5, torch.Generator()),
    ("and weights", monte_carlo.measure_heads, np.eye(3), np.eye(3), [1.0], 9, torch.Generator()),
    ("2 samples", monte_carlo.measure_heads, np.eye(3), np.eye(3), np.ones(3), 1, torch.Generator()),
    ("radians", representation.representing_function, 4, 180.0),
    ("one of published", representation.representing_function, 4, 0.0, 50, "wrong"),
]


@pytest.mark.parametrize("case", BAD_CALLS, ids=lambda case: f"{case[1].__name__}-{case[0]}")
def test_bad_arguments_are_refused_with_advice(case):
    message, function, *arguments = case
    with pytest.raises(ValueError, match=message):
        function(*arguments)
