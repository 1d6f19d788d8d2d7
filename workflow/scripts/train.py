"""Train all seeds of one configuration and write its folder (rule train)."""

import sys
from pathlib import Path

import pandas as pd
import torch

from rankattn import checkpoint, results
from rankattn.cost import batch_parts
from rankattn.evaluation import evaluate
from rankattn.logs import logged
from rankattn.progress import Reporter
from rankattn.provenance import environment
from rankattn.resources import own_gpu
from rankattn.runs import Run
from rankattn.training import resolve_device, train, use_threads


def main(
    name: str,
    run: Run,
    folder: Path,
    saved: Path,
    digest: str,
    device: str,
    threads: int,
    save_seconds: float,
    keep_weights: bool,
    reporter: Reporter,
) -> None:
    """Train ``run`` (resuming from ``saved`` if it is there), score it, write ``folder``."""
    use_threads(threads)
    where = resolve_device(device)
    provenance = environment(where.type)
    print(f"{name} on {where.type} ({provenance['device_name']}), {threads} threads, torch {torch.__version__}")
    state = train(run, where, saved, f"{digest} {run.key()}", save_seconds, reporter)
    provenance["batch_parts"] = batch_parts(run, 2 if state.retried else 1)
    history = pd.DataFrame(state.history)
    summary = results.summarise(history, evaluate(run, state.flat, where), state.diverged)
    results.write(folder, run, digest, history, summary, provenance, state.flat if keep_weights else None)
    checkpoint.remove(saved)


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        name = f"{snakemake.wildcards.experiment}/{snakemake.wildcards.run}"
        reporter = Reporter(name, streams=(sys.__stderr__, sys.stderr))
        with own_gpu(reporter.say, [] if snakemake.params.device == "cpu" else None):
            main(
                name=name,
                run=Run.from_resolved(snakemake.params.run),
                folder=Path(snakemake.output.stamp).parent,
                saved=Path(snakemake.params.saved),
                digest=snakemake.params.digest,
                device=snakemake.params.device,
                threads=snakemake.threads,
                save_seconds=snakemake.resources.save_seconds,
                keep_weights="weights" in dict(snakemake.output.items()),
                reporter=reporter,
            )
