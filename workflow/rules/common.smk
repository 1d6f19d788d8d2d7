# Reads and checks the configuration, lists what has to exist, constrains wildcards.
import os
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# Scripts run in their own Python: let them find the package without installing it.
sys.path.insert(0, workflow.basedir)
os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, [workflow.basedir, os.getenv("PYTHONPATH")])))

from rankattn.config import ConfigError, check
from rankattn.cost import peak_bytes
from rankattn.grid import expand as expand_grid
from rankattn.provenance import digest
from rankattn.resources import visible_gpus

try:
    SETTINGS = check(config)
    GRID = expand_grid(SETTINGS)
except ConfigError as error:
    raise WorkflowError(f"configuration: {error}") from None

OUT = f"{SETTINGS['results']}/{SETTINGS['preset']}"
TRAINED = [name for name in GRID.experiments if name != "learned_heads"]
HEAD_RUNS = [member.path for member in GRID.experiments.get("learned_heads", [])]
THEORY = list(SETTINGS["theory"])
# Parts of the theory whose module makes the whole table in one call.
PLAIN_THEORY = [name for name in THEORY if name not in ("single_head", "random_features", "feature_representation")]
DRAWN = [name for name in GRID.experiments if not name.startswith("x_") and name != "protocol"]
FIGURES = DRAWN + THEORY
SUMMARIES = ["settings", "runtime"] + (["best_rank"] if "rank_depth" in GRID.experiments else [])
DATA_TABLES = [*TRAINED, *(["learned_heads"] if HEAD_RUNS else []), *THEORY]
TABLES = [*DATA_TABLES, *SUMMARIES, "claims", "agreement", "errata"]
TRAINING_DIGEST = digest("rankattn.training", "rankattn.evaluation", "rankattn.results")


def alternatives(names):
    """Regular expression of exactly these names; matches nothing when there are none."""
    return "|".join(re.escape(name) for name in names) or "(?!)"


wildcard_constraints:
    experiment=alternatives(GRID.experiments),
    run=r"[^/]+",
    figure=alternatives(FIGURES),
    dim=r"\d+",


def member_files(experiment, name):
    """One file of every run of an experiment."""
    return [f"{OUT}/runs/{member.path}/{name}" for member in GRID.experiments[experiment]]


def member_runs(experiment):
    """Path and resolved settings of every run of an experiment, as plain values for a rule's params."""
    return {member.path: member.run.resolved() for member in GRID.experiments[experiment]}


def run_of(wildcards):
    try:
        return GRID.run(wildcards.experiment, wildcards.run)
    except KeyError:
        raise WorkflowError(f"preset {SETTINGS['preset']} has no run {wildcards.experiment}/{wildcards.run}") from None


def train_memory(wildcards, attempt):
    """Predicted peak plus the Python process, in MB; twice as much on a retry."""
    return int((1.25 * peak_bytes(run_of(wildcards)) / 2**20 + 700) * attempt)


def gpus_per_job():
    """A training job holds one GPU, unless it will run on the CPU."""
    return int(SETTINGS["device"] == "cuda" or (SETTINGS["device"] == "auto" and bool(visible_gpus())))


def published_values(wildcards):
    """The values read off the published figure, if there are any and they are wanted."""
    # The heights that one figure shows at every angle, the other shows against the number of terms.
    name = {"representation_terms": "feature_representation"}.get(wildcards.figure, wildcards.figure)
    path = f"config/published/{name}.csv"
    wanted = SETTINGS["style"]["published_points"] and (Path(workflow.basedir) / path).exists()
    return [path] if wanted else []
