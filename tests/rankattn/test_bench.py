"""The benchmark: it refuses to time a wrong step, covers the presets, and its sums are right."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from rankattn import layers
from rankattn.bench import cases, measure, planning, report
from rankattn.config import load
from rankattn.grid import expand
from tests.rankattn.test_training import CPU, RUN


def test_every_laptop_shape_is_timed():
    shapes = {(case.run.architecture, len(case.run.seeds)) for case in cases.laptop_cases()}
    assert shapes == {(run.architecture, len(run.seeds)) for run in expand(load("laptop")).runs.values()}


def test_paper_shapes_are_at_full_size():
    for case in cases.paper_cases(5):
        arch = case.run.architecture
        assert (arch.dim, arch.points, arch.feedforward, case.run.training.batch_size) == (64, 16, 2048, 256)
        assert len(case.run.seeds) == 5


def test_the_large_grid_has_ten_thousand_configurations():
    assert len(expand(load("laptop", planning.LARGE)).experiments["x_large"]) == 10_000


def test_scaling_changes_one_size_at_a_time():
    base = next(case.run for case in cases.scaling_cases() if case.axis == "layers" and case.value == 1)
    for case in cases.scaling_cases():
        arch = case.run.architecture
        assert {"heads": arch.total_heads, "points": arch.points, "dim": arch.dim, "layers": arch.layers}.get(
            case.axis, len(case.run.seeds)
        ) == case.value
        changed = {"points": "points", "dim": "dim", "layers": "layers"}.get(case.axis)
        if changed:
            heads = {"heads": base.architecture.heads, changed: getattr(base.architecture, changed)}
            assert replace(arch, **heads) == base.architecture


@pytest.mark.parametrize("part", ["Feedforward", "Norm", "Attention"])
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_a_step_that_computes_something_else_is_not_timed(part, way, monkeypatch):
    kind = getattr(layers, part)
    original = getattr(kind, way)

    def wrong(self, *args):
        result = original(self, *args)
        return (result[0] * 1.01, result[1]) if way == "forward" else result * 1.01

    measure.check_equal(RUN, CPU)
    monkeypatch.setattr(kind, way, wrong)
    with pytest.raises(measure.Disagreement, match="differs by"):
        measure.measure(cases.Case("laptop", RUN), "cpu", 1, 0.0)


def test_a_row_has_every_time():
    measure_threads = torch.get_num_threads()
    row = measure.measure(cases.Case("laptop", RUN), "cpu", measure_threads, 0.0)
    for name in ("step", "data", "forward", "backward", "optimiser", "reference"):
        assert row[f"{name}_ms"] > 0, name
    assert row["speedup"] == pytest.approx(row["reference_ms"] / row["step_ms"])


def test_summary_and_exponents(tmp_path):
    rows = [
        {"group": "laptop", "case": "a", "axis": "", "width": 1, "speedup": 2.0, "share_of_matrix_rate": 0.5},
        {"group": "laptop", "case": "b", "axis": "", "width": 8, "speedup": 8.0, "share_of_matrix_rate": 0.1},
        {"group": "paper", "case": "c", "axis": "", "width": 1, "speedup": 3.0, "share_of_matrix_rate": 0.7},
        *(
            {"group": "scaling", "case": f"n{n}", "axis": "points", "value": n, "step_ms": 3.0 * n**1.5, "width": 8}
            for n in (4, 8, 16)
        ),
    ]
    times = dict.fromkeys(("data_ms", "forward_ms", "backward_ms", "optimiser_ms", "reference_ms", "memory_mib"), 1.0)
    table = pd.DataFrame([{"step_ms": 1.0, "rank": 1, "heads": 8, "layers": 1, **times, **row} for row in rows])
    totals = report.write(
        table, [{"plan": "p", "seconds": 1.0, "memory_mib": 1.0}], {"machine": "test"}, tmp_path
    ).set_index("group")
    assert totals.loc["laptop", "geometric_mean_speedup"] == pytest.approx(4.0)
    assert totals.loc["laptop", "smallest_speedup"] == 2.0
    assert totals.loc["paper", "share_of_matrix_rate_at_width_1"] == 0.7
    assert report.exponents(table).set_index("size").loc["points", "exponent"] == pytest.approx(1.5)
    for name in ("bench.pdf", "bench.png", "bench.svg", "steps.md", "steps.csv", "bench.json"):
        assert (tmp_path / name).stat().st_size > 0
