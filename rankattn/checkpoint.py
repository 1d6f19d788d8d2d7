"""Resumable training states on disk.

A checkpoint is replaced atomically, holds plain tensors and numbers only, and
carries the stamp of the run it belongs to. One that cannot be read, or that
belongs to other settings, is never resumed from: it is set aside and named.
"""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from rankattn.files import replacing

if TYPE_CHECKING:
    from rankattn.training import State

log = logging.getLogger(__name__)


def save(path: Path, stamp: str, state: "State") -> None:
    """Write a checkpoint under a temporary name, then rename it over ``path``."""
    content = {
        "stamp": stamp,
        "flat": state.flat,
        "first_moment": state.moments[0],
        "second_moment": state.moments[1],
        "epoch": state.epoch,
        "history": state.history,
    }
    with replacing(path) as temporary:
        torch.save(content, temporary)


def load(path: Path, stamp: str) -> "State | None":
    """State of ``path``, or None when there is none that this run can resume from."""
    from rankattn.training import State

    if not path.exists():
        return None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        if content["stamp"] != stamp:
            return _set_aside(path, "it belongs to other settings or other code")
        moments = (content["first_moment"], content["second_moment"])
        state = State(content["flat"], moments, content["epoch"], content["history"])
    except Exception as error:  # torch.load raises many kinds for damaged files
        return _set_aside(path, f"it is damaged ({type(error).__name__})")
    log.info("resuming from %s after %d epochs", path, state.epoch)
    return state


def _set_aside(path: Path, reason: str) -> None:
    aside = path.with_name(path.name + ".unusable")
    os.replace(path, aside)
    log.warning("checkpoint %s not used: %s; moved to %s, training starts from the beginning", path, reason, aside)
