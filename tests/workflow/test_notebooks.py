"""Notebooks: stored without results, executed without a trace of the machine, and never half done."""

import importlib.util
import json
import re

import nbformat
import papermill
import pytest

from tests.workflow.helpers import figures

PARAMETERS = {"table", "published", "figure", "values"}


def stored(root):
    paths = sorted((root / "notebooks").glob("*.ipynb"))
    assert paths
    return [(path, nbformat.read(path, as_version=4)) for path in paths]


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def html_resources(page):
    """Addresses that a browser would fetch by itself: scripts, styles, pictures, fonts, modules."""
    tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)\s*=\s*[\"']?([^\"'\s>]+)", page)
    modules = re.findall(r"(?:\bfrom|\bimport)\s*\(?\s*[\"']([^\"']+://[^\"']+)[\"']", page)
    styles = re.findall(r"(?:@import\s+|url\()\s*[\"']?([^\"')\s]+)", page)
    return [address for address in [*tags, *modules, *styles] if re.match(r"(https?:)?//", address)]


@pytest.fixture
def plot_figure(root, monkeypatch):
    """The script of the rule as a module."""
    spec = importlib.util.spec_from_file_location("plot_figure", root / "workflow" / "scripts" / "plot_figure.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stored_notebooks_hold_no_results(root):
    """No outputs, no counts, the plain kernel, and no path of anyone's machine."""
    for path, notebook in stored(root):
        nbformat.validate(notebook)
        assert all(not cell.outputs and cell.execution_count is None for cell in code(notebook)), path.name
        assert notebook.metadata.kernelspec.name == "python3", path.name
        assert set(notebook.metadata) <= {"kernelspec", "language_info"}, path.name
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(?:home|Users|root|tmp|work|mnt|scratch)/|[A-Z]:\\\\", text), path.name


def test_stored_notebooks_are_those_of_the_figures(root, smoke):
    """One per figure, with exactly the parameters that the rule gives, which are paths inside the repository."""
    assert {path.stem for path in (smoke.results / "figures").glob("*.pdf")} == figures()
    for path, _ in stored(root):
        declared = papermill.inspect_notebook(str(path))
        assert set(declared) == PARAMETERS
        for parameter in declared.values():
            assert not parameter["default"].strip("\"'").startswith(("/", "~", "."))


def test_executed_notebooks_are_complete(smoke):
    """Every code cell ran, in order, without an error; the picture is inside; the paths are those of the preset."""
    for path in sorted((smoke.results / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        assert [cell.execution_count for cell in code(notebook)] == list(range(1, len(code(notebook)) + 1)), path.name
        outputs = [output for cell in code(notebook) for output in cell.outputs]
        assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
        assert sum("image/png" in output.get("data", {}) for output in outputs) == 1, path.name
        assert f"results/smoke/tables/{path.stem}.csv" in json.dumps(notebook.cells)


def test_results_do_not_name_the_folder(smoke):
    """Tables, notebooks and pages hold no absolute path."""
    for folder in ("tables", "notebooks"):
        for path in (smoke.results / folder).iterdir():
            text = path.read_text(encoding="utf-8").replace("\\u00e9", "é")
            assert str(smoke.folder) not in text and str(smoke.home) not in text, path.name


def test_pages_load_nothing_from_the_network(smoke):
    """A page opens whole without a connection: no script, style, font or picture comes from elsewhere."""
    assert html_resources('<script src="https://a.org/x.js">') and html_resources("import m from 'https://a.org/m.mjs'")
    pages = sorted((smoke.results / "notebooks").glob("*.html"))
    assert pages
    for path in pages:
        page = path.read_text(encoding="utf-8")
        assert re.search(r"<img[^>]*\bsrc=\"data:image/png;base64,", page), f"{path.name} shows no picture"
        assert html_resources(page) == [], path.name


def test_logs_show_each_cell_and_no_complaint(smoke):
    """Prints reach the log; no missing font, no warning, no error."""
    for path in sorted((smoke.results / "logs" / "figures").glob("*.log")):
        text = path.read_text(encoding="utf-8")
        assert "Executing Cell 1" in text, path.name
        assert not re.search(r"findfont|[Gg]lyph|missing from|Warning|Error|Traceback", text), path.name


@pytest.mark.parametrize("side", ["notebook", "rule"])
def test_a_parameter_renamed_on_one_side_fails(plot_figure, root, tmp_path, side):
    """A name that only the notebook or only the rule knows is an error that shows both, before any cell runs."""
    source = tmp_path / "dimension.ipynb"
    text = (root / "notebooks" / "dimension.ipynb").read_text(encoding="utf-8")
    source.write_text(text.replace("table = ", "data_table = ") if side == "notebook" else text, encoding="utf-8")
    given = dict.fromkeys(PARAMETERS, "x") | ({"picture": "x"} if side == "rule" else {})
    with pytest.raises(ValueError, match=r"dimension\.ipynb: its parameters are .*, the rule gives .*"):
        plot_figure.main(source, given, tmp_path / "out.ipynb", tmp_path / "out.html", tmp_path / "partial.ipynb")
    assert [path.name for path in tmp_path.iterdir()] == ["dimension.ipynb"]
