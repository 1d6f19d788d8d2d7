# The figures that need no training.


rule compute_random_features:
    """Error of optimally weighted random rank-1 heads, in closed form, at every number of heads."""
    message:
        "Random features in dimension {wildcards.dim}"
    output:
        temp(f"{OUT}/theory/random_features_{{dim}}.csv"),
    params:
        max_heads=SETTINGS["theory"]["random_features"]["max_heads"],
        draws=SETTINGS["theory"]["random_features"]["draws"],
        code=digest("rankattn.theory.random_features"),
    log:
        f"{OUT}/logs/random_features/{{dim}}.log",
    benchmark:
        f"{OUT}/benchmarks/random_features/{{dim}}.tsv"
    threads: SETTINGS["threads"]
    resources:
        # The kernel matrix, its factor and one temporary, in float64.
        mem_mb=700 + 3 * 8 * SETTINGS["theory"]["random_features"]["max_heads"] ** 2 // 2**20,
    conda:
        "../../environment.yml"
    script:
        "../scripts/compute_random_features.py"


rule gather_random_features:
    """All dimensions in one table."""
    message:
        "Collecting random_features"
    input:
        expand(f"{OUT}/theory/random_features_{{dim}}.csv", dim=SETTINGS["theory"]["random_features"]["dims"]),
    output:
        f"{OUT}/tables/random_features.csv",
    log:
        f"{OUT}/logs/gather_random_features.log",
    benchmark:
        f"{OUT}/benchmarks/gather_random_features.tsv"
    threads: 1
    resources:
        mem_mb=800,
    conda:
        "../../environment.yml"
    script:
        "../scripts/gather_random_features.py"


rule compute_feature_representation:
    """The function that represents the target as an integral over rank-1 heads."""
    message:
        "Representing function"
    output:
        f"{OUT}/tables/feature_representation.csv",
    params:
        dims=SETTINGS["theory"]["feature_representation"]["dims"],
        max_degree=SETTINGS["theory"]["feature_representation"]["max_degree"],
        code=digest("rankattn.theory.representation"),
    log:
        f"{OUT}/logs/feature_representation.log",
    benchmark:
        f"{OUT}/benchmarks/feature_representation.tsv"
    threads: 1
    resources:
        mem_mb=800,
    conda:
        "../../environment.yml"
    script:
        "../scripts/compute_feature_representation.py"


rule compute_single_head:
    """Error of one full-rank head against its softmax scale."""
    message:
        "One full-rank head"
    output:
        f"{OUT}/tables/single_head.csv",
    params:
        settings=SETTINGS["theory"]["single_head"],
        code=digest("rankattn.theory.single_head"),
    log:
        f"{OUT}/logs/single_head.log",
    benchmark:
        f"{OUT}/benchmarks/single_head.tsv"
    threads: SETTINGS["threads"]
    resources:
        mem_mb=1500,
    conda:
        "../../environment.yml"
    script:
        "../scripts/compute_single_head.py"


rule compute_theory:
    """Heads needed, lower bounds, biased targets, votes, heights: one module of the theory, one table."""
    message:
        "Computing {wildcards.theory}"
    output:
        f"{OUT}/tables/{{theory}}.csv",
    wildcard_constraints:
        theory=alternatives(PLAIN_THEORY),
    params:
        settings=lambda wildcards: SETTINGS["theory"][wildcards.theory],
        code=lambda wildcards: digest(f"rankattn.theory.{wildcards.theory}"),
    log:
        f"{OUT}/logs/theory/{{theory}}.log",
    benchmark:
        f"{OUT}/benchmarks/theory/{{theory}}.tsv"
    threads: SETTINGS["threads"]
    resources:
        mem_mb=2000,
    conda:
        "../../environment.yml"
    script:
        "../scripts/compute_theory.py"
