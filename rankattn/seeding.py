"""Random generators named by what they are for.

Every random number comes from a generator whose seed is a hash of a readable
key such as ``(model, task, seed, "data", epoch)``. Streams with different keys
are independent, and no stream depends on how many jobs, cores or restarts
there were.
"""

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def seed_of(*key: object) -> int:
    """63-bit seed of a key (strings, numbers, and lists or dicts of them)."""
    text = json.dumps(key, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def torch_generator(*key: object, device: "str | torch.device" = "cpu") -> "torch.Generator":
    """Torch generator of a key, on ``device`` (its numbers differ between CPU and GPU)."""
    import torch  # here, because what needs numpy's generators alone should not wait for it

    return torch.Generator(device=device).manual_seed(seed_of(*key))


def numpy_generator(*key: object) -> np.random.Generator:
    """NumPy generator of a key."""
    return np.random.default_rng(seed_of(*key))
