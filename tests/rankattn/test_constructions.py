"""Constructions (one full-rank head, biased target, majority vote), high precision, and series that diverge."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gammaln

from rankattn import tasks
from rankattn.seeding import torch_generator
from rankattn.theory import (
    biased_neighbour,
    degree_counting,
    harmonics,
    majority_vote,
    random_features,
    representation_terms,
    single_head,
    vote_laws,
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(single_head.TARGETS), st.integers(1, 40), st.integers(2, 30), st.integers(0, 10**6))
def test_one_full_rank_hardmax_head_is_exact_for_any_size(target, dim, points, seed):
    """Q = I for the nearest and Q = -I for the farthest point, K = VO = I (Fact 1)."""
    generator = torch.Generator().manual_seed(seed)
    assert single_head.head_error(target, dim, points, float("inf"), 20, generator) == (0, 0)


def mp_target(d, cosine, terms):
    """b at one angle from its series in mpmath, coefficients from gamma functions and the three-term recurrence."""
    c = mpmath.gamma(mpmath.mpf(d) / 2) / mpmath.gamma(mpmath.mpf(d + 1) / 2) / mpmath.sqrt(mpmath.pi)
    total, previous, current = mpmath.mpf(0), mpmath.mpf(1), mpmath.mpf(cosine)
    count = mpmath.mpf(d)  # N_l, by the ratio of consecutive degrees
    for l in range(1, terms):
        if l % 2:
            total += c**3 * count * current
            c *= -mpmath.mpf(l) / (l + d)
        following = ((2 * l + d - 2) * cosine * current - l * previous) / (l + d - 2)
        previous, current = current, following
        count *= mpmath.mpf((2 * l + d) * (l + d - 2)) / ((2 * l + d - 2) * (l + 1))
    return (1 + total) / 2


@pytest.mark.parametrize(("d", "heads"), [(5, 1), (8, 1), (8, 12), (32, 12)])
def test_kernel_target_error_and_plateau_in_high_precision(d, heads):
    """To 1e-10 against 40 digits, from the same vectors."""
    drawn = random_features.draw_heads(d, heads, np.random.default_rng(d))
    kernel = random_features.head_kernel(drawn.queries, drawn.queries, drawn.keys, drawn.keys)
    target = random_features.target_vector(d, drawn.cosines)
    curve = random_features.error_curve(d, [heads], np.random.default_rng(d))
    with mpmath.workdps(40):
        q, k = ([[mpmath.mpf(float(x)) for x in row] for row in vectors] for vectors in (drawn.queries, drawn.keys))

        def inner(rows, i, j):
            # A head with itself: unit vectors up to rounding.
            return mpmath.mpf(1) if i == j else mpmath.fdot(rows[i], rows[j])

        exact = mpmath.matrix(heads, heads)
        for i in range(heads):
            for j in range(heads):
                exact[i, j] = 0.5 + 2 / mpmath.pi**2 * mpmath.asin(inner(q, i, j)) * mpmath.asin(inner(k, i, j))
        b = mpmath.matrix([mp_target(d, mpmath.mpf(float(x)), 2500 if d == 5 else 700) for x in drawn.cosines])
        error = 1 - (b.T * mpmath.lu_solve(exact, b))[0]
        c1 = mpmath.gamma(mpmath.mpf(d) / 2) / mpmath.gamma(mpmath.mpf(d + 1) / 2) / mpmath.sqrt(mpmath.pi)
        plateau = (1 - d * c1**2) / 2
        assert max(abs(exact[i, j] - kernel[i, j]) for i in range(heads) for j in range(heads)) < 1e-10
        assert max(abs(b[i] - target[i]) for i in range(heads)) < 1e-10
        assert abs(error - curve[0]) < 1e-10
        assert abs(plateau - random_features.error_plateau(d)) < 1e-14


# Biased nearest neighbour


@pytest.mark.parametrize(("d", "points", "spacing"), [(3, 2, 1.0), (8, 8, 0.6), (16, 5, 0.3)])
def test_one_head_with_the_bias_as_a_coordinate_is_exact(d, points, spacing):
    cuts = biased_neighbour.thresholds(d, points, spacing)
    w, query = tasks.sphere((2, 400, d), [torch_generator("biased", d)], dtype=torch.float64)[0]
    x, bias = biased_neighbour.make_points(w, cuts)
    np.testing.assert_allclose(torch.linalg.vector_norm(x, dim=-1), 1, rtol=1e-12)
    query = torch.cat([query, torch.zeros(400, 1, dtype=torch.float64)], dim=1)
    answer = biased_neighbour.biased_index(x, query, bias)
    wanted = torch.take_along_dim(x, answer[:, None, None], dim=1)[:, 0]
    torch.testing.assert_close(biased_neighbour.full_rank_head(x, query, bias), wanted, rtol=0, atol=0)
    # The answer's last coordinate is the square wave of <w, y>.
    t = (w * query[:, :d]).sum(dim=1).numpy()
    np.testing.assert_array_equal(wanted[:, d].sign().numpy(), biased_neighbour.square_wave(t, cuts))


def test_wave_energies_are_those_of_sign_and_of_an_integral():
    np.testing.assert_allclose(
        biased_neighbour.wave_energies(8, np.zeros(1), 31), harmonics.sign_energies(31, 8), atol=1e-11
    )
    d, cuts = 5, biased_neighbour.thresholds(5, 4, 0.7)
    energies = biased_neighbour.wave_energies(d, cuts, 6)
    norm = 2 * quad(lambda x: np.cos(x) ** (d - 2), 0, np.pi / 2)[0]
    for l in range(7):

        def integrand(angle, l=l):
            t = np.sin(angle)
            wave = float(biased_neighbour.square_wave(t, cuts))
            return wave * harmonics.gegenbauer(l, d, t)[l] * np.cos(angle) ** (d - 2) / norm

        mean = quad(integrand, -np.pi / 2, np.pi / 2, points=np.arcsin(cuts), limit=200)[0]
        assert energies[l] == pytest.approx(harmonics.harmonic_dimensions(l, d)[l] * mean**2, abs=1e-9)
    assert biased_neighbour.wave_energies(4, biased_neighbour.thresholds(4, 4, 0.5)).sum() == pytest.approx(1, abs=0.03)


def test_biases_cost_low_rank_heads_and_no_bias_does_not():
    """The bound is below real heads; with biases it is near 1 and its heads grow exponentially, without not."""
    cuts = biased_neighbour.thresholds(8, 8, 0.7)
    wave, sign = biased_neighbour.wave_energies(8, cuts), biased_neighbour.wave_energies(8, np.zeros(1))
    errors = {
        biased: biased_neighbour.random_heads_error(8, cuts, biased, 64, 4000, torch_generator("heads", biased))[0]
        for biased in (True, False)
    }
    assert errors[True] > degree_counting.unreached(wave, 8, 1, 64, "label") > 0.9
    assert 0.7 > errors[False] > degree_counting.unreached(sign, 8, 1, 64, "label")
    table = biased_neighbour.table([8, 16, 32], [], [0.7, 1.0], 10, [])
    growth = table.pivot(index="dim", columns="target", values="heads_for_half")
    ratios = growth / growth.shift(1)
    # Each doubling of d multiplies by more than the last one did, as no power of d does.
    assert ratios["biased"][32] > 5 * ratios["biased"][16] > 1000 and ratios["unbiased"].max() < 4


def test_with_two_points_a_bias_makes_the_target_easier():
    """One threshold: what degrees 0 and 1 leave is largest without a bias, so a longer context is needed."""
    left = [1 - biased_neighbour.wave_energies(32, np.array([b / 32**0.5]), 1).sum() for b in (0.0, 0.5, 1.0, 2.0)]
    assert np.all(np.diff(left) < 0)


# Majority vote


def test_network_is_a_vote_over_its_heads():
    """Attention with the weights of the construction against counting votes by hand."""
    for d, points, voters in ((5, 2, 7), (6, 4, 11), (9, 5, 6)):
        generator = torch_generator("vote", d)
        heads = tasks.sphere((voters, d), [generator], dtype=torch.float64)[0]
        x, y = majority_vote.draw_inputs(d, points, 200, generator)
        torch.testing.assert_close(x @ x.mT, torch.eye(points, dtype=torch.float64).expand(200, -1, -1))
        picks = ((y @ heads.T)[:, :, None] * torch.einsum("hd,bnd->bhn", heads, x)).argmax(dim=-1)
        votes = torch.nn.functional.one_hot(picks, points).sum(dim=1)
        top = votes.max(dim=1, keepdim=True).values
        winners = (votes == top).double()
        expected = torch.einsum("bn,bnd->bd", winners / winners.sum(dim=1, keepdim=True), x)
        answer = majority_vote.run(majority_vote.network(heads, points), x, y)
        torch.testing.assert_close(answer, expected, atol=1e-4, rtol=0)
        first, second = majority_vote.network(heads, points)
        assert first.query.shape[:2] == ((points - 1) * voters, 1) and second.query.shape[1] == points - 1


def test_edge_of_one_voter_is_the_published_one():
    for d, right in ((8, 0.5969), (16, 0.5659), (32, 0.5457), (64, 0.5320)):
        assert 0.5 + vote_laws.edge(d) == pytest.approx(right, abs=5e-5)
        assert vote_laws.exact_error(d, 1) == pytest.approx(2 * (0.5 - vote_laws.edge(d)), rel=1e-9)


def test_exact_vote_error_against_simulation_and_network():
    d, samples = 6, 200_000
    generator = np.random.default_rng(0)
    t = generator.standard_normal((samples, d))
    t = np.abs(t[:, 0]) / np.linalg.norm(t, axis=1)
    for voters in (4, 25):
        right = generator.binomial(voters, 0.5 + np.arcsin(t) / np.pi)
        errors = 2.0 * (right < voters / 2) + 0.5 * (right == voters / 2)
        exact = vote_laws.exact_error(d, voters)
        assert errors.mean() == pytest.approx(exact, abs=4 * errors.std() / samples**0.5)
    error, se = majority_vote.measured_error(d, 2, 25, 400, 6, torch_generator("vote"))
    assert abs(error - exact) < 5 * se + 0.02


def test_vote_bound_holds_and_law_is_the_limit():
    for d in (8, 64):
        for voters in (1, 25, 1001):
            assert vote_laws.exact_error(d, voters) < vote_laws.concentration_bound(d, voters)
        # The law takes t = <w, y> as Gaussian; near 0 its density is Gamma(d/2)/(sqrt(pi) Gamma((d-1)/2)).
        density = np.exp(gammaln(d / 2) - gammaln((d - 1) / 2)) / np.sqrt(np.pi)
        limit = vote_laws.vote_law(d, 2, 10**6) * density / np.sqrt(d / (2 * np.pi))
        assert vote_laws.exact_error(d, 10**6 + 1) == pytest.approx(limit, rel=1e-3)
        assert limit == pytest.approx(vote_laws.vote_law(d, 2, 10**6), rel=0.8 / d)


def test_law_for_more_points_from_the_gaussian_limit():
    """One vote: the chances of two points differ by sqrt(2/pi) m_N/(N - 1) per unit of difference in similarity."""
    points, samples = 4, 400_000
    generator = np.random.default_rng(1)
    b = generator.standard_normal((samples, points))
    m = b.max(axis=1).mean()
    similarity = np.array([0.1, 0.0, 0.0, -0.1])
    a = b @ similarity + np.sqrt(1 - similarity @ similarity) * generator.standard_normal(samples)
    share = np.bincount((a[:, None] * b).argmax(axis=1), minlength=points) / samples
    expected = 0.2 * np.sqrt(2 / np.pi) * m / (points - 1)
    assert share[0] - share[3] == pytest.approx(expected, abs=4 * np.sqrt(0.5 / samples) + 0.02 * expected)


# Representing function


def test_heights_diverge_with_the_predicted_power():
    table = representation_terms.table([4, 8], [400, 800])
    for _, part in table.groupby(["dim", "weighting"]):
        slope = np.log2(part["peak"].iloc[1] / part["peak"].iloc[0])
        assert slope == pytest.approx(part["exponent"].iloc[0], rel=0.01)
    assert table.loc[(table["dim"] == 4) & (table["weighting"] == "published"), "exponent"].iloc[0] == 5


BAD_CALLS = [
    ("at least 2 points", biased_neighbour.thresholds, 8, 1, 1.0),
    ("at least 3", biased_neighbour.thresholds, 2, 4, 1.0),
    ("spacing of at least 0", biased_neighbour.thresholds, 8, 4, -1.0),
    ("between 0 and 1", biased_neighbour.make_points, torch.ones(1, 3), np.zeros(1), 1.5),
    ("10 times", biased_neighbour.random_heads_error, 8, np.zeros(1), True, 5, 20, torch.Generator()),
    ("odd", biased_neighbour.table, [8, 9], [], [1.0], 10, []),
    ("at least 2", majority_vote.simplex, 1),
    ("unit vectors", majority_vote.network, torch.ones(3, 4, dtype=torch.float64), 2),
    ("H >= 1", majority_vote.network, torch.ones(0, 4, dtype=torch.float64), 2),
    ("2 to 8", majority_vote.draw_inputs, 8, 9, 5, torch.Generator()),
    ("at least 2 draws", majority_vote.measured_error, 8, 2, 3, 10, 1, torch.Generator()),
    ("at least 1", vote_laws.exact_error, 8, 0),
    ("at least 3", vote_laws.exact_error, 2, 5),
    ("at least 1", vote_laws.concentration_bound, 8, 0),
    ("at least 2 points", vote_laws.vote_law, 8, 1, 5),
    ("one of published", representation_terms.height_exponent, 8, "wrong"),
    ("at least 2", representation_terms.table, [4], [1]),
]


@pytest.mark.parametrize("case", BAD_CALLS, ids=lambda case: f"{case[1].__name__}-{case[0]}")
def test_bad_arguments_are_refused_with_advice(case):
    message, function, *arguments = case
    with pytest.raises(ValueError, match=message):
        function(*arguments)
