# Every figure and table of "On the Benefits of Rank in Attention Layers", from scratch.
#   snakemake --cores 2                                            the laptop preset
#   snakemake --cores 8 --configfile config/presets/paper.yaml     the paper's own sizes
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/collect.smk"
include: "workflow/rules/theory.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/claims.smk"


rule all:
    default_target: True
    input:
        figures=expand(f"{OUT}/figures/{{figure}}.{{format}}", figure=FIGURES, format=["pdf", "png", "svg"]),
        notebooks=expand(f"{OUT}/notebooks/{{figure}}.{{format}}", figure=FIGURES, format=["ipynb", "html"]),
        tables=expand(f"{OUT}/tables/{{table}}.csv", table=TABLES),
        report=f"{OUT}/report.html",


onsuccess:
    print(f"\nDone. Open {OUT}/report.html   figures: {OUT}/figures   tables: {OUT}/tables   notebooks: {OUT}/notebooks\n")


onerror:
    print(f"\nNot finished. The logs of all jobs are under {OUT}/logs; the same command continues where it stopped.\n")
