"""What the machine offers to training jobs."""

import os
from pathlib import Path


def local_gpus() -> int:
    """GPUs that this process may use, without starting CUDA: NVIDIA device files, or CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    present = len([path for path in Path("/dev").glob("nvidia[0-9]*") if path.name[6:].isdigit()])
    if visible is None:
        return present
    return min(present, len([name for name in visible.split(",") if name.strip() not in ("", "-1")]))
