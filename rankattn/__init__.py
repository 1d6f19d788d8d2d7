"""Reproduction of *On the Benefits of Rank in Attention Layers* (arXiv 2407.16153)."""

__version__ = "0.1.0"
