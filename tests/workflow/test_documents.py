"""The documents say what the files say: measured costs, claims, commands."""

import re

import pytest
import yaml

from rankattn.claims.verdicts import load_claims
from rankattn.config import load, read_yaml
from rankattn.grid import expand
from rankattn.report.artifact import artifact


@pytest.fixture(scope="module")
def readme(root):
    return (root / "README.md").read_text(encoding="utf-8")


def test_artifact_is_what_the_command_writes(root):
    """``python -m rankattn artifact`` would change nothing, and every claim is in it."""
    text = (root / "ARTIFACT.md").read_text(encoding="utf-8")
    assert text == artifact()
    assert all(f"`{claim['id']}`" in text for claim in load_claims())


def test_reference_results_are_those_of_the_registered_claims(root):
    import pandas as pd

    reference = pd.read_csv(root / "results" / "reference" / "laptop" / "claims.csv")
    assert list(reference["id"]) == [claim["id"] for claim in load_claims()]
    rules = {c["id"]: f"above {c['above']:g}" if "above" in c else f"below {c['below']:g}" for c in load_claims()}
    assert dict(zip(reference["id"], reference["rule"], strict=True)) == rules
    decidable = reference[reference["decidable"]]
    assert (decidable["verdict"] == "reproduced").all()


def test_readme_states_the_measured_costs(root, readme):
    measured = read_yaml(root / "config" / "measured.yaml")
    for name in ("setup", "smoke", "laptop", "test"):
        for value in measured[name].values():
            assert str(value) in readme, (name, value)
    assert measured["machine"] in readme


def test_readme_names_every_figure_and_preset(readme):
    config = load("laptop")
    names = [name for name in expand(config).experiments if name != "protocol"] + list(config["theory"])
    assert all(f"`{name}`" in readme for name in names)
    assert all(f"| `{preset}` |" in readme for preset in ("smoke", "laptop", "paper"))


def test_workflows_call_only_make_targets(root):
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for path in (root / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            for step in job["steps"]:
                for line in step.get("run", "").splitlines():
                    words = line.split()
                    assert words[0] == "make" and words[1] in targets, (path.name, line)


def test_ci_runs_make_test(root):
    assert "make test" in (root / ".ci" / "run").read_text(encoding="utf-8")
