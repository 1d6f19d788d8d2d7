"""Time and memory of planning: Snakemake's dry run of the paper and of a grid of ten thousand configurations."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from rankattn.config import PRESETS, ROOT

LARGE = {
    "preset": "laptop",
    "experiments": {
        "x_large": {
            "parts": {
                "all": {
                    "grid": {
                        "layers": [1],
                        "heads": [1, 2, 4, 8],
                        "width": [1, 2, 3, 4, 5],
                        "learning_rate": [round(1e-5 * (i + 1), 7) for i in range(500)],
                    }
                }
            }
        }
    },
}


def measure() -> list[dict]:
    """Seconds and peak memory (MiB) of each dry run. Raises CalledProcessError when one fails."""
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.yaml"
        large.write_text(yaml.safe_dump(LARGE), encoding="utf-8")
        return [
            {"plan": "paper preset", **_dry_run(PRESETS / "paper.yaml", folder)},
            {"plan": "10,000 configurations", **_dry_run(large, folder)},
        ]


def _dry_run(config: Path, folder: str) -> dict:
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--dry-run", "--quiet", "--nolock"]
    command += ["--configfile", str(config)]
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": folder}
    # Children are waited for one by one and the larger comes last, so the largest child so far is this one.
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "memory_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}
