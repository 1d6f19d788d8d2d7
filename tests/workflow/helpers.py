"""What Snakemake says it will do, and what the configuration says it should."""

import re
from collections import Counter

from rankattn.grid import Grid
from tests.conftest import ROOT

# Rules that make numbers; all others draw them or write about them.
COMPUTING = re.compile("train|collect|measure|tabulate|compute|gather")


def planned(output: str) -> dict[str, int]:
    """Jobs by rule from the first table "Job stats"; empty when there is none."""
    _, _, after = output.partition("Job stats:\n")
    counts = {}
    for line in after.splitlines():
        if match := re.fullmatch(r"(\w+) +(\d+)", line.strip()):
            if match[1] == "total":
                break
            counts[match[1]] = int(match[2])
    return counts


def computing(output: str) -> dict[str, int]:
    """The planned jobs that make numbers, by rule."""
    return {rule: count for rule, count in planned(output).items() if COMPUTING.match(rule)}


def jobs(output: str, verb: str) -> list[str]:
    """What the started or planned jobs with this first word act on: ``Training a/b`` gives ``a/b``."""
    return re.findall(rf"^Job \d+: {verb} (\S+)$", output, flags=re.MULTILINE)


def kept(grid: Grid) -> set[str]:
    """Paths of the runs whose weights are read."""
    return {member.path for member in grid.experiments.get("learned_heads", [])}


def figures() -> set[str]:
    """Names of all figures: each has a notebook."""
    return {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}


def training_plan(grid: Grid, paths, names) -> dict[str, int]:
    """Computing jobs when the runs ``paths`` are to be trained for the experiments ``names``."""
    paths, names = set(paths), set(names)
    return +Counter(
        train=len(paths - kept(grid)),
        train_and_keep=len(paths & kept(grid)),
        collect=len(names - {"learned_heads"}),
        measure_heads="learned_heads" in names,
        tabulate=bool(names),
    )


def changes(old: Grid, new: Grid) -> tuple[list[str], list[str]]:
    """Runs to train and experiments whose tables change when ``old`` is finished and becomes ``new``."""
    paths = [path for path, run in new.runs.items() if old.runs.get(path) != run]
    return paths, [name for name, members in new.experiments.items() if old.experiments.get(name) != members]
