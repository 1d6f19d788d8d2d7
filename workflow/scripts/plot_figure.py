"""Execute a figure's notebook with papermill and export it as HTML (rule plot_figure)."""

import os
import shutil
import tempfile
from pathlib import Path

from rankattn.files import write_text
from rankattn.logs import logged


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
        # Sockets in a private folder instead of TCP ports, which parallel jobs could fight over.
        config=Config({"KernelManager": {"transport": "ipc"}}),
    )
    page, _ = HTMLExporter(template_name="classic").from_notebook_node(nbformat.read(partial, as_version=4))
    write_text(html, page)
    shutil.move(partial, notebook)


if "snakemake" in globals():
    with logged(snakemake.log[0]), tempfile.TemporaryDirectory() as folder:
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
