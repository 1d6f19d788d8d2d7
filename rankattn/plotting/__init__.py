"""The paper's figures, each drawn by one function from a tidy table."""

from rankattn.plotting.heads import learned_heads
from rankattn.plotting.style import save, use_style
from rankattn.plotting.theory import feature_representation, random_features, single_head
from rankattn.plotting.trained import as_published, context_length, dimension, positional_encoding, rank_depth

__all__ = [
    "as_published",
    "context_length",
    "dimension",
    "feature_representation",
    "learned_heads",
    "positional_encoding",
    "random_features",
    "rank_depth",
    "save",
    "single_head",
    "use_style",
]
