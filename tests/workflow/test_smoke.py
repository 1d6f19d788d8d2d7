"""One complete run of the smallest preset: all files, honest rows, equal tables in all formats."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch

from rankattn import cost
from tests.conftest import SOURCES
from tests.workflow.helpers import figures, jobs, kept

pytestmark = pytest.mark.workflow


def table(smoke, name):
    return pd.read_csv(smoke.results / "tables" / f"{name}.csv")


def trained(smoke):
    return [name for name in smoke.grid.experiments if name != "learned_heads"]


def test_every_declared_file_exists(smoke):
    """All that rule ``all`` asks for is there and not empty, and it asks for every figure in every form."""
    inputs = re.search(r"^localrule all:\n    input: (.*)$", smoke.output, flags=re.MULTILINE)[1].split(", ")
    assert all((smoke.folder / path).stat().st_size > 0 for path in inputs)
    names = figures()
    expected = {f"figures/{name}.{ending}" for name in names for ending in ("pdf", "png")}
    expected |= {f"notebooks/{name}.{ending}" for name in names for ending in ("ipynb", "html")}
    expected |= {f"tables/{name}.csv" for name in [*names, "settings", "runtime", "best_rank"]}
    assert expected <= {path.removeprefix("results/smoke/") for path in inputs}


def test_nothing_else_is_left_behind(smoke):
    """No temporary or half-written file, no socket, no checkpoint, and no file outside the results folder."""
    left = [path for path in smoke.results.rglob("*") if path.name.startswith(".") or path.name.endswith(".tmp")]
    assert left == [] and not list((smoke.results / "logs").rglob("*.partial.ipynb"))
    assert not [path for path in smoke.results.rglob("*.pt") if path.name != "weights.pt"]
    assert not [path for path in smoke.results.rglob("*") if not path.is_dir() and not path.is_file()]
    assert {path.name for path in smoke.folder.iterdir()} == {*SOURCES, "results", ".snakemake"}


def test_the_home_folder_stays_clean(smoke):
    """Jupyter and IPython keep nothing in the home folder, so parallel notebooks share nothing there."""
    found = {path.relative_to(smoke.home).as_posix() for path in smoke.home.glob("*/*")}
    assert found <= {".cache/snakemake", ".cache/matplotlib", ".config/matplotlib"}


def test_a_shared_run_is_trained_once(smoke):
    """Runs that two experiments show have one job and one folder, and the same rows in both tables."""
    counts = Counter(jobs(smoke.output, "Training"))
    assert set(counts) == set(smoke.grid.runs) and set(counts.values()) == {1}
    folders = {path.parent.relative_to(smoke.results / "runs").as_posix() for path in smoke.results.rglob("run.json")}
    assert folders == set(smoke.grid.runs)
    lender, borrower = table(smoke, "rank_depth"), table(smoke, "positional_encoding")
    shared = borrower[borrower["run"].str.startswith("rank_depth/")]
    assert len(shared) and (shared["positional_encoding"] == "none").all()
    same = lender[lender["run"].isin(shared["run"])]
    pd.testing.assert_frame_equal(*(rows.sort_values(["run", "seed"], ignore_index=True) for rows in (shared, same)))


def test_rows_are_complete_and_made_on_the_cpu(smoke):
    """Every configuration has each of its seeds once; device, threads and versions stand in every row."""
    for name in trained(smoke):
        rows, members = table(smoke, name), smoke.grid.experiments[name]
        assert {run: sorted(group["seed"]) for run, group in rows.groupby("run")} == {
            member.path: sorted(member.run.seeds) for member in members
        }
        assert (rows["device"] == "cpu").all() and (rows["threads"] == smoke.config["threads"]).all()
        assert (rows["torch"] == torch.__version__).all()
        assert rows[["commit", "device_name", "matmul_precision", "python"]].notna().all(axis=None)
        for member in members:
            own = rows[rows["run"] == member.path]
            for key in ("dim", "points", "layers", "width", "heads", "rank", "total_heads"):
                assert (own[key] == getattr(member.run.architecture, key)).all()


def test_rows_are_the_runs_own_results(smoke):
    """Tables repeat the runs' summaries; the published statistic is the smallest epoch mean of the history."""
    for name in trained(smoke):
        rows = table(smoke, name)
        for member in smoke.grid.experiments[name]:
            folder = smoke.results / "runs" / member.path
            summary, history = pd.read_csv(folder / "summary.csv"), pd.read_csv(folder / "history.csv")
            own = rows[rows["run"] == member.path].reset_index(drop=True)
            pd.testing.assert_frame_equal(own[summary.columns], summary, check_exact=True, check_dtype=False)
            errors = history.pivot(index="epoch", columns="seed", values="training_error")
            assert list(errors.index) == list(range(member.run.training.epochs))
            assert list(own["published_error"]) == list(errors.min())
            assert list(own["final_training_error"]) == list(errors.iloc[-1])
            seconds = history.drop_duplicates("epoch")["seconds"].sum()
            assert np.allclose(own["seconds"], seconds) and (own["status"] == "ok").all()


