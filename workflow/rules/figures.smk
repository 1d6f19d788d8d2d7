# Each figure by its own notebook: table in, picture and plotted values out.


rule plot_figure:
    """Execute the figure's notebook."""
    message:
        "Drawing {wildcards.figure}"
    input:
        table=f"{OUT}/tables/{{figure}}.csv",
        notebook="notebooks/{figure}.ipynb",
        published=published_values,
    output:
        pdf=f"{OUT}/figures/{{figure}}.pdf",
        png=report(
            f"{OUT}/figures/{{figure}}.png",
            category="Figures",
            labels={"figure": "{figure}"},
            caption="../report/figure.rst",
        ),
        svg=f"{OUT}/figures/{{figure}}.svg",
        values=f"{OUT}/tables/figure_{{figure}}.csv",
        values_md=f"{OUT}/tables/figure_{{figure}}.md",
        values_tex=f"{OUT}/tables/figure_{{figure}}.tex",
        notebook=f"{OUT}/notebooks/{{figure}}.ipynb",
        html=f"{OUT}/notebooks/{{figure}}.html",
    params:
        code=digest("rankattn.plotting"),
    log:
        f"{OUT}/logs/figures/{{figure}}.log",
    benchmark:
        f"{OUT}/benchmarks/figures/{{figure}}.tsv"
    threads: 1
    resources:
        mem_mb=1500,
    conda:
        "../../environment.yml"
    script:
        "../scripts/plot_figure.py"
