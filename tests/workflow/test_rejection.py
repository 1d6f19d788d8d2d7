"""Every mistake in the configuration ends in one line with the key, the value and the cure, before any job starts."""

import subprocess
import sys

import pytest
import yaml

from rankattn.config import BASE, PRESETS, ConfigError, check, load, merge, preset_names, read_yaml
from rankattn.grid import expand
from tests.conftest import SMOKE
from tests.workflow.helpers import jobs, planned

NAN, INF = float("nan"), float("inf")
POINT = {"dim": [4], "points": [4], "heads": [1], "layers": [1], "width": [1]}


def training(**values):
    return {"training": values}


def one_part(**part):
    """A fifth experiment with one part."""
    return {"experiments": {"x_more": {"parts": {"all": part}}}}


def one_grid(**axes):
    return one_part(grid=POINT | axes)


# What is wrong, the overlay, and what the line has to say: the key, the value, the cure.
BAD = {
    "unknown key": (training(learning_rat=1), ["training", "learning_rat", "known keys", "learning_rate"]),
    "unknown section": ({"modell": {"dim": 4}}, ["modell", "known keys", "model"]),
    "misspelt experiment": (
        {"experiments": {"rank_dept": {"parts": {"all": {"grid": POINT}}}}},
        ["experiments", "rank_dept", "known keys", "rank_depth"],
    ),
    "misspelt axis": (one_grid(head=[1]), ["x_more.parts.all.grid", "head", "known keys", "heads"]),
    "text for a number": (training(epochs="ten"), ["training.epochs", "'ten'", "integer"]),
    "broken number": (training(epochs=2.5), ["training.epochs", "2.5", "integer"]),
    "truth for a number": (training(epochs=True), ["training.epochs", "True", "integer"]),
    "number for a list": (one_part(grid=POINT | {"heads": 4}), ["grid.heads", "4", "array"]),
    "list for a section": ({"training": []}, ["training", "[]", "object"]),
    "negative size": ({"model": {"dim": -4}}, ["model.dim", "-4", "minimum is 2"]),
    "no heads": (one_grid(heads=[0]), ["grid.heads", "0", "minimum is 1"]),
    "no threads": ({"threads": 0}, ["threads", "0", "minimum is 1"]),
    "too large": (training(warmup=2), ["training.warmup", "2", "maximum is 1", "share"]),
    "empty seeds": ({"seeds": []}, ["seeds", "[]", "at least one"]),
    "empty grid list": (one_grid(heads=[]), ["grid.heads", "[]", "at least one"]),
    "duplicate seed": ({"seeds": [0, 1, 0]}, ["seeds", "[0, 1, 0]", "once"]),
    "duplicate seed as text": ({"seeds": [0, "0"]}, ["seeds", "[0, 0]", "once"]),
    "repeated grid value": (one_grid(heads=[1, 1.0]), ["grid.heads", "[1, 1]", "once"]),
    "heads do not divide": (one_grid(heads=[1, 3]), ["x_more.parts.all", "heads = 3", "dimension 4", "[1, 2, 4]"]),
    "null section": ({"training": None}, ["training", "None", "object"]),
    "null value": (training(epochs=None), ["training.epochs", "None", "integer"]),
    "null list": ({"seeds": None}, ["seeds", "None", "array"]),
    "unknown source": (
        one_part(**{"from": "rank_dept"}),
        ["x_more.parts.all.from", "'rank_dept'", "use an experiment", "rank_depth"],
    ),
    "nothing to take": (
        one_part(**{"from": "rank_depth", "where": {"layers": [999]}}),
        ["x_more.parts.all.where", "[999]", "no such run", "widen"],
    ),
    "grid and source": (
        one_part(grid=POINT, **{"from": "rank_depth"}),
        ["x_more.parts.all", "grid", "from", "not both or neither"],
    ),
    "neither grid nor source": (one_part(seeds=[1]), ["x_more.parts.all", "grid", "from", "not both or neither"]),
    "source with settings": (
        one_part(**{"from": "rank_depth"}, training={"epochs": 1}),
        ["x_more.parts.all", "grid", "training", "from"],
    ),
    "missing size": (one_part(grid={"heads": [1]}), ["x_more.parts.all", "layers"]),
    "dotted key": (
        {"training.learning_rate": 1},
        ["training.learning_rate", "dotted", "training={learning_rate: ...}"],
    ),
    "positions without place": (
        one_part(grid=POINT, model={"positional_dim": 4}),
        ["positional_dim = 4", "'none'", "concatenated"],
    ),
    "place without positions": (
        one_grid(positional_encoding=["concatenated"]),
        ["positional_dim = 0", "'concatenated'", "positive"],
    ),
    "unknown target": (one_part(grid=POINT, target="farest"), ["target", "'farest'", "use one of", "farthest"]),
    "unknown device": ({"device": "gpu"}, ["device", "'gpu'", "cuda"]),
    "NaN rate": (training(learning_rate=NAN), ["training.learning_rate", "nan"]),
    "infinite rate": (training(learning_rate=INF), ["training.learning_rate", "inf"]),
    "NaN count": (training(epochs=NAN), ["training.epochs", "nan", "integer"]),
    "NaN in a grid": (one_grid(learning_rate=[NAN]), ["grid.learning_rate", "nan"]),
    "infinite bound": (training(memory_gib=INF), ["training.memory_gib", "inf"]),
    "infinite time": ({"save_seconds": INF}, ["save_seconds", "inf"]),
    "too little memory": (
        one_part(grid=POINT, training={"memory_gib": 1e-9}),
        ["x_more.parts.all", "memory_gib = 1e-09", "raise it"],
    ),
    "absolute results": ({"results": "/results"}, ["results", "'/results'", "relative"]),
    "small dimension": ({"theory": {"random_features": {"dims": [2]}}}, ["random_features.dims", "2", "minimum is 3"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_is_named_with_its_cure(name):
    """One line with the key, the value and what to do, from the check or from the grid."""
    overlay, words = BAD[name]
    with pytest.raises(ConfigError) as caught:
        expand(load("smoke", overlay))
    message = str(caught.value)
    assert "\n" not in message and "__init__" not in message
    assert [word for word in words if word not in message] == [], message


@pytest.mark.parametrize(
    ("overlay", "fault"),
    [({"target": "farest"}, "target = 'farest'"), (training(memory_gib=1e-9), "memory_gib = 1e-09")],
)
def test_the_cause_is_named_and_not_its_consequence(overlay, fault):
    """A fault in the runs of one experiment is not hidden by another experiment that takes runs from it."""
    with pytest.raises(ConfigError, match=fault):
        expand(load("smoke", overlay))


def test_every_impossible_combination_is_listed():
    """All faults of a grid at once, so that one correction is enough."""
    with pytest.raises(ConfigError) as caught:
        expand(load("smoke", one_grid(heads=[1, 3, 5, 7])))
    assert all(f"heads = {heads} " in str(caught.value) for heads in (3, 5, 7))


def test_a_missing_preset_lists_the_others(root):
    """The command of the Makefile says which presets there are."""
    done = subprocess.run(
        [sys.executable, "-m", "rankattn", "check", "--preset", "smok"], cwd=root, capture_output=True, text=True
    )
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) == 1
    assert "smok" in lines[0] and all(name in lines[0] for name in preset_names())


@pytest.mark.parametrize("text", ["[a, b]", "a: [", "just text", ""])
def test_a_broken_file_is_named(tmp_path, text):
    """A configuration file that is no mapping."""
    path = tmp_path / "broken.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"broken\.yaml: [^\n]+$"):
        read_yaml(path)


def test_a_number_may_be_written_in_any_way():
    """1e-3 (text for YAML), 1.0e-3, 0.001 and "1e-3" are one run, from a section and from a grid."""
    keys = {run.key() for text in ("1e-3", "1.0e-3", "0.001", '"1e-3"') for run in _runs_at_rate(text)}
    assert len(keys) == 1


def _runs_at_rate(text):
    rate = yaml.safe_load(text)
    for part in ({"grid": POINT, "training": {"learning_rate": rate}}, {"grid": POINT | {"learning_rate": [rate]}}):
        grid = expand(load("smoke", one_part(**part)))
        yield grid.experiments["x_more"][0].run


@pytest.mark.parametrize("heads", [4, 4.0, "4", "4.0"])
def test_a_size_may_be_written_in_any_way(heads):
    """The run and its name are those of the integer."""
    (member,) = expand(load("smoke", one_grid(heads=[heads]))).experiments["x_more"]
    assert type(member.run.architecture.heads) is int and member.run.architecture.heads == 4
    assert "heads4" in member.path.split("/")[1].split("_")


def test_truth_values_may_be_text():
    """The command line hands over nested values as text: false is not the text "false"."""
    assert load("smoke", {"style": {"published_points": "false"}})["style"]["published_points"] is False
    assert load("smoke", {"model": {"bias": "True"}})["model"]["bias"] is True


def _reversed(value):
    return {k: _reversed(v) for k, v in reversed(value.items())} if isinstance(value, dict) else value


@pytest.mark.parametrize("preset", preset_names())
def test_the_order_of_keys_does_not_matter(preset):
    """Files and command line are merged in an order of Snakemake's own; run names, sharing and sources stay."""
    raw = merge(read_yaml(BASE), read_yaml(PRESETS / f"{preset}.yaml"))
    straight, turned = expand(check(raw)), expand(check(_reversed(raw)))
    assert turned.runs == straight.runs
    for name, members in straight.experiments.items():
        assert {member.path for member in turned.experiments[name]} == {member.path for member in members}


@pytest.mark.workflow
@pytest.mark.parametrize("where", ["command line", "file"])
def test_snakemake_refuses_before_any_job(snakemake, checkout, tmp_path, where):
    """Snakemake itself: exit status not 0, no job, one explaining line."""
    if where == "file":
        overlay = tmp_path / "mine.yaml"
        overlay.write_text("training: {learning_rat: 0.1}\n", encoding="utf-8")
        done = snakemake(checkout, "--cores", 1, *SMOKE, overlay)
    else:
        done = snakemake(checkout, "--cores", 1, *SMOKE, "--config", "training={learning_rat: 0.1}")
    assert done.returncode != 0 and "Traceback" not in done.stdout
    assert planned(done.stdout) == {} and jobs(done.stdout, "Training") == []
    assert not (checkout / "results").exists()
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("configuration:")]
    assert all(word in line for word in ("training", "learning_rat", "known keys", "learning_rate"))


@pytest.mark.workflow
def test_equal_values_in_other_words_plan_nothing(snakemake, smoke):
    """The settings of a finished run, written as other numbers on the command line, are the same settings."""
    rate = smoke.config["training"]["learning_rate"]
    part, values = next(iter(smoke.config["experiments"]["rank_depth"]["parts"].items()))
    heads = ", ".join(f"'{float(heads)}'" for heads in values["grid"]["heads"])
    options = [
        f"training={{learning_rate: {rate:.4e}}}",
        f"experiments={{rank_depth: {{parts: {{{part}: {{grid: {{heads: [{heads}]}}}}}}}}}}",
        f"style={{published_points: {str(smoke.config['style']['published_points']).lower()}}}",
    ]
    done = snakemake(smoke.folder, "-n", "--cores", 2, *SMOKE, "--config", *options)
    assert done.returncode == 0 and "Nothing to be done" in done.stdout, done.stdout[-3000:]


@pytest.mark.workflow
def test_borrowing_experiments_can_be_changed(snakemake, checkout):
    """The documented nested form works for an experiment that takes runs of another one."""
    part = "additive_one_layer"
    option = f"experiments={{positional_encoding: {{parts: {{{part}: {{grid: {{width: [1, 2, 3]}}}}}}}}}}"
    done = snakemake(checkout, "-n", "--cores", 1, "--config", option)
    widths = {"experiments": {"positional_encoding": {"parts": {part: {"grid": {"width": [1, 2, 3]}}}}}}
    assert done.returncode == 0, done.stdout[-2000:]
    assert sorted(jobs(done.stdout, "Training")) == sorted(expand(load("laptop", widths)).runs)
