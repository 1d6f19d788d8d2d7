"""The targets: farthest point (self-attention form) and nearest neighbour. Free of torch, so that planning is quick.

One example with d = 2 and N = 4 points on the circle::

            x_2                 farthest from x_1 is x_3
             |                  farthest from x_2 is x_4
     x_3 --- + --- x_1          farthest from x_3 is x_1
             |                  farthest from x_4 is x_2
            x_4

    input  = (x_1, x_2, x_3, x_4)
    target = (x_3, x_4, x_1, x_2)        error of predicting zero: exactly 1

For unit vectors the farthest point has the smallest inner product and the
nearest neighbour of a query the largest. Ties go to the lowest index.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def farthest_index(points: "Tensor") -> "Tensor":
    """argmin_i <x_i, x_j> for every point j: (..., N, d) to (..., N) (paper, section 6)."""
    return (points @ points.mT).argmin(dim=-1)


def nearest_index(points: "Tensor", queries: "Tensor") -> "Tensor":
    """argmax_i <x_i, y_j>: points (..., N, d), queries (..., M, d) to (..., M) (paper, eq. 1)."""
    return (queries @ points.mT).argmax(dim=-1)


# The targets that can be trained, by their name in the config: points (..., N, d)
# to the index (..., N) of the point that each position has to output.
TARGETS: dict[str, "Callable[[Tensor], Tensor]"] = {"farthest": farthest_index}
