"""No table is made from a run that is missing, damaged, of other settings or of other code."""

import dataclasses
import json
import shutil

import pandas as pd
import pytest

from rankattn import results, tables
from rankattn.files import checksum
from rankattn.runs import Member
from tests.conftest import SMOKE

EXPERIMENT = "dimension"


@pytest.fixture
def runs(smoke, tmp_path):
    """A copy of the folder of all runs."""
    return shutil.copytree(smoke.results / "runs", tmp_path / "runs")


@pytest.fixture
def members(smoke):
    return smoke.grid.experiments[EXPERIMENT]


@pytest.fixture
def digest(smoke, members):
    """The digest of the training code, as written beside every run."""
    return json.loads((smoke.results / "runs" / members[0].path / "run.json").read_text(encoding="utf-8"))["digest"]


def cut(path, kind):
    """Damage a file the way that a full disk or a killed job does."""
    data = path.read_bytes()
    header, _, rows = data.partition(b"\n")
    last_row = data.rstrip(b"\n").rpartition(b"\n")[0] + b"\n"
    kinds = {"empty": b"", "header only": header + b"\n", "last row cut": last_row, "mid-line": data[:-7]}
    if kind == "missing":
        path.unlink()
    else:
        path.write_bytes(kinds[kind])
        assert rows and path.read_bytes() != data


def test_sound_runs_are_collected(smoke, runs, members, digest):
    """Untouched copies of the runs give the table of the workflow, in whatever folder they are."""
    collected = tables.collect(members, runs, digest)
    stored = pd.read_csv(smoke.results / "tables" / f"{EXPERIMENT}.csv")
    again = collected.reset_index(drop=True)
    pd.testing.assert_frame_equal(again, stored, check_dtype=False, check_exact=False, rtol=1e-12)
    assert list(zip(stored["run"], stored["seed"], strict=True)) == [
        (member.path, seed) for member in members for seed in member.run.seeds
    ]


@pytest.mark.parametrize("name", ["history.csv", "summary.csv"])
@pytest.mark.parametrize("kind", ["missing", "empty", "header only", "last row cut", "mid-line"])
def test_a_damaged_table_is_refused(runs, members, digest, name, kind):
    """The message names the file of the run, and that run alone."""
    cut(runs / members[1].path / name, kind)
    with pytest.raises(tables.BadRuns) as caught:
        tables.collect(members, runs, digest)
    assert f"1 of {len(members)} runs" in str(caught.value)
    assert f"{members[1].path}/{name}" in str(caught.value) and members[0].path not in str(caught.value)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "null", '{"run": {}}', "\0\0\0"])
def test_a_damaged_stamp_is_refused(runs, members, digest, text):
    """``run.json`` missing, empty, cut or with other content."""
    stamp = runs / members[-1].path / "run.json"
    stamp.unlink() if text is None else stamp.write_text(text, encoding="utf-8")
    with pytest.raises(tables.BadRuns, match=rf"{members[-1].path}/run\.json: missing or damaged"):
        tables.collect(members, runs, digest)


@pytest.mark.parametrize("kind", ["header only", "last row cut"])
@pytest.mark.parametrize("name", ["history.csv", "summary.csv"])
def test_missing_rows_are_refused_even_with_a_right_checksum(runs, members, digest, name, kind):
    """Rows are counted: every seed and every epoch, whatever the stamp says."""
    folder = runs / members[0].path
    cut(folder / name, kind)
    stamp = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    stamp["files"][name] = checksum(folder / name)
    (folder / "run.json").write_text(json.dumps(stamp), encoding="utf-8")
    with pytest.raises(tables.BadRuns, match=f"{members[0].path}: rows do not match"):
        tables.collect(members, runs, digest)


def test_other_code_is_refused(runs, members, digest):
    """All runs of an older digest are named, with both digests."""
    with pytest.raises(tables.BadRuns) as caught:
        tables.collect(members, runs, "0" * 16)
    message = str(caught.value)
    assert all(member.path in message for member in members) and digest in message and "0" * 16 in message


@pytest.mark.parametrize(
    ("section", "values"), [("training", {"epochs": 99}), ("training", {"learning_rate": 0.5}), ("seeds", (0, 7))]
)
def test_other_settings_are_refused(runs, members, digest, section, values):
    """The configuration was edited after training: the keys that differ are named."""
    run = members[0].run
    changed = dataclasses.replace(run.training, **values) if section == "training" else values
    edited = Member(members[0].path, dataclasses.replace(run, **{section: changed}))
    key = f"training.{next(iter(values))}" if section == "training" else "seeds"
    with pytest.raises(tables.BadRuns, match=rf"{members[0].path}: stale, .*\({key}\)"):
        tables.collect([edited, *members[1:]], runs, digest)


def test_all_bad_runs_are_named_at_once(runs, members, digest):
    """One look tells everything that has to be trained again."""
    cut(runs / members[0].path / "summary.csv", "empty")
    shutil.rmtree(runs / members[1].path)
    with pytest.raises(tables.BadRuns) as caught:
        tables.collect(members, runs, digest)
    assert f"2 of {len(members)} runs" in str(caught.value)
    assert all(member.path in str(caught.value) for member in members[:2])


def test_a_run_twice_is_refused(runs, members, digest):
    """The same configuration and seed cannot enter a mean twice."""
    with pytest.raises(tables.BadRuns, match=f"twice: {members[0].path}"):
        tables.collect([*members, members[0]], runs, digest)


def test_weights_of_a_damaged_run_are_not_read(smoke, runs, digest):
    """The head measurements check the run as the tables do."""
    member = smoke.grid.experiments["learned_heads"][0]
    weights = runs / member.path / "weights.pt"
    assert len(results.read_weights(runs / member.path, member.run, digest)) == len(member.run.seeds)
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(results.BadRun, match=rf"{member.path}/weights\.pt: .*truncated"):
        results.read_weights(runs / member.path, member.run, digest)


@pytest.mark.workflow
def test_the_workflow_stops_at_a_damaged_run(snakemake, smoke_copy, members):
    """Snakemake: exit status not 0, the run named on the terminal, no table under the final name."""
    out = smoke_copy / "results" / "smoke"
    cut(out / "runs" / members[0].path / "summary.csv", "last row cut")
    target = f"results/smoke/tables/{EXPERIMENT}.csv"
    done = snakemake(smoke_copy, target, "--cores", 2, *SMOKE, "--forcerun", "collect")
    assert done.returncode != 0
    assert f"{members[0].path}/summary.csv: missing, truncated or edited" in done.stdout
    assert not (smoke_copy / target).exists()
