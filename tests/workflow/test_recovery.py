"""A run killed in the middle of training is continued by the same command, with the same result."""

import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from tests.conftest import SMOKE, copy_sources

pytestmark = pytest.mark.workflow
TARGET = "results/smoke/tables/rank_depth.csv"
TIMES = ["seconds", "commit"]


def launch(folder, home):
    """The command of `make reproduce`, started in its own session."""
    variables = {"HOME": str(home), "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "rankattn.launch", "--cores", "2", TARGET, *SMOKE],
        cwd=folder,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


def test_a_killed_run_is_continued_and_a_live_one_is_respected(smoke, home, tmp_path):
    folder = copy_sources(tmp_path / "killed run")
    first = launch(folder, home)
    # The second training job has started: one is finished, the lock is held.
    wait_for(lambda: len(list((folder / "results").rglob("run.json"))) >= 1)
    second = launch(folder, home)
    output, _ = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "another run is at work" in output
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert list((folder / ".snakemake" / "locks").glob("*.lock"))
    again = launch(folder, home)
    output, _ = again.communicate(timeout=300)
    assert again.returncode == 0, output[-3000:]
    assert "continuing after an interrupted run" in output
    table, undisturbed = pd.read_csv(folder / TARGET), pd.read_csv(smoke.results / "tables" / "rank_depth.csv")
    pd.testing.assert_frame_equal(table.drop(columns=TIMES), undisturbed.drop(columns=TIMES))
    assert not list((folder / ".snakemake" / "locks").glob("*.lock"))