def test_held_out_scores_are_possible(smoke):
    """Errors are finite with a standard error; attention is scored for one head in one layer, and only there."""
    rows = pd.concat([table(smoke, name) for name in trained(smoke)])
    assert np.isfinite(rows["error"]).all() and (rows["error_se"] > 0).all()
    assert rows["decoded_accuracy"].between(0, 1).all()
    one_head = (rows["layers"] == 1) & (rows["total_heads"] == 1)
    assert one_head.any() and (rows["attended_accuracy"].notna() == one_head).all()
    assert rows.loc[one_head, "attended_accuracy"].between(0, 1).all()


def test_weights_are_kept_for_the_heads_only(smoke):
    """Final weights stand where something reads them; they are plain tensors, one row per seed."""
    files = {path.parent.relative_to(smoke.results / "runs").as_posix(): path for path in smoke.results.rglob("*.pt")}
    assert set(files) == kept(smoke.grid)
    for member in smoke.grid.experiments["learned_heads"]:
        flat = torch.load(files[member.path], weights_only=True)
        assert flat.shape == (len(member.run.seeds), cost.parameters(member.run.architecture))
        assert flat.dtype == torch.float32 and flat.isfinite().all()


def test_head_measurements_are_those_of_the_weights(smoke):
    """Angle and size of W_Q^T W_K, computed again from the stored weights of one head in one module."""
    rows = table(smoke, "learned_heads")
    members = smoke.grid.experiments["learned_heads"]
    assert len(rows) == sum(len(m.run.seeds) * m.run.architecture.total_heads for m in members)
    for member in members:
        dim, width = member.run.architecture.dim, member.run.architecture.width
        flat = torch.load(smoke.results / "runs" / member.path / "weights.pt", weights_only=True).double().numpy()
        for seed, weights in zip(member.run.seeds, flat, strict=True):
            query, key, _ = weights[: 3 * width * dim * dim].reshape(3, width, dim, dim)
            form = np.einsum("hri,hrj->hij", query, key)
            norm = np.linalg.norm(form, axis=(1, 2))
            angle = np.degrees(np.arccos(np.trace(form, axis1=1, axis2=2) / norm / np.sqrt(dim)))
            own = rows[(rows["run"] == member.path) & (rows["seed"] == seed)].sort_values("head")
            np.testing.assert_allclose(own["bilinear_angle"], angle, rtol=1e-6)
            np.testing.assert_allclose(own["bilinear_size"], norm / np.sqrt(dim), rtol=1e-6)


def from_markdown(text):
    lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.strip().splitlines()]
    return pd.DataFrame(lines[2:], columns=lines[0])


def from_latex(text):
    body = re.search(r"\\toprule\n(.*)\\bottomrule", text, flags=re.DOTALL)[1].replace(r"\midrule", "")
    assert not re.search(r"(?<!\\)[#$^%_~]", body), "special characters must be escaped"
    plain = body.replace(r"\_", "_").replace(r"\%", "%")
    lines = [[cell.strip() for cell in line.split(" & ")] for line in plain.split(r"\\") if line.strip()]
    return pd.DataFrame(lines[1:], columns=lines[0])


@pytest.mark.parametrize(("ending", "parse"), [("md", from_markdown), ("tex", from_latex)])
def test_all_formats_hold_the_same_table(smoke, ending, parse):
    """Markdown and LaTeX have the rows, columns and (to four digits) numbers of the CSV."""
    names = sorted(path.stem for path in (smoke.results / "tables").glob("*.csv"))
    assert {"settings", "runtime", "best_rank", "rank_depth", "figure_rank_depth"} <= set(names)
    for name in names:
        full = table(smoke, name)
        shown = parse((smoke.results / "tables" / f"{name}.{ending}").read_text(encoding="utf-8"))
        assert list(shown.columns) == list(full.columns) and len(shown) == len(full), name
        for column in full:
            if pd.api.types.is_bool_dtype(full[column]) or not pd.api.types.is_numeric_dtype(full[column]):
                continue
            numbers = shown[column].replace({"None": "nan", "": "nan"}).map(float)
            np.testing.assert_allclose(numbers, full[column].astype(float), rtol=6e-4, err_msg=f"{name}.{column}")


def test_summary_tables_agree_with_the_runs(smoke):
    """Parameters, time and best rank, computed again from the rows."""
    settings, runtime, best = (table(smoke, name) for name in ("settings", "runtime", "best_rank"))
    assert Counter(settings["experiment"]) == {name: len(smoke.grid.experiments[name]) for name in trained(smoke)}
    for row in runtime.itertuples():
        runs = table(smoke, row.experiment).drop_duplicates("run")
        assert row.training_hours * 3600 == pytest.approx(runs["seconds"].sum())
        assert (row.configurations, row.devices) == (len(runs), "cpu")
    means = table(smoke, "rank_depth").groupby(["layers", "width", "rank"])["error"].mean()
    for row in best.itertuples():
        here = means.loc[row.layers, row.width]
        assert (row.rank, row.error) == (here.idxmin(), pytest.approx(here.min()))


def test_every_job_has_a_log_and_a_benchmark(smoke):
    """Each trained run, table and figure left both."""
    logs, benchmarks = smoke.results / "logs", smoke.results / "benchmarks"
    names = {path.relative_to(logs).with_suffix("").as_posix() for path in logs.rglob("*.log")}
    assert names >= {f"train/{path}" for path in smoke.grid.runs} | {"collect/rank_depth", "tabulate"}
    assert names == {path.relative_to(benchmarks).with_suffix("").as_posix() for path in benchmarks.rglob("*.tsv")}
