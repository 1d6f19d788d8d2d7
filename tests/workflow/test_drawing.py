"""The figure rule run again: all jobs at once, in another folder, with one notebook that fails."""

import shutil
from types import SimpleNamespace

import matplotlib
import matplotlib.image
import nbformat
import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.conftest import SMOKE

pytestmark = pytest.mark.workflow
FAILING = "dimension"
NAMES = ["rank_depth", "learned_heads", "feature_representation", FAILING]  # one of each plotting module
ENDINGS = {"figures": ["pdf", "png"], "notebooks": ["ipynb", "html"]}


@pytest.fixture(scope="module")
def again(smoke, snakemake, tmp_path_factory):
    """Figures of the finished run drawn a second time, all at the same time, one with a raising cell."""
    base = tmp_path_factory.mktemp("drawing")
    folder = shutil.copytree(smoke.folder, base / "copy")
    path = folder / "notebooks" / f"{FAILING}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    source = "print('said before the fault')\nraise RuntimeError('a cell that raises')"
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    nbformat.write(notebook, path)
    options = ("--cores", len(NAMES), *SMOKE, "--keep-going", "--forcerun", "plot_figure")
    # A temporary folder with a long name, as on clusters: the kernels' sockets must fit under it.
    temporary = base / "temporary-folder-of-job-123456"
    temporary.mkdir()
    targets = [f"results/smoke/figures/{name}.pdf" for name in NAMES]
    done = snakemake(folder, *targets, *options, TMPDIR=str(temporary), TZ="Asia/Tokyo")
    return SimpleNamespace(folder=folder, results=folder / "results" / "smoke", done=done, temporary=temporary)


def test_a_raising_cell_fails_its_rule(again):
    """Exit status not 0, nothing under the final names, partial copy and log kept, the cause on the terminal."""
    assert again.done.returncode != 0 and "a cell that raises" in again.done.stdout
    for folder, endings in ENDINGS.items():
        assert not [ending for ending in endings if (again.results / folder / f"{FAILING}.{ending}").exists()]
    assert not list((again.results / "tables").glob(f"figure_{FAILING}.*"))
    log = (again.results / "logs" / "figures" / f"{FAILING}.log").read_text(encoding="utf-8")
    assert "said before the fault" in log and "a cell that raises" in log
    partial = nbformat.read(again.results / "logs" / "figures" / f"{FAILING}.partial.ipynb", as_version=4)
    outputs = [output for cell in partial.cells for output in cell.get("outputs", [])]
    assert any(output.output_type == "error" for output in outputs)


def test_all_others_succeed_at_the_same_time(again):
    """Jobs that start together do not disturb each other, and one failure stops no other."""
    missing = [name for name in NAMES if not (again.results / "notebooks" / f"{name}.html").exists()]
    assert missing == [FAILING], again.done.stdout[-3000:]
    assert f"{len(NAMES) - 1} of {len(NAMES)} steps" in again.done.stdout


def test_nothing_is_left_outside_the_results(again, smoke):
    """No sockets in the working folder, no temporary files."""
    assert {path.name for path in again.folder.iterdir()} == {path.name for path in smoke.folder.iterdir()}
    assert not [path for path in again.temporary.rglob("*") if "kernel" in path.name]


def test_a_second_drawing_is_the_same_file(again, smoke):
    """Other folder, other time, other time zone: equal pixels, equal bytes of vector files, equal tables."""
    for name in set(NAMES) - {FAILING}:
        first, second = smoke.results / "figures", again.results / "figures"
        assert (second / f"{name}.pdf").stat().st_mtime > (first / f"{name}.pdf").stat().st_mtime
        pixels = [matplotlib.image.imread(folder / f"{name}.png") for folder in (first, second)]
        assert np.array_equal(*pixels), name
        for path in first.glob(f"{name}.*"):
            assert path.suffix == ".png" or path.read_bytes() == (second / path.name).read_bytes(), path.name
        tables = [results / "tables" / f"figure_{name}.csv" for results in (smoke.results, again.results)]
        assert tables[0].read_bytes() == tables[1].read_bytes(), name


def test_pdfs_embed_no_type_3_font(smoke, tmp_path):
    """Journals refuse Type 3 fonts; a figure made with them shows that the search would find one."""
    with matplotlib.rc_context({"pdf.fonttype": 3}):
        figure = Figure()
        figure.text(0.5, 0.5, "text")
        figure.savefig(tmp_path / "type3.pdf")
    assert b"/Type3" in (tmp_path / "type3.pdf").read_bytes()
    for path in sorted((smoke.results / "figures").glob("*.pdf")):
        data = path.read_bytes()
        assert b"/Type3" not in data and b"/FontFile2" in data, path.name
        assert b"CreationDate" not in data, path.name
