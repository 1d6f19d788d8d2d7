# Reads and checks the configuration, lists what has to exist, constrains wildcards.
import os
import sys

from snakemake.exceptions import WorkflowError

# Scripts run in their own Python: let them find the package without installing it.
sys.path.insert(0, workflow.basedir)
os.environ["PYTHONPATH"] = os.pathsep.join([workflow.basedir, *filter(None, [os.environ.get("PYTHONPATH")])])

from rankattn.config import ConfigError, check
from rankattn.cost import peak_bytes
from rankattn.grid import expand as expand_grid
from rankattn.provenance import digest
from rankattn.resources import local_gpus

try:
    SETTINGS = check(config)
    GRID = expand_grid(SETTINGS)
except ConfigError as error:
    raise WorkflowError(f"configuration: {error}") from None

OUT = f"{SETTINGS['results']}/{SETTINGS['preset']}"
TRAINED = [name for name in GRID.experiments if name != "learned_heads"]
HEAD_RUNS = [member.path for member in GRID.experiments.get("learned_heads", [])]
THEORY = list(SETTINGS["theory"])
FIGURES = [name for name in GRID.experiments if not name.startswith("x_")] + THEORY
SUMMARIES = ["settings", "runtime"] + (["best_rank"] if "rank_depth" in GRID.experiments else [])
TABLES = [*TRAINED, *(["learned_heads"] if HEAD_RUNS else []), *THEORY, *SUMMARIES]
TRAINING_DIGEST = digest("rankattn.training", "rankattn.evaluation", "rankattn.results")


def alternatives(names):
    """Regular expression of exactly these names; matches nothing when there are none."""
    return "|".join(re.escape(name) for name in names) or "(?!)"


wildcard_constraints:
    experiment=alternatives(GRID.experiments),
    run=alternatives(sorted({path.partition("/")[2] for path in GRID.runs})),
    figure=alternatives(FIGURES),
    dim=r"\d+",


def member_files(experiment, name):
    """One file of every run of an experiment."""
    return [f"{OUT}/runs/{member.path}/{name}" for member in GRID.experiments[experiment]]


def member_runs(experiment):
    """Path and resolved settings of every run of an experiment, as plain values for a rule's params."""
    return {member.path: member.run.resolved() for member in GRID.experiments[experiment]}
