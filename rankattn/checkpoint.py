"""Resumable training states on disk.

A checkpoint holds plain tensors and numbers only, begins with the checksum of
what follows, and carries the stamp of the run it belongs to. It is written
under a temporary name, read back, and renamed; the one before it is kept as
``<name>.previous``. One that cannot be read, or that belongs to other settings,
is never resumed from: it is set aside and named, and the older one is tried.
"""

import hashlib
import io
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from rankattn.files import replacing

if TYPE_CHECKING:
    from rankattn.training import State

log = logging.getLogger(__name__)


def previous(path: Path) -> Path:
    """Where the checkpoint before ``path`` is kept."""
    return path.with_name(path.name + ".previous")


def save(path: Path, stamp: str, state: "State") -> None:
    """Write a checkpoint, keep the one before it.

    Raises OSError, with both untouched, when what is read back is not what was written.
    """
    content = {
        "stamp": stamp,
        "flat": state.flat,
        "first_moment": state.moments[0],
        "second_moment": state.moments[1],
        "epoch": state.epoch,
        "history": state.history,
        "diverged": state.diverged,
        "retried": state.retried,
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    payload = buffer.getvalue()
    with replacing(path) as temporary:
        temporary.write_bytes(hashlib.sha256(payload).digest() + payload)
        _verified(temporary)
        if path.exists():
            os.replace(path, previous(path))


def load(path: Path, stamp: str) -> "State | None":
    """State of the newest checkpoint at ``path`` that this run can resume from, or None."""
    for candidate in (path, previous(path)):
        if candidate.exists():
            state = _read(candidate, stamp)
            if state is not None:
                log.info("resuming from %s after %d epochs", candidate, state.epoch)
                return state
    return None


def remove(path: Path) -> None:
    """Remove the checkpoint and the one before it."""
    for candidate in (path, previous(path)):
        candidate.unlink(missing_ok=True)


def _verified(path: Path) -> bytes:
    """Contents after the checksum. Raises OSError when they do not match it."""
    data = path.read_bytes()
    if hashlib.sha256(data[32:]).digest() != data[:32]:
        raise OSError(f"{path}: damaged while it was written")
    return data[32:]


def _read(path: Path, stamp: str) -> "State | None":
    from rankattn.training import State

    try:
        content = torch.load(io.BytesIO(_verified(path)), map_location="cpu", weights_only=True)
        if content["stamp"] != stamp:
            return _set_aside(path, "it belongs to other settings or other code")
        moments = (content["first_moment"], content["second_moment"])
        names = ("epoch", "history", "diverged", "retried")
        return State(content["flat"], moments, *(content[name] for name in names))
    except Exception as error:  # torch.load raises many kinds for damaged files
        return _set_aside(path, f"it is damaged ({type(error).__name__})")


def _set_aside(path: Path, reason: str) -> None:
    aside = path.with_name(path.name + ".unusable")
    os.replace(path, aside)
    log.warning("checkpoint %s not used: %s; moved to %s", path, reason, aside)
