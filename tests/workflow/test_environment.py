"""The ways to install agree, nothing ties them to one machine, and what automation calls exists."""

import re
import sys
import tomllib

import pytest
import yaml

from rankattn.config import load, preset_names
from rankattn.grid import expand

# conda-forge's name to the name on PyPI, where they differ.
NAMES = {"matplotlib-base": "matplotlib", "seaborn-base": "seaborn", "pytorch": "torch", "nbconvert-core": "nbconvert"}


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines):
    """Name to version of lines ``name==version``; every line has to be one."""
    matches = [re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9._]+)", line) for line in lines]
    assert all(matches), [line for line, match in zip(lines, matches, strict=True) if not match]
    return {canonical(match[1]): match[2] for match in matches}


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def conda(root):
    return yaml.safe_load((root / "environment.yml").read_text(encoding="utf-8"))["dependencies"]


@pytest.fixture(scope="module")
def lock(root):
    lines = (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return pins([line for line in lines if line and not line.startswith("#")])


def test_conda_and_pip_have_the_same_pins(project, conda):
    """environment.yml lists exactly the direct dependencies, at the same versions, and the same Python."""
    packages = {line.split("=")[0]: line.partition("=")[2] for line in conda if not line.startswith("python>")}
    assert {NAMES.get(name, name): version for name, version in packages.items()} == pins(project["dependencies"])
    assert f"python{project['requires-python']}" in conda


def test_the_conda_environment_is_for_any_machine(conda):
    """One version per package: no build string, no CUDA, nothing from pip."""
    for line in conda:
        assert isinstance(line, str) and re.fullmatch(r"[a-z0-9-]+(=|>=)[0-9.]+", line), line
        assert not re.search("cuda|nvidia|cudnn|gpu", line)


def test_the_lock_has_every_direct_dependency(project, lock):
    """Run, test and cluster dependencies, at the version of pyproject.toml."""
    extras = [pin for group in project["optional-dependencies"].values() for pin in group]
    direct = pins(project["dependencies"] + extras)
    assert {name: lock.get(name) for name in direct} == direct


def test_the_lock_is_for_any_machine(project, lock):
    """No CUDA package, no local version, and not the project itself, which no index has."""
    assert not [name for name in lock if re.search("cuda|nvidia|cudnn|triton", name)]
    assert canonical(project["name"]) not in lock


def test_every_package_that_is_imported_is_a_direct_dependency(root, project):
    """The package and the scripts import only what is declared, not what comes along by chance."""
    declared = {"yaml" if name == "pyyaml" else name for name in pins(project["dependencies"])} | {"rankattn"}
    along = {"ipython", "nbformat", "traitlets", "markupsafe"}  # parts of Jupyter and Jinja
    files = [*(root / "rankattn").rglob("*.py"), *(root / "workflow").rglob("*.py")]
    found = set()
    for path in files:
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r"^\s*(?:from|import) (\w+)", text, flags=re.MULTILINE))
    assert {canonical(name) for name in found - sys.stdlib_module_names} <= declared | along


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_is_accepted(preset):
    """Each file of config/presets is a valid configuration with runs, in a results folder of its own."""
    config = load(preset)
    assert config["preset"] == preset
    assert expand(config).runs


def test_automation_calls_targets_that_exist(root):
    """``make`` targets and presets in the Makefile's callers are in the Makefile and in config/presets."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, flags=re.MULTILINE))
    callers = [*(root / ".github").rglob("*.yml"), *(root / ".github").rglob("*.yaml"), root / ".ci" / "run"]
    callers = [path for path in callers if path.is_file()]
    if not callers:
        pytest.skip("no automation yet")
    for path in callers:
        for line in path.read_text(encoding="utf-8").splitlines():
            called = re.search(r"(?:^|run: |&& )make ((?:[\w=.'-]+ ?)+)", line.strip())
            words = called[1].split() if called else []
            names = {word for word in words if "=" not in word and not word.startswith("-")}
            assert names <= targets, f"{path.name}: {line}"
            presets = [word.partition("=")[2] for word in words if word.startswith("PRESET=")]
            assert set(presets) <= set(preset_names()), f"{path.name}: {line}"


def test_every_phony_target_exists(root):
    """The Makefile's own list names nothing that it does not have, and the default target is one of them."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, flags=re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)[1].split()
    assert set(phony) <= targets
    assert re.search(r"^\.DEFAULT_GOAL := (\w+)$", makefile, flags=re.MULTILINE)[1] in phony
