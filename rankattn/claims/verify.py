"""The scorecard on the terminal, and its exit status for continuous reproduction."""

import subprocess
import sys
from pathlib import Path

import pandas as pd

from rankattn.claims.verdicts import NOT_REPRODUCED, REPRODUCED, failures

MARKS = {REPRODUCED: "✓", NOT_REPRODUCED: "✗"}


def stale(preset: str) -> str | None:
    """What would have to be made again, as Snakemake's table of jobs; None when everything is up to date."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run", "--quiet", "rules", "--nolock"]
    done = subprocess.run(
        [*command, "--configfile", f"config/presets/{preset}.yaml"], capture_output=True, text=True, check=False
    )
    output = done.stdout + done.stderr
    if done.returncode == 0 and "Nothing to be done" in output:
        return None
    table = output.partition("Job stats:")[2].partition("\n\n")[0]
    return table.strip() or output.strip()


def scorecard(verdicts: pd.DataFrame) -> str:
    """One line per claim: mark, id, measured value with interval, rule, verdict."""
    lines = []
    for row in verdicts.to_dict("records"):
        measured = ""
        if pd.notna(row["value"]):
            measured = f"{row['value']:.4g}"
            measured += f" [{row['low']:.4g}, {row['high']:.4g}]" if row["replicates"] > 1 else ""
        note = f" ({row['note']})" if isinstance(row["note"], str) and row["note"] else ""
        lines.append(
            f"{MARKS.get(row['verdict'], '?')} {row['id']:<42}{measured:<28}{row['rule']:<14}{row['verdict']}{note}"
        )
    return "\n".join(lines)


def verify(preset: str, tables: Path) -> int:
    """Print the scorecard; 1 if a decidable claim is not reproduced or a result is missing or stale, else 0."""
    path = tables / "claims.csv"
    if not path.exists():
        print(f"there is no {path}: run make reproduce PRESET={preset} first", file=sys.stderr)
        return 1
    verdicts = pd.read_csv(path)
    print(scorecard(verdicts))
    decidable, failed = int(verdicts["decidable"].sum()), failures(verdicts)
    print(f"\n{decidable - len(failed)} of {decidable} claims that preset {preset} can decide are reproduced")
    again = stale(preset)
    if again:
        print(f"\nstale: these would be made again by make reproduce PRESET={preset}\n{again}", file=sys.stderr)
    for row in failed.to_dict("records"):
        print(
            f"not reproduced: {row['id']}: {row['measure']} is {row['value']:.4g}, not {row['rule']}", file=sys.stderr
        )
    return int(bool(again) or len(failed) > 0)
