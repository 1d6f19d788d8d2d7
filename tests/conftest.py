"""Copies of the pipeline, a runner for Snakemake, and one finished smoke run that all tests share."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from rankattn.config import load
from rankattn.grid import Grid, expand

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ["Snakefile", "workflow", "rankattn", "notebooks", "config", "environment.yml", "pyproject.toml"]
SMOKE = ("--configfile", "config/presets/smoke.yaml")
# What a user's shell must not add to the runs: other code, other settings, a display.
DROPPED = ("PYTHONPATH", "PYTHONHASHSEED", "SNAKEMAKE_PROFILE", "DISPLAY", "MPLBACKEND", "MPLCONFIGDIR", "IPYTHONDIR")

# One thread, as in the training jobs of the presets: small products gain nothing from more.
torch.set_num_threads(1)


@dataclass(frozen=True)
class Smoke:
    """The finished smoke run: read it, but change only copies of it."""

    folder: Path
    output: str
    home: Path
    config: dict
    grid: Grid

    @property
    def results(self) -> Path:
        return self.folder / self.config["results"] / "smoke"


def copy_sources(target: Path) -> Path:
    """Copy everything that a run needs, and nothing that a run makes, to ``target``."""
    target.mkdir(parents=True)
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
            )
        else:
            shutil.copy2(ROOT / name, target / name)
    return target


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def home(tmp_path_factory) -> Path:
    """The home folder of every Snakemake call."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def snakemake(home):
    """``snakemake(cwd, *arguments, **variables)``: finished process with stdout and stderr merged.

    The runs see no GPU, so ``auto`` means the CPU on every machine.
    """

    def run(cwd: Path, *arguments, **variables: str) -> subprocess.CompletedProcess:
        inherited = {k: v for k, v in os.environ.items() if k not in DROPPED and not k.startswith(("XDG_", "JUPYTER_"))}
        return subprocess.run(
            [sys.executable, "-m", "snakemake", *map(str, arguments)],
            cwd=cwd,
            env=inherited | {"HOME": str(home), "CUDA_VISIBLE_DEVICES": ""} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=1500,
        )

    return run


@pytest.fixture(scope="session")
def checkout(tmp_path_factory) -> Path:
    """A copy of the sources without any result. Not to be changed."""
    return copy_sources(tmp_path_factory.mktemp("checkout") / "copy")


@pytest.fixture(scope="session")
def smoke(tmp_path_factory, snakemake, home) -> Smoke:
    """The smoke preset from nothing to the end, in a folder whose name has a space, an apostrophe and an accent."""
    config = load("smoke")
    folder = copy_sources(tmp_path_factory.mktemp("smoke") / "a b'cé")
    done = snakemake(folder, "--cores", 2, *SMOKE)
    if done.returncode:
        pytest.fail(f"the smoke run failed:\n{done.stdout[-6000:]}", pytrace=False)
    return Smoke(folder, done.stdout, home, config, expand(config))


@pytest.fixture
def smoke_copy(smoke, tmp_path) -> Path:
    """A copy of the finished smoke run, with Snakemake's records and all times, that a test may change."""
    return shutil.copytree(smoke.folder, tmp_path / "copy")
