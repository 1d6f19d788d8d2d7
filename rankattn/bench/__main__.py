"""``python -m rankattn.bench``: time every case and write ``results/bench/``."""

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pandas as pd
import torch

from rankattn.bench import cases, planning, report
from rankattn.bench.measure import Disagreement, measure
from rankattn.config import ROOT
from rankattn.provenance import environment
from rankattn.training import resolve_device

GROUPS = ("laptop", "paper", "scaling")
# Seconds for each case: the reference takes up to 6 s for one step at paper shapes.
SECONDS = {"laptop": 2.0, "paper": 12.0, "scaling": 1.0}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rankattn.bench", description=__doc__)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench")
    options = parser.parse_args(arguments)
    try:
        device = resolve_device(options.device).type
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    plans = planning.measure()
    for plan in plans:
        print(f"dry run, {plan['plan']}: {plan['seconds']:.1f} s, {plan['memory_mib']:.0f} MiB", flush=True)
    seeds = 5 if device == "cuda" else 1
    every = {"laptop": cases.laptop_cases(), "paper": cases.paper_cases(seeds), "scaling": cases.scaling_cases()}
    todo = [case for group in options.groups for case in every[group]]
    print(f"{len(todo)} cases on {device}, {options.threads} threads; leave the machine alone meanwhile", flush=True)
    rows = []
    for number, case in enumerate(todo, 1):
        # A fresh process for each: the peak memory is its own, and no case warms the caches of the next.
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            try:
                row = pool.submit(measure, case, device, options.threads, SECONDS[case.group]).result()
            except Disagreement as error:
                print(f"error: {case.name}: {error}", file=sys.stderr)
                return 1
        rows.append(row)
        beside = f", reference {row['reference_ms']:.2f} ms ({row['speedup']:.1f} x)" if case.against_reference else ""
        print(f"{number}/{len(todo)} {case.group} {case.name}: {row['step_ms']:.2f} ms{beside}", flush=True)
    machine = {**environment(device), "threads": options.threads, "torch": torch.__version__}
    totals = report.write(pd.DataFrame(rows), plans, machine, options.out)
    print(f"\n{totals.to_string(index=False)}\n\nIn {options.out}: bench.pdf, steps.md, steps.csv, bench.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
