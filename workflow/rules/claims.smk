# Verdicts, agreement with the published values, errata, and the page that shows them.


rule check_claims:
    """Decide every claim of config/claims.yaml."""
    message:
        "Checking the claims"
    input:
        tables=expand(f"{OUT}/tables/{{table}}.csv", table=DATA_TABLES),
        claims="config/claims.yaml",
    output:
        f"{OUT}/tables/claims.csv",
    params:
        preset=SETTINGS["preset"],
        code=digest("rankattn.claims.verdicts"),
    log:
        f"{OUT}/logs/check_claims.log",
    benchmark:
        f"{OUT}/benchmarks/check_claims.tsv"
    threads: 1
    resources:
        mem_mb=800,
    conda:
        "../../environment.yml"
    script:
        "../scripts/check_claims.py"


rule compare_published:
    """Put our values beside the published ones."""
    message:
        "Comparing with the published values"
    input:
        expand(f"{OUT}/tables/figure_{{figure}}.csv", figure=FIGURES),
    output:
        f"{OUT}/tables/agreement.csv",
        f"{OUT}/tables/agreement_summary.csv",
    params:
        code=digest("rankattn.claims.agreement"),
    log:
        f"{OUT}/logs/compare_published.log",
    benchmark:
        f"{OUT}/benchmarks/compare_published.tsv"
    threads: 1
    resources:
        mem_mb=800,
    conda:
        "../../environment.yml"
    script:
        "../scripts/compare_published.py"


rule list_errata:
    """Measure the known faults of the published runs."""
    message:
        "Measuring the errata"
    input:
        expand(f"{OUT}/tables/figure_{{figure}}.csv", figure=FIGURES),
        expand(f"{OUT}/tables/{{table}}.csv", table=DATA_TABLES),
    output:
        f"{OUT}/tables/errata.csv",
    params:
        code=digest("rankattn.claims.errata"),
    log:
        f"{OUT}/logs/list_errata.log",
    benchmark:
        f"{OUT}/benchmarks/list_errata.tsv"
    threads: 1
    resources:
        mem_mb=800,
    conda:
        "../../environment.yml"
    script:
        "../scripts/list_errata.py"


rule build_report:
    """One self-contained page with everything on it."""
    message:
        "Building the report"
    input:
        figures=expand(f"{OUT}/figures/{{figure}}.svg", figure=FIGURES),
        values=expand(f"{OUT}/tables/figure_{{figure}}.csv", figure=FIGURES),
        tables=expand(f"{OUT}/tables/{{table}}.csv", table=TABLES),
        captions=expand("workflow/report/{figure}.rst", figure=FIGURES),
        template="rankattn/report/page.html.j2",
    output:
        report(f"{OUT}/report.html", category="Report", caption="../report/report.rst"),
    params:
        preset=SETTINGS["preset"],
        figures=FIGURES,
        trained=TRAINED,
        code=digest("rankattn.report"),
    log:
        f"{OUT}/logs/build_report.log",
    benchmark:
        f"{OUT}/benchmarks/build_report.tsv"
    threads: 1
    resources:
        mem_mb=800,
    conda:
        "../../environment.yml"
    script:
        "../scripts/build_report.py"
