# From runs to tidy tables.


rule collect:
    """One table per experiment: a row per configuration and seed."""
    message:
        "Collecting {wildcards.experiment}"
    input:
        stamps=lambda wildcards: member_files(wildcards.experiment, "run.json"),
    output:
        f"{OUT}/tables/{{experiment}}.csv",
    wildcard_constraints:
        experiment=alternatives(TRAINED),
    params:
        runs=lambda wildcards: member_runs(wildcards.experiment),
        digest=TRAINING_DIGEST,
        code=digest("rankattn.tables"),
    log:
        f"{OUT}/logs/collect/{{experiment}}.log",
    benchmark:
        f"{OUT}/benchmarks/collect/{{experiment}}.tsv"
    threads: 1
    resources:
        mem_mb=800,
    conda:
        "../../environment.yml"
    script:
        "../scripts/collect.py"


rule measure_heads:
    """Angle and size of every trained full-rank head."""
    message:
        "Measuring the trained full-rank heads"
    input:
        stamps=member_files("learned_heads", "run.json") if HEAD_RUNS else [],
        weights=member_files("learned_heads", "weights.pt") if HEAD_RUNS else [],
    output:
        f"{OUT}/tables/learned_heads.csv",
    params:
        runs=member_runs("learned_heads") if HEAD_RUNS else {},
        digest=TRAINING_DIGEST,
        code=digest("rankattn.heads", "rankattn.tables"),
    log:
        f"{OUT}/logs/measure_heads.log",
    benchmark:
        f"{OUT}/benchmarks/measure_heads.tsv"
    threads: 1
    resources:
        mem_mb=1500,
    conda:
        "../../environment.yml"
    script:
        "../scripts/measure_heads.py"


rule tabulate:
    """Summary tables: settings, best rank, runtime."""
    message:
        "Writing the summary tables"
    input:
        tables=expand(f"{OUT}/tables/{{experiment}}.csv", experiment=TRAINED),
    output:
        expand(f"{OUT}/tables/{{table}}.{{format}}", table=SUMMARIES, format=["csv", "md", "tex"]),
    params:
        runs={name: member_runs(name) for name in TRAINED},
        code=digest("rankattn.tables"),
    log:
        f"{OUT}/logs/tabulate.log",
    benchmark:
        f"{OUT}/benchmarks/tabulate.tsv"
    threads: 1
    resources:
        mem_mb=800,
    conda:
        "../../environment.yml"
    script:
        "../scripts/tabulate.py"
