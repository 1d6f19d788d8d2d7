"""What the machine offers to training jobs, and one GPU for each of them."""

import fcntl
import getpass
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use, without starting CUDA.

    NVIDIA device files, narrowed by CUDA_VISIBLE_DEVICES where it is set.
    """
    present = sorted(path.name[6:] for path in Path("/dev").glob("nvidia[0-9]*") if path.name[6:].isdigit())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not present:
        return present
    return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]


def lock_folder() -> Path:
    """Folder of this user's GPU locks, the same for all checkouts and presets on the machine."""
    folder = Path(tempfile.gettempdir()) / f"rankattn-gpus-{getpass.getuser()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextmanager
def own_gpu(say: Callable[[str], None], gpus: list[str] | None = None, wait: float = 5.0) -> Iterator[str | None]:
    """Hold a GPU that no other job holds, as the only one that CUDA will see in this process.

    Yields its name, or None where there is no GPU. Waits, and says so, while all are
    held. To be entered before CUDA starts. The lock ends with the process, however it ends.
    """
    gpus = visible_gpus() if gpus is None else gpus
    if not gpus:
        yield None
        return
    waiting = False
    while True:
        for name in gpus:
            with open(lock_folder() / f"{name.replace('/', '_')}.lock", "w") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                os.environ["CUDA_VISIBLE_DEVICES"] = name
                yield name
                return
        if not waiting:
            say(f"waiting for one of the GPUs {', '.join(gpus)}: all are held by other training jobs")
            waiting = True
        time.sleep(wait)
