"""From the configuration to the list of training runs.

An experiment has *parts*. A part either spans a grid (every combination of its
lists) or takes runs of another experiment (``from`` and ``where``). A run is
trained once, under the first experiment that has it; others point to it.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from itertools import product
from typing import Any

from rankattn.architecture import Architecture
from rankattn.config import ConfigError
from rankattn.cost import batch_parts
from rankattn.runs import Member, Run, Training
from rankattn.targets import TARGETS

MODEL_KEYS = {field.name for field in fields(Architecture)}
NEEDED_MODEL = {field.name for field in fields(Architecture) if field.default is MISSING}
TRAINING_KEYS = {field.name for field in fields(Training)}


@dataclass(frozen=True)
class Grid:
    """All runs of a configuration."""

    runs: dict[str, Run]  # path to run, each trained once
    experiments: dict[str, list[Member]]

    def run(self, experiment: str, run_id: str) -> Run:
        """The run trained under that path. Raises KeyError if the grid has none."""
        return self.runs[f"{experiment}/{run_id}"]


def run_id(axes: Mapping[str, Any]) -> str:
    """Readable name from the grid's axes: {'heads': 4, 'layers': 3} to 'heads4_layers3', words alone."""
    words = {str: "{value}", float: "{key}{value:g}"}
    return "_".join(words.get(type(value), "{key}{value}").format(key=key, value=value) for key, value in axes.items())


def expand(config: Mapping) -> Grid:
    """All runs of a checked configuration. Raises ConfigError naming every impossible combination."""
    runs: dict[str, Run] = {}
    owners: dict[str, str] = {}  # canonical run to the path where it is trained
    experiments: dict[str, list[Member]] = {}
    faults: list[str] = []
    for name, experiment in config["experiments"].items():
        members: list[Member] = []
        for part_name, part in experiment["parts"].items():
            where = f"experiments.{name}.parts.{part_name}"
            if "from" in part:
                if not faults:  # else the cause is in the runs to be taken
                    members += _taken(part, experiments, where)
                continue
            for axes in _combinations(part["grid"]):
                try:
                    run = _build(config, experiment, part, axes)
                except (ValueError, TypeError) as error:
                    faults.append(f"{where}: {error}")
                    continue
                path = owners.setdefault(run.key(), f"{name}/{run_id(axes)}")
                if runs.setdefault(path, run) != run:
                    raise ConfigError(f"{where}: two different runs are called {path}; make their grids disjoint")
                members.append(Member(path, run))
        paths = [member.path for member in members]
        repeated = sorted({path for path in paths if paths.count(path) > 1}) if len(set(paths)) < len(paths) else []
        if repeated:
            raise ConfigError(f"experiments.{name}: {', '.join(repeated)} is in two parts; list it once")
        experiments[name] = members
    if faults:
        raise ConfigError("; ".join(dict.fromkeys(faults)))
    return Grid(runs, experiments)


def _combinations(grid: Mapping[str, list]) -> list[dict[str, Any]]:
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _build(config: Mapping, experiment: Mapping, part: Mapping, axes: Mapping) -> Run:
    """Defaults, then the experiment's, the part's and the grid point's values."""
    model: dict[str, Any] = {}
    training: dict[str, Any] = {}
    for level in (config, experiment, part):
        model |= level.get("model", {})
        training |= level.get("training", {})
    model |= {key: value for key, value in axes.items() if key in MODEL_KEYS}
    training |= {key: value for key, value in axes.items() if key in TRAINING_KEYS}
    seeds = part.get("seeds", experiment.get("seeds", config["seeds"]))
    target = part.get("target", experiment.get("target", config["target"]))
    if target not in TARGETS:
        raise ValueError(f"target = {target!r}: use one of {', '.join(TARGETS)}")
    missing = sorted((NEEDED_MODEL - set(model)) | (TRAINING_KEYS - set(training)))
    if missing:
        raise ValueError(f"missing {', '.join(missing)}; give it in model, training or grid")
    run = Run(target, Architecture(**model), Training(**training), tuple(seeds))
    batch_parts(run)
    return run


def _taken(part: Mapping, experiments: Mapping[str, list[Member]], where: str) -> list[Member]:
    """Members of an earlier experiment whose model values are in the ``where`` lists."""
    source = part["from"]
    if source not in experiments:
        raise ConfigError(f"{where}.from = {source!r}: use an experiment listed before it: {', '.join(experiments)}")
    chosen = [
        member
        for member in experiments[source]
        if all(_value(member.run, key) in allowed for key, allowed in part.get("where", {}).items())
    ]
    if not chosen:
        raise ConfigError(f"{where}.where = {part.get('where')}: {source} has no such run; widen it or its grid")
    return chosen


def _value(run: Run, key: str) -> Any:
    return getattr(run.architecture if key in MODEL_KEYS else run.training, key)
