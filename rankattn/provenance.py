"""Where a result comes from: the code that made it, the versions and the machine."""

import ast
import hashlib
import platform
import subprocess
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


@cache
def sources(*modules: str) -> tuple[str, ...]:
    """The named modules of this package and all that they import from it, sorted.

    Found by reading the import statements, so the list cannot be forgotten
    when a module is added. Raises FileNotFoundError for a module that is not there.
    """
    found: set[str] = set()
    todo = list(modules)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _imports(_file(name))
    return tuple(sorted(found))


@cache
def digest(*modules: str) -> str:
    """Short hash of the sources of ``modules`` and all they import from this package."""
    text = hashlib.sha256()
    for name in sources(*modules):
        text.update(name.encode() + b"\0" + _file(name).read_bytes() + b"\0")
    return text.hexdigest()[:16]


def _file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _imports(file: Path) -> tuple[str, ...]:
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(name for name in names if name.startswith("rankattn.") and _file(name).exists())


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(PACKAGE.parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def commit() -> str:
    """The commit, with ``+changes`` when tracked files differ from it, or ``unknown`` outside git."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if head is None:
        return "unknown"
    return head + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")


def environment(device: str) -> dict[str, str | int]:
    """Versions and machine of the running process; ``device`` is ``cpu`` or ``cuda``."""
    import torch

    on_gpu = device == "cuda"
    return {
        "device": device,
        "device_name": torch.cuda.get_device_name() if on_gpu else platform.processor() or platform.machine(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit(),
    }
