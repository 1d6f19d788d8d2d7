# One job per configuration, with all its seeds.


rule train:
    """Train every seed of one configuration; resumes from its checkpoint."""
    message:
        "Training {wildcards.experiment}/{wildcards.run}"
    output:
        stamp=f"{OUT}/runs/{{experiment}}/{{run}}/run.json",
        history=f"{OUT}/runs/{{experiment}}/{{run}}/history.csv",
        summary=f"{OUT}/runs/{{experiment}}/{{run}}/summary.csv",
    params:
        run=lambda wildcards: run_of(wildcards).resolved(),
        digest=TRAINING_DIGEST,
        device=SETTINGS["device"],
        saved=f"{OUT}/checkpoints/{{experiment}}/{{run}}.pt",
    log:
        f"{OUT}/logs/train/{{experiment}}/{{run}}.log",
    benchmark:
        f"{OUT}/benchmarks/train/{{experiment}}/{{run}}.tsv"
    threads: SETTINGS["threads"]
    resources:
        mem_mb=train_memory,
        gpu=gpus_per_job(),
        save_seconds=int(SETTINGS["save_seconds"]),
    conda:
        "../../environment.yml"
    script:
        "../scripts/train.py"


use rule train as train_and_keep with:
    # The same, and keeps the final weights, for the runs whose weights are read.
    output:
        stamp=f"{OUT}/runs/{{experiment}}/{{run}}/run.json",
        history=f"{OUT}/runs/{{experiment}}/{{run}}/history.csv",
        summary=f"{OUT}/runs/{{experiment}}/{{run}}/summary.csv",
        weights=f"{OUT}/runs/{{experiment}}/{{run}}/weights.pt",
    wildcard_constraints:
        experiment=alternatives(path.partition("/")[0] for path in HEAD_RUNS),
        run=alternatives(path.partition("/")[2] for path in HEAD_RUNS),


ruleorder: train_and_keep > train
