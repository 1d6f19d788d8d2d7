"""From claims and tables to verdicts (one row per claim)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd

from rankattn.claims import theory_statistics  # noqa: F401 (registers its statistics)
from rankattn.claims.samples import READERS, interval
from rankattn.claims.statistics import STATISTICS
from rankattn.config import ROOT, ConfigError, read_yaml

CLAIMS = ROOT / "config" / "claims.yaml"
SCHEMA = ROOT / "workflow" / "schemas" / "claims.schema.yaml"
REPRODUCED, NOT_REPRODUCED, UNDECIDABLE = "reproduced", "not reproduced", "undecidable at this scale"


def load_claims(path: Path = CLAIMS) -> list[dict[str, Any]]:
    """The registry, checked. Raises ConfigError naming entry and key."""
    claims = read_yaml(path)["claims"]
    for error in jsonschema.Draft202012Validator(read_yaml(SCHEMA)).iter_errors({"claims": claims}):
        where = ".".join(str(part) for part in error.absolute_path)
        raise ConfigError(f"{path.name}: {where}: {error.message}")
    names = [claim["id"] for claim in claims]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ConfigError(f"{path.name}: id {', '.join(sorted(repeated))} stands twice; give each claim its own")
    for claim in claims:
        for key, known in (("reader", READERS), ("statistic", STATISTICS)):
            if claim[key] not in known:
                raise ConfigError(f"{path.name}: {claim['id']}.{key} = {claim[key]!r}: use one of {sorted(known)}")
    return claims


def decide(claim: Mapping[str, Any], preset: str, tables: Path) -> dict[str, Any]:
    """One row: measured value, interval, verdict and a note.

    The verdict needs the whole interval on one side of the threshold; an interval that
    straddles it decides nothing, whatever the value. Missing tables are an error.
    """
    row = {key: claim[key] for key in ("id", "statement", "where", "table", "measure")}
    side, threshold = ("above", claim["above"]) if "above" in claim else ("below", claim["below"])
    row |= {"rule": f"{side} {threshold:g}", "decidable": preset in claim["presets"]}
    if preset not in claim["presets"]:
        blank = {"value": None, "low": None, "high": None, "replicates": 0}
        return row | blank | {"verdict": UNDECIDABLE, "note": claim["otherwise"]}
    sample = READERS[claim["reader"]](tables / f"{claim['table']}.csv")

    def measure(means: pd.DataFrame) -> float:
        return STATISTICS[claim["statistic"]](means, **claim.get("with", {}))

    value, low, high = interval(sample, measure, claim["id"])
    row |= {"value": value, "low": low, "high": high, "replicates": sample.replicates}
    holds = low > threshold if side == "above" else high < threshold
    fails = high <= threshold if side == "above" else low >= threshold
    if holds or fails:
        return row | {"verdict": REPRODUCED if holds else NOT_REPRODUCED, "note": ""}
    return row | {"verdict": UNDECIDABLE, "note": "the interval straddles the threshold"}


def check_claims(preset: str, tables: Path, claims: list[dict] | None = None) -> pd.DataFrame:
    """Verdicts of all claims for one preset's tables."""
    return pd.DataFrame([decide(claim, preset, tables) for claim in claims or load_claims()])


def failures(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Claims that this preset should decide and does not reproduce."""
    return verdicts[verdicts["decidable"] & (verdicts["verdict"] != REPRODUCED)]
