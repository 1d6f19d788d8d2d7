"""The paper's figures, each drawn by one function from a tidy table."""

from rankattn.plotting.bounds import (
    biased_neighbour,
    heads_needed,
    majority_vote,
    random_subspaces,
    rank_bound,
    representation_terms,
)
from rankattn.plotting.heads import learned_heads
from rankattn.plotting.style import save, use_style
from rankattn.plotting.theory import feature_representation, random_features, single_head
from rankattn.plotting.trained import as_published, context_length, dimension, positional_encoding, rank_depth

__all__ = [
    "as_published",
    "biased_neighbour",
    "context_length",
    "dimension",
    "feature_representation",
    "heads_needed",
    "learned_heads",
    "majority_vote",
    "positional_encoding",
    "random_features",
    "random_subspaces",
    "rank_bound",
    "rank_depth",
    "representation_terms",
    "save",
    "single_head",
    "use_style",
]
