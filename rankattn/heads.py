"""Query-key matrices of trained heads against the identity (paper, section 6, learned heads)."""

import numpy as np
import pandas as pd
from torch import Tensor

from rankattn.architecture import Architecture
from rankattn.encoder import split


def angle_to_identity(matrix: np.ndarray) -> float:
    """Angle in degrees between a (d, d) matrix and I in the Frobenius inner product, tr(M) / (|M| sqrt(d))."""
    cosine = np.trace(matrix) / (np.linalg.norm(matrix) * np.sqrt(len(matrix)))
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


def measure(arch: Architecture, flat: Tensor, layer: int = 0) -> pd.DataFrame:
    """One row per replica and head of a layer, for weights (R, P).

    ``bilinear`` is W_Q^T W_K, the form that acts on points: the score of points
    x and x' is x^T W_Q^T W_K x' / sqrt(r). ``published`` is W_Q W_K^T, which the
    authors analysed (spec, section 7.2); it is square like the identity
    only up to rank, so its identity is the (r, r) one. ``size`` is the Frobenius norm divided
    by sqrt(d), as plotted in the paper.
    """
    qkv = split(arch, flat)[f"{layer}.qkv"].double()
    qkv = qkv.unflatten(1, (3, arch.total_heads, arch.rank)).numpy()
    rows = []
    for replica in range(qkv.shape[0]):
        for head in range(arch.total_heads):
            query, key = qkv[replica, 0, head], qkv[replica, 1, head]
            row = {"replica": replica, "head": head}
            for name, matrix in (("bilinear", query.T @ key), ("published", query @ key.T)):
                row[f"{name}_angle"] = angle_to_identity(matrix)
                row[f"{name}_size"] = float(np.linalg.norm(matrix) / np.sqrt(len(matrix)))
            rows.append(row)
    return pd.DataFrame(rows)
