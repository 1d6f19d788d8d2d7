"""Execute a figure's notebook with papermill and export it as HTML (rule plot_figure)."""

import os
import shutil
import tempfile
from pathlib import Path

from rankattn.files import write_text
from rankattn.logs import logged

# The classic page without the scripts that it would load from the network.
OFFLINE = (
    "{% extends 'classic/index.html.j2' %}"
    "{% block html_head_js %}{% endblock %}{% block html_head_js_mathjax %}{% endblock %}"
)


def short_folder() -> str:
    """The system's temporary folder, or /tmp where its name is too long for a socket (103 characters in all)."""
    return tempfile.gettempdir() if len(os.fsencode(tempfile.gettempdir())) <= 60 else "/tmp"


def isolate(folder: Path) -> None:
    """Keep Jupyter, IPython and matplotlib out of the home folder: parallel jobs share nothing."""
    for variable in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        os.environ[variable] = str(folder / variable.lower())
        Path(os.environ[variable]).mkdir()
    os.environ["MPLBACKEND"] = "agg"


def main(source: Path, parameters: dict[str, str], notebook: Path, html: Path, partial: Path) -> None:
    """Run ``source``; its executed copy stays at ``partial`` if a cell fails.

    Raises ValueError when the notebook's parameters are not exactly ``parameters``.
    """
    import nbformat
    import papermill
    from jinja2 import DictLoader
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    declared = set(papermill.inspect_notebook(str(source)))
    if declared != set(parameters):
        raise ValueError(f"{source}: its parameters are {sorted(declared)}, the rule gives {sorted(parameters)}")
    papermill.execute_notebook(
        str(source),
        str(partial),
        parameters=parameters,
        kernel_name="python3",
        log_output=True,
        progress_bar=False,
        # Sockets in a private folder instead of TCP ports, which parallel jobs could fight over. (Without
        # ``ip`` they would be in the working folder, where parallel jobs do fight over their names.)
        config=Config({"KernelManager": {"transport": "ipc", "ip": os.environ["JUPYTER_RUNTIME_DIR"] + "/kernel"}}),
    )
    exporter = HTMLExporter(
        template_name="classic",
        template_file="offline.html.j2",
        extra_loaders=[DictLoader({"offline.html.j2": OFFLINE})],
    )
    page, _ = exporter.from_notebook_node(nbformat.read(partial, as_version=4))
    write_text(html, page)
    shutil.move(partial, notebook)


if "snakemake" in globals():
    with logged(snakemake.log[0]), tempfile.TemporaryDirectory(dir=short_folder()) as folder:
        isolate(Path(folder))
        out = snakemake.output
        main(
            source=Path(snakemake.input.notebook),
            parameters={
                "table": snakemake.input.table,
                "published": str(snakemake.input.get("published", "")),
                "figure": out.pdf.removesuffix(".pdf"),
                "values": out.values.removesuffix(".csv"),
            },
            notebook=Path(out.notebook),
            html=Path(out.html),
            partial=Path(snakemake.log[0]).with_suffix(".partial.ipynb"),
        )
