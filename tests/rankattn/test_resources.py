"""Jobs share the GPUs of a machine one by one (no GPU is needed to test it)."""

import itertools
import os
import subprocess
import sys
import time

from rankattn import resources

JOB = """
import sys, time
from rankattn.resources import own_gpu
with own_gpu(lambda text: print(text, flush=True), ["0", "1"], wait=0.05) as gpu:
    import os
    print("start", gpu, os.environ["CUDA_VISIBLE_DEVICES"], time.monotonic(), flush=True)
    time.sleep(0.6)
    print("end", gpu, "-", time.monotonic(), flush=True)
"""


def test_four_jobs_on_two_gpus_never_share_one(tmp_path):
    """Each sees one device; the times on a device do not overlap; both devices are used."""
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": "."}
    jobs = [
        subprocess.Popen([sys.executable, "-c", JOB], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(4)
    ]
    spans: dict[str, list[tuple[float, float]]] = {}
    waited = 0
    for job in jobs:
        lines = job.communicate(timeout=60)[0].splitlines()
        waited += any(line.startswith("waiting") for line in lines)
        begin, end = (next(line for line in lines if line.startswith(word)).split() for word in ("start", "end"))
        assert begin[1] == begin[2] == end[1]
        spans.setdefault(begin[1], []).append((float(begin[3]), float(end[3])))
    assert set(spans) == {"0", "1"}
    assert waited >= 1
    for times in spans.values():
        times.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(times))


def test_a_killed_job_gives_its_gpu_back(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": "."}
    code = JOB.replace('["0", "1"]', '["0"]').replace("time.sleep(0.6)", "time.sleep(60)")
    job = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert job.stdout.readline().startswith("start 0")
    job.kill()
    job.wait()
    began = time.monotonic()
    code = code.replace("time.sleep(60)", "pass")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=30)
    assert done.stdout.startswith("start 0")
    assert time.monotonic() - began < 30


def test_without_a_gpu_nothing_is_changed(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with resources.own_gpu(print, []) as gpu:
        assert gpu is None
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_visible_devices_narrow_the_list(monkeypatch):
    monkeypatch.setattr(
        resources.Path, "glob", lambda self, pattern: [resources.Path(f"/dev/nvidia{i}") for i in range(4)]
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert resources.visible_gpus() == ["0", "1", "2", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 3")
    assert resources.visible_gpus() == ["2", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert resources.visible_gpus() == []
