"""ARTIFACT.md, written from the claims, the measured costs and the reference results.

    python -m rankattn artifact

rewrites it; a test fails when the file in the repository is not what this gives.
"""

from pathlib import Path

import pandas as pd

from rankattn.claims.verdicts import load_claims
from rankattn.config import ROOT, read_yaml

REFERENCE = ROOT / "results" / "reference" / "laptop"
TEMPLATE = """# Artifact

What is claimed, the command that decides it, what it prints and how long it takes. This file is written by
`python -m rankattn artifact` from `config/claims.yaml`, `config/measured.yaml` and `results/reference/laptop/`.

## Needs

git, make and Python 3.11 or newer. No GPU, compiler, LaTeX or display; network only for the first set-up (pip).
Measured on {machine}:

| command | minutes | memory | disk |
|---|---|---|---|
| set-up (once, by the first command) | {setup[minutes]} | {setup[memory]} | {setup[disk]} |
| `make reproduce PRESET=smoke` | {smoke[minutes]} | {smoke[memory]} | {smoke[disk]} |
| `make reproduce` (laptop) | {laptop[minutes]} | {laptop[memory]} | {laptop[disk]} |
| `make verify` | {verify[minutes]} | {verify[memory]} | {verify[disk]} |

`make estimate PRESET=paper` says what the paper's own scale would take on your machine, before anything starts.

## Steps

1. `make reproduce` trains everything at laptop scale, draws every figure and decides every claim.
2. Open `results/laptop/report.html`: each figure beside the published one, a verdict on every claim, errata, cost.
3. `make verify` prints the scorecard below and exits with 0 if every claim that this scale can decide is reproduced
   and nothing is stale.

## Claims, and what to expect

Values are those of the reference run; with other processors or versions they move within about their intervals.
One line of `make verify` per claim; one figure or table alone is made by the command in the last column.

| claim | statement | measured (95% interval) | holds if | verdict | made by |
|---|---|---|---|---|---|
{claims}

## What is not reproduced, and why

{missing}
- The absolute errors of the trained figures: they belong to d = 64 and 100,000 steps; the laptop preset shows the same
  statements at d = {dim}. The `paper` preset has the published settings and compares point by point.
- Seeds are three, so intervals are wide where training is bimodal; nothing is decided on one seed.
"""


def _row(claim: dict, reference: pd.DataFrame) -> str:
    found = reference[reference["id"] == claim["id"]].iloc[0]
    value = "" if pd.isna(found["value"]) else f"{found['value']:.3g}"
    if found["replicates"] > 1:
        value += f" [{found['low']:.3g}, {found['high']:.3g}]"
    command = f"`snakemake --cores 2 results/laptop/tables/{claim['table']}.csv`"
    cells = [f"`{claim['id']}`", claim["statement"], value, found["rule"], found["verdict"], command]
    return "| " + " | ".join(cells) + " |"


def artifact() -> str:
    """The text of ARTIFACT.md."""
    claims = load_claims()
    reference = pd.read_csv(REFERENCE / "claims.csv")
    missing = [claim for claim in claims if "laptop" not in claim["presets"]]
    return TEMPLATE.format(
        **read_yaml(ROOT / "config" / "measured.yaml"),
        claims="\n".join(_row(claim, reference) for claim in claims),
        missing="\n".join(f"- `{claim['id']}`: {claim['otherwise']}." for claim in missing),
        dim=read_yaml(ROOT / "config" / "config.yaml")["model"]["dim"],
    )


def write() -> Path:
    """Write ARTIFACT.md at the root of the repository."""
    path = ROOT / "ARTIFACT.md"
    path.write_text(artifact(), encoding="utf-8")
    return path
