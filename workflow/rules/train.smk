# One job per configuration, with all its seeds.


def run_of(wildcards):
    return GRID.run(wildcards.experiment, wildcards.run)


def train_memory(wildcards, attempt):
    """Predicted peak plus the Python process, in MB; twice as much on a retry."""
    return int((1.25 * peak_bytes(run_of(wildcards)) / 2**20 + 700) * attempt)


def gpus_per_job():
    """A training job holds one GPU, unless it will run on the CPU."""
    return int(SETTINGS["device"] == "cuda" or (SETTINGS["device"] == "auto" and local_gpus() > 0))


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
