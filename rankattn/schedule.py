"""Learning rate of the paper: one value per epoch, linear warm-up, then cosine (spec: section 4)."""

from math import cos, pi


def learning_rate(epoch: int, epochs: int, peak: float, warmup: float = 0.05, final: float = 0.0) -> float:
    """Rate of one epoch (0-based).

    Rises linearly from exactly 0 in the first epoch to ``peak`` after the share
    ``warmup`` of all epochs, then follows a cosine down to ``final * peak`` in the last
    epoch. (The authors meant final = 0.1; what ran was 0.) A run too short to
    warm up (fewer than ``1 / warmup`` epochs) starts at the peak.
    """
    rising = int(warmup * epochs)
    if epoch < rising:
        return peak * epoch / rising
    falling = epochs - 1 - rising
    progress = (epoch - rising) / falling if falling > 0 else 0.0
    return peak * (final + (1 - final) * (1 + cos(pi * progress)) / 2)
