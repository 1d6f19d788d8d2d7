"""Start Snakemake in this checkout, after an interrupted run too.

    python -m rankattn.launch SNAKEMAKE-ARGUMENTS

A run that was killed leaves Snakemake's lock, and perhaps jobs that no one waits
for. When no other run is alive here, the jobs are stopped and the lock is removed, and it says so;
when one is, it refuses.
"""

import subprocess
import sys
from pathlib import Path

import psutil

from rankattn.config import ROOT

PROFILE = "workflow/profiles/default"


def _processes(folder: Path) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Live Snakemake processes in ``folder``, and jobs of Snakemake there, without ourselves and our parents."""
    own = {process.pid for process in [psutil.Process(), *psutil.Process().parents()]}
    runs, jobs = [], []
    for process in psutil.process_iter():
        try:
            words, place = process.cmdline(), process.cwd()
        except psutil.Error:  # gone, or somebody else's
            continue
        if process.pid in own or Path(place) != folder:
            continue
        if any("/.snakemake/scripts/" in word for word in words):
            jobs.append(process)
        elif "snakemake" in words or any(word.endswith("/snakemake") for word in words):
            runs.append(process)
    return runs, jobs


def recover(folder: Path, say=print) -> bool:
    """Clean up after a dead run in ``folder``; False when a live run holds it."""
    runs, jobs = _processes(folder)
    if runs:
        say(f"another run is at work in {folder} (process {runs[0].pid}); wait for it or stop it first")
        return False
    for job in jobs:
        say(f"stopping a job that an interrupted run left behind (process {job.pid})")
        job.terminate()
    for job in psutil.wait_procs(jobs, timeout=10)[1]:
        job.kill()
    locks = sorted((folder / ".snakemake" / "locks").glob("*.lock"))
    if locks:
        say("continuing after an interrupted run: its lock is removed, half-made files are made again")
        for lock in locks:
            lock.unlink()
    return True


def main(arguments: list[str]) -> int:
    """Recover, then run Snakemake with ``arguments``; returns its exit status."""
    if not recover(ROOT):
        return 1
    command = [sys.executable, "-m", "snakemake", "--workflow-profile", PROFILE, *arguments]
    return subprocess.call(command, cwd=ROOT)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # Snakemake has had it too, and has stopped its jobs
        sys.exit(130)
