"""The targets equal a brute-force answer; points are uniform unit vectors."""

import pytest
import torch

from rankattn import targets, tasks
from rankattn.seeding import seed_of, torch_generator


def points_of(*shape, seed=0):
    return tasks.sphere(shape, [torch_generator("test-points", seed)], dtype=torch.float64)[0]


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 5), (7, 8), (16, 3)])
def test_farthest_is_the_point_at_the_largest_distance(n, d):
    x = points_of(5, n, d)
    index = targets.farthest_index(x)
    for b in range(5):
        for j in range(n):
            distances = [(x[b, i] - x[b, j]).norm().item() for i in range(n)]
            assert index[b, j] == distances.index(max(distances))


def test_nearest_is_the_point_at_the_least_distance_and_queries_are_kept():
    x, y = points_of(6, 5, 4), points_of(6, 9, 4, seed=1)
    before = y.clone()
    index = targets.nearest_index(x, y)
    distances = torch.cdist(y, x)
    assert torch.equal(index, distances.argmin(-1))
    assert torch.equal(y, before)


def test_ties_go_to_the_lowest_index():
    x = torch.eye(2).repeat(2, 1)[None]  # e1, e2, e1, e2: two farthest points each
    assert targets.farthest_index(x).tolist() == [[1, 0, 1, 0]]
    assert targets.nearest_index(x, torch.eye(2)[None]).tolist() == [[0, 1]]


def test_target_vectors_are_the_chosen_points():
    x = points_of(3, 6, 4)
    index = targets.farthest_index(x)
    target = tasks.gather_points(x, index)
    for b in range(3):
        for j in range(6):
            assert torch.equal(target[b, j], x[b, index[b, j]])


def test_docstring_example():
    x = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    assert targets.farthest_index(x).tolist() == [2, 3, 0, 1]


def test_points_are_unit_and_have_the_moments_of_the_uniform_sphere():
    x = points_of(4000, 5, 6).flatten(0, 1)
    assert torch.allclose(x.norm(dim=-1), torch.ones(()).double())
    assert x.mean(0).abs().max() < 5 * (1 / 6 / 20000) ** 0.5
    # E x_i x_j = delta_ij / d, E x_1^4 = 3 / (d (d + 2))
    assert (x.T @ x / len(x) - torch.eye(6) / 6).abs().max() < 0.006
    assert abs((x[:, 0] ** 4).mean() - 3 / 48) < 0.003


def test_each_row_depends_on_its_own_generator_only():
    one = tasks.sphere((4, 3, 2), [torch_generator("a")])
    two = tasks.sphere((4, 3, 2), [torch_generator("b"), torch_generator("a")])
    assert torch.equal(one[0], two[1])
    assert not torch.equal(two[0], two[1])


def test_error_of_predicting_zero_is_one():
    x = points_of(7, 5, 8)
    target = tasks.gather_points(x, targets.farthest_index(x))
    assert torch.allclose(tasks.error(torch.zeros_like(x), target), torch.ones(7).double())
    # PyTorch's mse_loss averages over coordinates too: d times smaller.
    mse = torch.nn.functional.mse_loss(x, target) * 8
    assert torch.isclose(tasks.error(x, target).mean(), mse)


def test_seeds_of_keys_do_not_change():
    # Recorded values: a change here changes every result.
    assert seed_of("data", 0, {"b": 1, "a": [2, 3]}) == seed_of("data", 0, {"a": [2, 3], "b": 1})
    assert seed_of("data", 0) == 3641889812021827152
    assert len({seed_of(p, s, e) for p in ("init", "data", "test") for s in range(20) for e in range(20)}) == 1200
