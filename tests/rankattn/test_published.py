"""Published values land on the points with their settings, and only on those."""

from itertools import product

import pandas as pd
import pytest

from rankattn import plotting
from rankattn.claims import agreement
from rankattn.config import ROOT

PUBLISHED = ROOT / "config" / "published"


def paper_scale_table(dim=64):
    """A table with the paper's grid whose errors are the published values themselves."""
    read = pd.read_csv(PUBLISHED / "rank_depth.csv").dropna(subset="mse")
    rows = []
    for (_, point), seed in product(read.iterrows(), range(2)):
        row = {"run": f"{point['layers']} {point['width_multiplier']} {point['rank']}", "seed": seed, "status": "ok"}
        row |= {"dim": dim, "points": 16, "protocol": "corrected", "positional_encoding": "none"}
        row |= {"layers": point["layers"], "width": point["width_multiplier"], "rank": point["rank"]}
        rows.append(row | {"published_error": point["mse"] * (1 + 0.1 * seed), "error": point["mse"]})
    return pd.DataFrame(rows)


def test_every_published_value_meets_its_own_point(tmp_path):
    read = pd.read_csv(PUBLISHED / "rank_depth.csv")
    _, values = plotting.rank_depth(paper_scale_table(), read)
    assert values["published_value"].notna().all()
    assert values["published_value"].tolist() == pytest.approx(values["published_min"].tolist())
    points = agreement.compare("rank_depth", values)
    assert len(points) == read["mse"].notna().sum()
    assert points["agrees"].all()
    assert points["log10_ratio"].abs().max() < 1e-9


def test_other_settings_carry_no_published_values():
    read = pd.read_csv(PUBLISHED / "rank_depth.csv")
    _, values = plotting.rank_depth(paper_scale_table(dim=32), read)
    assert values["published_value"].isna().all()


@pytest.mark.parametrize("name", ["rank_depth", "positional_encoding"])
def test_the_published_figure_is_redrawn_from_all_its_values(name):
    read = pd.read_csv(PUBLISHED / f"{name}.csv")
    figure = plotting.as_published(name, read)
    drawn = sorted(y for axes in figure.axes for line in axes.lines for y in line.get_ydata())
    assert drawn == pytest.approx(sorted(read["mse"].dropna()))


def test_published_files_are_what_the_specification_gives():
    """Peaks of the representing function, medians of the learned heads (spec, section 6)."""
    peaks = pd.read_csv(PUBLISHED / "feature_representation.csv").set_index("dim")["peak"]
    assert peaks.to_dict() == {4: 1.4e8, 6: 6.5e12, 8: 6e16}
    heads = pd.read_csv(PUBLISHED / "learned_heads.csv").set_index("width")
    assert heads["median_angle"].to_dict() == {1: 179.6, 8: 176.4, 64: 168.5}


def test_published_medians_of_learned_heads_meet_the_published_form():
    rows = [
        {"width": w, "seed": s, "dim": 64, "points": 16, "run": f"w{w}", "protocol": "corrected"}
        for w in (1, 8, 64)
        for s in (0, 1)
    ]
    measures = {"bilinear_angle": 170.0, "bilinear_size": 1500.0, "published_angle": 175.0, "published_size": 1600.0}
    _, values = plotting.learned_heads(
        pd.DataFrame(rows).assign(**measures), pd.read_csv(PUBLISHED / "learned_heads.csv")
    )
    points = agreement.compare("learned_heads", values)
    assert len(points) == 6
    angle = points[points["point"].str.contains("angle")].sort_values("point")
    assert set(angle["published"]) == {179.6, 176.4, 168.5}
    assert (angle["ours"] == 175.0).all()
