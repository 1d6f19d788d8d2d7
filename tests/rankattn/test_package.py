"""Import structure, source digests, configuration of the grid, logs."""

import subprocess
import sys

import pytest

from rankattn import provenance
from rankattn.config import PRESETS, ConfigError, load, merge
from rankattn.files import replacing
from rankattn.grid import expand, run_id
from rankattn.progress import duration
from rankattn.runs import Run


def test_training_imports_no_plotting_and_no_notebooks():
    unwanted = ("matplotlib", "seaborn", "IPython", "snakemake")
    code = f"import rankattn.training, sys; print([m for m in {unwanted} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["grid", "config", "cost", "provenance", "resources", "plotting", "claims.verdicts"])
def test_planning_and_drawing_do_not_wait_for_torch(module):
    code = f"import rankattn.{module}, sys; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_digest_follows_imports():
    training = provenance.sources("rankattn.training")
    assert {"rankattn.attention", "rankattn.tasks", "rankattn.schedule", "rankattn.encoder"} <= set(training)
    assert not any("plotting" in name or "config" in name for name in training)
    assert "rankattn.plotting.style" in provenance.sources("rankattn.plotting")


def test_runs_shared_by_experiments_are_trained_once():
    grid = expand(load("laptop"))
    keys = [run.key() for run in grid.runs.values()]
    assert len(keys) == len(set(keys))
    none = {m.path for m in grid.experiments["positional_encoding"] if m.run.architecture.positional_encoding == "none"}
    assert none
    assert none <= {m.path for m in grid.experiments["rank_depth"]}
    for members in grid.experiments.values():
        assert all(grid.runs[m.path] == m.run for m in members)


def test_runs_survive_the_way_to_a_job_and_back():
    for preset in PRESETS.glob("*.yaml"):
        for run in expand(load(preset.stem)).runs.values():
            assert Run.from_resolved(run.resolved()) == run
    with pytest.raises(ValueError, match="unknown key depth"):
        Run.from_resolved({**run.resolved(), "model": {**run.resolved()["model"], "depth": 3}})


def test_paper_preset_has_the_papers_settings():
    """Spec, section 5."""
    grid = expand(load("paper"))
    # `protocol` is ours: the faults of the original runs, one way and the other.
    count = {name: len(members) for name, members in grid.experiments.items() if name != "protocol"}
    assert count == {
        "rank_depth": 7 * 3 * 3 + 2,
        "positional_encoding": 2 * 7 * 3,
        "context_length": 20,
        "dimension": 20,
        "learned_heads": 3,
    }
    for path, run in ((path, run) for path, run in grid.runs.items() if not path.startswith("protocol")):
        arch, recipe = run.architecture, run.training
        assert (recipe.steps_per_epoch, recipe.beta1, recipe.beta2, recipe.epsilon) == (100, 0.9, 0.95, 1e-8)
        assert (arch.feedforward, recipe.warmup, recipe.final_rate, arch.bias) == (2048, 0.05, 0.0, True)
        extra = recipe.batch_size == 64
        main = path.startswith("rank_depth")
        assert recipe.learning_rate == (0.01 if main else 0.005)
        assert recipe.epochs == (1000 if main and not extra else 2000)
        assert run.seeds == ((6, 7, 8) if extra else (0, 1, 2, 3, 4))
        assert recipe.test_sequences >= 25600
        if arch.positional_encoding == "concatenated":
            assert (arch.dim, arch.model_dim) == (64, 128)
            assert arch.rank in (1, 2, 4, 8, 16, 32, 64)
    assert {m.run.architecture.points for m in grid.experiments["context_length"]} == {4, 16, 64, 256}
    assert {m.run.architecture.dim for m in grid.experiments["dimension"]} == {16, 64, 128, 256}


def test_laptop_has_three_seeds_everywhere():
    assert all(len(run.seeds) >= 3 for run in expand(load("laptop")).runs.values())


def test_overlays_merge_mappings_and_replace_lists():
    base = {"a": {"x": 1, "y": [1, 2]}, "b": 3}
    assert merge(base, {"a": {"y": [5]}, "c": 4}) == {"a": {"x": 1, "y": [5]}, "b": 3, "c": 4}
    assert base == {"a": {"x": 1, "y": [1, 2]}, "b": 3}


def test_same_name_for_different_runs_is_refused():
    parts = {part: {"grid": {"heads": [1]}, "training": {"epochs": epochs}} for part, epochs in (("a", 7), ("b", 8))}
    with pytest.raises(ConfigError, match="two different runs are called x_new/heads1"):
        expand(load("smoke", {"experiments": {"x_new": {"model": {"layers": 1}, "parts": parts}}}))


def test_run_ids_are_readable():
    assert run_id({"heads": 4, "layers": 3, "learning_rate": 0.001}) == "heads4_layers3_learning_rate0.001"


def test_nothing_half_written_stands_under_its_final_name(tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")
    with pytest.raises(RuntimeError), replacing(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_durations_in_words():
    assert [duration(s) for s in (7.6, 185, 7800)] == ["8 s", "3 min 5 s", "2 h 10 min"]
