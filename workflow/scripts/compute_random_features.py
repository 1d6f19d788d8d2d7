"""Errors of random rank-1 heads in one dimension (rule compute_random_features)."""

from pathlib import Path

from threadpoolctl import threadpool_limits

from rankattn.files import replacing
from rankattn.logs import logged
from rankattn.theory.random_features import table


def main(dim: int, max_heads: int, draws: int, output: Path) -> None:
    """Corrected and published variant of all draws, written to ``output``."""
    result = table([dim], max_heads, draws)
    with replacing(output) as temporary:
        result.to_csv(temporary, index=False, lineterminator="\n")


if "snakemake" in globals():
    with logged(snakemake.log[0]), threadpool_limits(snakemake.threads):
        main(
            dim=int(snakemake.wildcards.dim),
            max_heads=snakemake.params.max_heads,
            draws=snakemake.params.draws,
            output=Path(snakemake.output[0]),
        )
