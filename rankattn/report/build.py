"""Collects what the page shows and fills the template. Everything on the page is read from result files."""

import shlex
import tempfile
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from rankattn import plotting
from rankattn.claims.agreement import summary
from rankattn.claims.verdicts import REPRODUCED
from rankattn.config import ROOT
from rankattn.plotting.svg import save_svg

TITLES = {
    "rank_depth": "Error against rank, by depth and budget",
    "positional_encoding": "Positional encodings",
    "context_length": "Context length",
    "dimension": "Dimension (set up by the authors, never published)",
    "learned_heads": "Trained full-rank heads against the identity",
    "single_head": "One full-rank head: error against softmax scale",
    "random_features": "Random rank-1 heads, closed form",
    "feature_representation": "The representing function",
    "heads_needed": "Random rank-1 heads needed, against the dimension",
    "rank_bound": "Lower bound on the number of heads, against d / r",
    "random_subspaces": "Heads on random subspaces, against the lower bound",
    "biased_neighbour": "Biased nearest neighbour",
    "majority_vote": "Majority vote in two layers",
    "representation_terms": "Height of the representing function, against the terms of its series",
}
CAPTIONS = ROOT / "workflow" / "report"


def number(value: Any) -> str:
    """A table cell as text: 4 significant digits for fractions, nothing for missing values."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e6 else f"{value:.4g}"
    return str(value)


def inline(svg: str) -> Markup:
    """The svg element of an SVG file, to stand in HTML."""
    return Markup(svg[svg.index("<svg") :])


def published_figure(name: str) -> Markup | None:
    """The published figure redrawn from its values, where it is not already drawn over ours."""
    path = ROOT / "config" / "published" / f"{name}.csv"
    figure = plotting.as_published(name, pd.read_csv(path)) if path.exists() else None
    if figure is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        save_svg(figure, Path(folder) / "published.svg", f"published-{name}")
        return inline((Path(folder) / "published.svg").read_text(encoding="utf-8"))


def figure_block(name: str, out: Path, points: pd.DataFrame) -> dict[str, Any]:
    """What the page says about one figure."""
    own = points[points["figure"] == name]
    return {
        "name": name,
        "title": TITLES.get(name, name),
        "caption": (CAPTIONS / f"{name}.rst").read_text(encoding="utf-8").strip(),
        "svg": inline((out / "figures" / f"{name}.svg").read_text(encoding="utf-8")),
        "published_svg": published_figure(name),
        "plotted": pd.read_csv(out / "tables" / f"figure_{name}.csv"),
        "agreement": own.drop(columns="figure"),
        "agreement_summary": summary(own).iloc[0].to_dict() if len(own) else None,
    }


def benchmarks(out: Path) -> pd.DataFrame:
    """Jobs, wall time and memory per rule, from Snakemake's benchmark files."""
    rows = []
    for path in sorted((out / "benchmarks").rglob("*.tsv")):
        table = pd.read_csv(path, sep="\t", na_values="-")
        rule = path.relative_to(out / "benchmarks").parts[0].removesuffix(".tsv")
        rows.append({"rule": rule, "seconds": table["s"].mean(), "memory": table["max_rss"].mean()})
    if not rows:
        return pd.DataFrame(columns=["rule", "jobs", "minutes", "longest job (s)", "greatest memory (MB)"])
    grouped = pd.DataFrame(rows).groupby("rule")
    return pd.DataFrame(
        {
            "jobs": grouped.size(),
            "minutes": grouped["seconds"].sum() / 60,
            "longest job (s)": grouped["seconds"].max(),
            "greatest memory (MB)": grouped["memory"].max(),
        }
    ).reset_index()


def provenance(out: Path, tables: list[pd.DataFrame]) -> dict[str, str]:
    """Versions, devices, commits and seeds found in the rows of the trained tables."""
    rows = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    found = {}
    for key in (
        "commit",
        "torch",
        "python",
        "device",
        "device_name",
        "matmul_precision",
        "threads",
        "protocol",
        "seed",
    ):
        if key in rows:
            found[key] = ", ".join(str(value) for value in sorted(rows[key].unique()))
    return found


def context(preset: str, out: Path, figures: list[str], trained: list[str]) -> dict[str, Any]:
    """Everything the template uses."""
    tables = out / "tables"
    claims = pd.read_csv(tables / "claims.csv", keep_default_na=False, na_values=[""])
    points = pd.read_csv(tables / "agreement.csv")
    decided = claims[claims["decidable"]]
    rows = [pd.read_csv(tables / f"{name}.csv") for name in trained]
    configfile = shlex.quote(f"config/presets/{preset}.yaml")
    return {
        "preset": preset,
        "claims": claims.to_dict("records"),
        "decidable": len(decided),
        "reproduced": int((decided["verdict"] == REPRODUCED).sum()),
        "diverged": int(sum((table["status"] != "ok").sum() for table in rows)),
        "figures": [figure_block(name, out, points) for name in figures],
        "agreement": summary(points),
        "runtime": pd.read_csv(tables / "runtime.csv"),
        "benchmarks": benchmarks(out),
        "settings": pd.read_csv(tables / "settings.csv"),
        "best_rank": pd.read_csv(tables / "best_rank.csv") if (tables / "best_rank.csv").exists() else None,
        "errata": pd.read_csv(tables / "errata.csv").to_dict("records"),
        "provenance": provenance(out, rows),
        "command": f"snakemake --cores 2 --configfile {configfile}",
        "out": str(out),
    }


def build(preset: str, out: Path, figures: list[str], trained: list[str]) -> str:
    """The whole page as HTML. Raises FileNotFoundError naming a missing table or figure."""
    plotting.use_style()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["number"] = number
    return environment.get_template("page.html.j2").render(**context(preset, out, figures, trained))
