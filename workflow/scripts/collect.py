"""One tidy table of an experiment's runs (rule collect)."""

from pathlib import Path

from rankattn import tables
from rankattn.logs import logged
from rankattn.runs import Member, Run


def main(runs: dict[str, dict], root: Path, digest: str, output: Path) -> None:
    """Collect ``runs`` (path under ``root`` to resolved settings) into ``output``; refuses unusable runs by name."""
    members = [Member(path, Run.from_resolved(values)) for path, values in runs.items()]
    tables.save(tables.collect(members, root, digest), output.with_suffix(""))


if "snakemake" in globals():
    with logged(snakemake.log[0]):
        main(
            runs=snakemake.params.runs,
            root=Path(snakemake.input.stamps[0]).parents[2],  # <root>/<experiment>/<run>/run.json
            digest=snakemake.params.digest,
            output=Path(snakemake.output[0]),
        )
