"""Tables, figure and JSON of the benchmark under ``results/bench/``."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from rankattn.files import write_text
from rankattn.plotting.style import panels, save, use_style

LABELS = {"laptop": "laptop shapes", "paper": "paper shapes (d 64, N 16, batch 256)"}


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    """Growth of the time of a step: slope of log(time) over log(size) for every scaled size, and its largest part."""
    rows = []
    for axis, part in table[table["group"] == "scaling"].groupby("axis", sort=False):
        x, y = np.log(part["value"].to_numpy(float)), np.log(part["step_ms"].to_numpy(float))
        rows.append({"size": axis, "exponent": np.polyfit(x, y, 1)[0], "at_the_end": (y[-1] - y[-2]) / (x[-1] - x[-2])})
    return pd.DataFrame(rows)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean and smallest speedup of every group, and the share of the matrix rate where w = 1."""
    rows = []
    for group, part in table.dropna(subset="speedup").groupby("group", sort=False):
        rows.append(
            {
                "group": group,
                "cases": len(part),
                "geometric_mean_speedup": float(np.exp(np.log(part["speedup"]).mean())),
                "smallest_speedup": part["speedup"].min(),
                "share_of_matrix_rate_at_width_1": part.loc[part["width"] == 1, "share_of_matrix_rate"].median(),
            }
        )
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame) -> plt.Figure:
    """Speedups by group, phases of a step, growth with every size."""
    use_style()
    figure, (speed, phases, growth) = panels(3, size=(4.6, 4.2))
    for place, (group, label) in enumerate(LABELS.items()):
        part = table[(table["group"] == group) & table["speedup"].notna()]
        if part.empty:
            continue
        mean = np.exp(np.log(part["speedup"]).mean())
        offsets = np.linspace(-0.3, 0.3, len(part))
        speed.scatter(place + offsets, part["speedup"], s=14, label=f"{label}: mean {mean:.1f}")
        speed.hlines(mean, place - 0.4, place + 0.4, color="0.3")
    speed.set(yscale="log", xticks=range(len(LABELS)), ylabel="reference time / our time", title="Speed of a step")
    speed.set_xticklabels(list(LABELS))
    speed.axhline(1, color="0.6", linestyle=":")
    speed.legend(fontsize=7)
    shown = table[table["group"] == "paper"]
    names = [f"{row.rank} x {row.heads}, {row.layers} layer{'s' * (row.layers > 1)}" for row in shown.itertuples()]
    left = np.zeros(len(shown))
    for phase in ("data", "forward", "backward", "optimiser"):
        values = shown[f"{phase}_ms"].to_numpy()
        phases.barh(names, values, left=left, label=phase)
        left += values
    phases.set(xlabel="ms per step", title="Phases (rank x heads, paper shapes)")
    phases.invert_yaxis()
    phases.legend(fontsize=7)
    for row in exponents(table).itertuples():
        part = table[table["axis"] == row.size]
        scale = part["value"] / part["value"].iloc[0]
        growth.plot(scale, part["step_ms"], marker="o", markersize=3, label=f"{row.size}: {row.exponent:.2f}")
    growth.set(
        xscale="log", yscale="log", xlabel="size / smallest size", ylabel="ms per step", title="Growth (exponent)"
    )
    growth.legend(fontsize=7)
    return figure


def write(table: pd.DataFrame, plans: list[dict], machine: dict, folder: Path) -> pd.DataFrame:
    """Write everything; returns the summary."""
    totals = summary(table)
    write_text(folder / "steps.csv", table.to_csv(index=False))
    write_text(folder / "exponents.csv", exponents(table).to_csv(index=False))
    write_text(folder / "summary.csv", totals.to_csv(index=False))
    columns = ["case", "step_ms", "reference_ms", "speedup", "share_of_matrix_rate", "memory_mib"]
    pages = [
        f"## {group}\n\n{part[columns].to_markdown(index=False, floatfmt='.3g')}\n"
        for group, part in table.groupby("group", sort=False)
    ]
    place = ", ".join(f"{key} {value}" for key, value in machine.items())
    planned = pd.DataFrame(plans)
    head = f"# Benchmark\n\n{place}\n\n" + "\n\n".join(
        part.to_markdown(index=False, floatfmt=".3g") for part in (totals, exponents(table), planned) if len(part)
    )
    write_text(folder / "steps.md", head + "\n\n" + "\n".join(pages))
    values = json.loads(table.to_json(orient="records"))
    write_text(folder / "bench.json", json.dumps({"machine": machine, "planning": plans, "steps": values}, indent=1))
    figure = draw(table)
    save(figure, folder / "bench")
    plt.close(figure)
    return totals
