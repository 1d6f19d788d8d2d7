"""Commands for the Makefile: ``python -m rankattn check|estimate|verify|artifact|clean --preset NAME``."""

import argparse
import shutil
import sys
from pathlib import Path

from rankattn.claims.verify import verify
from rankattn.config import ConfigError, load
from rankattn.grid import expand
from rankattn.progress import duration


def show_estimate(config: dict, cores: int, must_run: bool) -> None:
    """Print the estimate of a checked configuration.

    With ``must_run`` a device that is not there is an error; else a preset for GPUs is estimated for the CPU.
    """
    from rankattn.estimate import estimate
    from rankattn.training import resolve_device

    grid, device = expand(config), config["device"]
    try:
        resolve_device(device)
    except ValueError as error:
        if must_run:
            raise
        print(f"{error}. Estimated for this machine's CPU instead:")
        device = "cpu"
    print(f"Calibrating preset {config['preset']} on this machine ...", flush=True)
    result = estimate(grid.runs, device, cores, config["threads"])
    where = "GPU" if result.device == "cuda" else f"CPU, {result.parallel} jobs of {config['threads']} threads at once"
    print(
        f"  {result.configurations} training jobs with {result.trainings} seeds in all, on {where}\n"
        f"  {result.flops:.2g} training FLOPs, {result.parameters:.3g} parameters,"
        f" largest job {result.largest_job_bytes / 2**30 + 0.5:.1f} GiB\n"
        f"  longest job {result.longest}: {duration(result.longest_seconds)}\n"
        f"  about {duration(result.seconds)} from nothing (finished jobs are not repeated)",
        flush=True,
    )


def clean(config: dict) -> None:
    """Remove the results of one preset."""
    folder = Path(config["results"]) / config["preset"]
    if not folder.is_dir():
        print(f"nothing to remove: there is no {folder}")
        return
    shutil.rmtree(folder)
    print(f"removed {folder}")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rankattn", description=__doc__)
    parser.add_argument("command", choices=["check", "estimate", "verify", "artifact", "clean"])
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--must-run", action="store_true", help="fail if the preset's device is not there")
    options = parser.parse_args(arguments)
    try:
        config = load(options.preset)
        grid = expand(config)
        if options.command == "check":
            print(f"preset {options.preset}: {len(grid.runs)} training jobs, configuration is valid")
        elif options.command == "estimate":
            show_estimate(config, options.cores, options.must_run)
        elif options.command == "artifact":
            from rankattn.report.artifact import write

            print(f"wrote {write()}")
        elif options.command == "verify":
            return verify(options.preset, Path(config["results"]) / config["preset"] / "tables")
        else:
            clean(config)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
