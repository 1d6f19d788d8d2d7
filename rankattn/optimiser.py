"""Adam on one flat tensor (paper, section 6: betas 0.9 and 0.95)."""

from math import sqrt

import torch
from torch import Tensor


class Adam:
    """Adam of Kingma and Ba with bias correction, as ``torch.optim.Adam``.

    Five operations on flat weights; it also spares every job the second or two
    that importing ``torch.optim`` takes. ``first`` and ``second`` are the running
    means of the gradient and of its square, ``steps`` the updates done.
    """

    def __init__(self, flat: Tensor, betas: tuple[float, float], epsilon: float) -> None:
        self.flat, self.betas, self.epsilon = flat, betas, epsilon
        self.first, self.second, self.steps = torch.zeros_like(flat), torch.zeros_like(flat), 0

    def step(self, grad: Tensor, rate: float) -> None:
        """Update ``flat`` in place with the gradient of the same shape."""
        (beta1, beta2), self.steps = self.betas, self.steps + 1
        self.first.lerp_(grad, 1 - beta1)
        self.second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        size = self.second.sqrt().div_(sqrt(1 - beta2**self.steps)).add_(self.epsilon)
        self.flat.addcdiv_(self.first, size, value=-rate / (1 - beta1**self.steps))
