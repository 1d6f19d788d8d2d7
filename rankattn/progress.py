"""One line every few seconds about a training job: which, how far, current error, time left."""

import sys
import time
from typing import TextIO

from rankattn.training import State


def duration(seconds: float) -> str:
    """Seconds in words: ``8 s``, ``3 min 5 s``, ``2 h 10 min``."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


class Reporter:
    """Callback of :func:`rankattn.training.train` that writes to ``streams``."""

    def __init__(self, name: str, interval: float = 10.0, streams: tuple[TextIO, ...] = (sys.stderr,)) -> None:
        self.name, self.interval, self.streams = name, interval, streams
        self.start: tuple[float, int] | None = None  # time and epoch of the first call
        self.last = time.monotonic()

    def __call__(self, state: State, epochs: int) -> None:
        now = time.monotonic()
        self.start = self.start or (now, state.epoch)
        if now - self.last < self.interval and state.epoch < epochs:
            return
        self.last = now
        seeds = len({row["seed"] for row in state.history})
        errors = [row["training_error"] for row in state.history[-seeds:]]
        text = f"{self.name}: epoch {state.epoch}/{epochs}, error {min(errors):.4f} to {max(errors):.4f}"
        done = state.epoch - self.start[1]
        if done and state.epoch < epochs:
            text += f", {duration((now - self.start[0]) / done * (epochs - state.epoch))} left"
        self.say(text)

    def say(self, text: str) -> None:
        """Write one line to every stream."""
        for stream in self.streams:
            print(text, file=stream, flush=True)
