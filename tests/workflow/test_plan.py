"""What Snakemake plans: everything from nothing, nothing when done, and exactly what a change needs."""

import re
import shlex

import pytest
import yaml

from rankattn.config import load, preset_names
from rankattn.grid import expand
from tests.conftest import SMOKE
from tests.workflow.helpers import changes, computing, figures, jobs, planned, training_plan

pytestmark = pytest.mark.workflow
NOTHING = "Nothing to be done"


def snakefiles(root):
    return [root / "Snakefile", *sorted((root / "workflow" / "rules").glob("*.smk"))]


def edit(path, pattern, replacement):
    """Replace every match in a file; the pattern has to occur."""
    text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"))
    assert count, f"{path.name} has no {pattern}"
    path.write_text(text, encoding="utf-8")


def test_lint_passes(snakemake, checkout):
    """Snakemake's own linter has no complaint."""
    done = snakemake(checkout, "--lint")
    assert done.returncode == 0 and "good condition" in done.stdout, done.stdout


def test_rules_are_plain(root):
    """No rule has a ``run:`` block, and no lambda goes on to a second line."""
    for path in snakefiles(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not re.fullmatch(r"\s*run\s*:.*", line), f"{path.name}:{number} uses run:"
            tail = line.partition("lambda")[2]
            assert all(tail.count(a) <= tail.count(b) for a, b in ("()", "[]", "{}")), (
                f"{path.name}:{number}: long lambda"
            )


def assert_complete(output, config, root):
    """The output plans one training job per run of the grid, each named once, and every rule of the workflow."""
    grid = expand(config)
    assert sorted(jobs(output, "Training")) == sorted(grid.runs)
    assert planned(output)["compute_random_features"] == len(config["theory"]["random_features"]["dims"])
    assert sorted(jobs(output, "Drawing")) == sorted(figures())
    training = training_plan(grid, grid.runs, grid.experiments)
    assert {rule: computing(output).get(rule) for rule in training} == training
    text = "\n".join(path.read_text(encoding="utf-8") for path in snakefiles(root))
    rules = re.findall(r"^rule (\w+):|^use rule \w+ as (\w+) with:", text, flags=re.MULTILINE)
    assert set(planned(output)) == {a or b for a, b in rules}


@pytest.mark.parametrize("preset", [name for name in preset_names() if name != "smoke"])
def test_a_preset_plans_every_rule_and_run(snakemake, checkout, root, preset):
    """From nothing: all runs of the grid and all rules."""
    done = snakemake(checkout, "-n", "--cores", 2, "--configfile", f"config/presets/{preset}.yaml")
    assert done.returncode == 0, done.stdout[-3000:]
    assert_complete(done.stdout, load(preset), root)


def test_smoke_ran_every_rule(smoke, root):
    """The small preset leaves no rule out, and trains each run once."""
    assert_complete(smoke.output, smoke.config, root)


def test_one_figure_plans_only_what_it_needs(snakemake, checkout):
    """The target of one figure: its own and its borrowed runs, its table, its notebook."""
    grid = expand(load("smoke"))
    members = {member.path for member in grid.experiments["positional_encoding"]}
    assert any(path.startswith("rank_depth/") for path in members)
    done = snakemake(checkout, "results/smoke/figures/positional_encoding.pdf", "-n", "--cores", 2, *SMOKE)
    needed = training_plan(grid, members, ["positional_encoding"]) | {"plot_figure": 1}
    assert planned(done.stdout) == {rule: count for rule, count in needed.items() if rule != "tabulate"}


@pytest.mark.parametrize(("cores", "seed"), [(1, "1"), (16, "2")])
def test_nothing_is_planned_twice(snakemake, smoke, cores, seed):
    """A finished run is finished: with any number of cores, and any order of Python's sets."""
    done = snakemake(smoke.folder, "-n", "--cores", cores, *SMOKE, PYTHONHASHSEED=seed)
    assert done.returncode == 0 and NOTHING in done.stdout, done.stdout
    assert planned(done.stdout) == {}


def test_a_training_module_replans_training(snakemake, smoke, smoke_copy):
    """A constant in an imported module: all training and everything after it, but no theory."""
    edit(smoke_copy / "rankattn" / "schedule.py", r"warmup: float = [\d.]+", "warmup: float = 0.0625")
    done = snakemake(smoke_copy, "-n", "--cores", 2, *SMOKE)
    assert computing(done.stdout) == training_plan(smoke.grid, smoke.grid.runs, smoke.grid.experiments)
    assert set(jobs(done.stdout, "Drawing")) == figures() & set(smoke.grid.experiments)


def test_the_plot_module_replans_figures_only(snakemake, smoke_copy):
    """The size of a panel: all figures and what shows them; no number is made again."""
    edit(smoke_copy / "rankattn" / "plotting" / "style.py", r"PANEL = \(.*?\)", "PANEL = (5.0, 4.0)")
    done = snakemake(smoke_copy, "-n", "--cores", 2, *SMOKE)
    assert computing(done.stdout) == {}
    assert set(jobs(done.stdout, "Drawing")) == figures()


def test_a_notebook_replans_its_figure_only(snakemake, smoke_copy):
    """The text of one notebook: that figure."""
    edit(smoke_copy / "notebooks" / "dimension.ipynb", "# Dimension", "# The dimension")
    done = snakemake(smoke_copy, "-n", "--cores", 2, *SMOKE)
    assert computing(done.stdout) == {}
    assert jobs(done.stdout, "Drawing") == ["dimension"]


def test_a_new_grid_value_plans_its_runs_only(snakemake, smoke):
    """One more value in the documented nested form: the new runs, and the tables and figures that they enter."""
    name, part = "rank_depth", next(iter(smoke.config["experiments"]["rank_depth"]["parts"]))
    widths = smoke.config["experiments"][name]["parts"][part]["grid"]["width"]
    more = [*widths, max(widths) + 1]
    new = expand(load("smoke", {"experiments": {name: {"parts": {part: {"grid": {"width": more}}}}}}))
    option = f"experiments={{{name}: {{parts: {{{part}: {{grid: {{width: {more}}}}}}}}}}}"
    done = snakemake(smoke.folder, "-n", "--cores", 2, *SMOKE, "--config", option)
    paths, names = changes(smoke.grid, new)
    assert paths and set(paths) == set(new.runs) - set(smoke.grid.runs)
    assert sorted(jobs(done.stdout, "Training")) == sorted(paths)
    assert computing(done.stdout) == training_plan(new, paths, names)
    assert set(jobs(done.stdout, "Drawing")) == figures() & set(names)


def test_longer_training_replans_training(snakemake, smoke):
    """Another number of epochs: every run that takes it from there, and what follows."""
    epochs = smoke.config["training"]["epochs"] + 1
    new = expand(load("smoke", {"training": {"epochs": epochs}}))
    done = snakemake(smoke.folder, "-n", "--cores", 2, *SMOKE, "--config", f"training={{epochs: {epochs}}}")
    paths, names = changes(smoke.grid, new)
    assert paths and all(new.runs[path].training.epochs == epochs for path in paths)
    assert sorted(jobs(done.stdout, "Training")) == sorted(paths)
    assert computing(done.stdout) == training_plan(new, paths, names)


def test_forcing_the_training_rules_retrains(snakemake, smoke):
    """Both training rules, forced by name, plan all training again."""
    done = snakemake(smoke.folder, "-n", "--cores", 2, *SMOKE, "--forcerun", "train", "train_and_keep")
    assert computing(done.stdout) == training_plan(smoke.grid, smoke.grid.runs, smoke.grid.experiments)


def test_commands_of_the_readme_are_accepted(snakemake, checkout, root):
    """Values given on the command line, and the example of a sweep, as the README writes them."""
    text = (root / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    snakemake (.*--config .*)$", text, flags=re.MULTILINE)
    done = snakemake(checkout, *shlex.split(command), "-n")
    assert done.returncode == 0, done.stdout[-2000:]
    (sweep,) = re.findall(r"^( +)experiments:\n((?:\1 +.*\n)+)", text, flags=re.MULTILINE)
    overlay = {"experiments": yaml.safe_load(sweep[1])}
    grid = expand(load("laptop", overlay))
    assert all(grid.experiments[name] for name in overlay["experiments"])


def test_recorded_parameters_do_not_name_a_place(smoke):
    """What decides about reruns holds no path of this machine, so a moved folder plans nothing."""
    records = [path for path in (smoke.folder / ".snakemake" / "metadata").rglob("*") if path.is_file()]
    assert records
    for record in records:
        text = record.read_text(encoding="utf-8")
        assert str(smoke.folder) not in text.replace("\\u00e9", "é"), record
