"""The estimate: totals are sums over runs, rates are recovered, large runs are shrunk before they are timed."""

import pytest

from rankattn import cost, estimate
from rankattn.config import load
from rankattn.grid import expand
from tests.rankattn.test_training import CPU, RUN


def test_totals_and_predicted_time(monkeypatch):
    """With known rates a run's time is its features times the rates, and the fit finds them."""
    rates = [1e-4, 2e-11, 3e-10]
    monkeypatch.setattr(estimate, "seconds_per_step", lambda run, device: float(estimate.features(run) @ rates))
    runs = expand(load("laptop")).runs
    result = estimate.estimate(runs, "cpu", cores=2, threads=1)
    training = sum(float(estimate.features(run) @ rates) * run.training.steps for run in runs.values())
    expected = (training + estimate.SECONDS_PER_JOB * len(runs)) / 2 + estimate.SECONDS_OTHER
    assert result.seconds == pytest.approx(expected, rel=1e-6)
    assert (result.configurations, result.parallel, result.device) == (len(runs), 2, "cpu")
    assert result.trainings == sum(len(run.seeds) for run in runs.values())
    assert result.flops == pytest.approx(sum(cost.step_flops(run) * run.training.steps for run in runs.values()))


def test_large_runs_are_shrunk_and_small_ones_kept():
    for run in expand(load("paper")).runs.values():
        small = estimate.shrunk(run)
        assert cost.step_flops(small) <= estimate.CALIBRATION_FLOPS or small.training.batch_size == 1
        assert small.architecture == run.architecture
    assert estimate.shrunk(RUN) == RUN


def test_a_step_is_really_timed():
    assert 0 < estimate.seconds_per_step(RUN, CPU) < 5
