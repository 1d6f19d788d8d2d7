"""The self-contained page (rule build_report)."""

from pathlib import Path

from rankattn.files import write_text
from rankattn.logs import logged
from rankattn.report import build


def main(preset: str, figures: list[str], trained: list[str], output: Path) -> None:
    """Write the page beside the results that it shows."""
    write_text(output, build(preset, output.parent, figures, trained))


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        main(
            preset=snakemake.params.preset,
            figures=snakemake.params.figures,
            trained=snakemake.params.trained,
            output=Path(snakemake.output[0]),
        )
