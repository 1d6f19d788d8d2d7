"""Sizes of an encoder (paper, section 6). Free of torch, so that planning and tables load quickly."""

from dataclasses import dataclass

POSITIONAL_ENCODINGS = ("none", "additive", "concatenated")


@dataclass(frozen=True)
class Architecture:
    """Sizes of one encoder. ``width`` is the width multiplier w of the paper."""

    dim: int  # d, coordinates of a point
    points: int  # N, context length
    heads: int  # heads of one attention module
    layers: int
    width: int = 1  # w, attention modules side by side, averaged
    feedforward: int = 2048
    positional_encoding: str = "none"
    positional_dim: int = 0  # numbers appended to each point when concatenated
    bias: bool = True

    def __post_init__(self) -> None:
        if self.positional_encoding not in POSITIONAL_ENCODINGS:
            raise ValueError(
                f"positional_encoding = {self.positional_encoding!r}: use one of {', '.join(POSITIONAL_ENCODINGS)}"
            )
        if (self.positional_encoding == "concatenated") != (self.positional_dim > 0):
            raise ValueError(
                f"positional_dim = {self.positional_dim} with positional_encoding = {self.positional_encoding!r}:"
                " give a positive positional_dim exactly when the encoding is concatenated"
            )
        if self.model_dim % self.heads:
            divisors = [h for h in range(1, self.model_dim + 1) if self.model_dim % h == 0]
            raise ValueError(
                f"heads = {self.heads} does not divide the model dimension {self.model_dim}: use one of {divisors}"
            )

    @property
    def model_dim(self) -> int:
        """d plus the concatenated positional numbers."""
        return self.dim + self.positional_dim

    @property
    def rank(self) -> int:
        """r = model_dim / heads, query and key dimension of one head."""
        return self.model_dim // self.heads

    @property
    def total_heads(self) -> int:
        """H = w * heads, all heads of one layer."""
        return self.width * self.heads

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight of one replica, in storage order."""
        m, w, f = self.model_dim, self.width, self.feedforward
        shapes: dict[str, tuple[int, ...]] = {}
        if self.positional_encoding == "additive":
            shapes["positions"] = (self.points, self.dim)
        if self.positional_encoding == "concatenated":
            shapes["positions"] = (self.points, self.positional_dim)
        for layer in range(self.layers):
            # Queries, keys, values of all modules: rows (q|k|v, module, head, rank).
            shapes[f"{layer}.qkv"] = (3 * w * m, m)
            shapes[f"{layer}.out"] = (m, w * m)
            shapes[f"{layer}.norm1"] = (1,)
            shapes[f"{layer}.up"] = (f, m)
            shapes[f"{layer}.down"] = (m, f)
            shapes[f"{layer}.norm2"] = (1,)
            if self.bias:
                shapes[f"{layer}.qkv_bias"] = (3 * w * m, 1)
                shapes[f"{layer}.out_bias"] = (w, m, 1)
                shapes[f"{layer}.up_bias"] = (f, 1)
                shapes[f"{layer}.down_bias"] = (m, 1)
        return shapes
