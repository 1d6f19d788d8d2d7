"""A job's log: what it prints, its warnings, and the error that ended it."""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path


@contextmanager
def logged(path: str | Path) -> Iterator[None]:
    """Send output and log messages of the block to ``path``, line by line.

    An error is written to the log in full and to the terminal as one line, and ends the process with status 1.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    terminal = sys.stderr
    with open(path, "w", buffering=1, encoding="utf-8") as file:
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=file, force=True)
        try:
            with redirect_stdout(file), redirect_stderr(file):
                yield
        except Exception as error:
            traceback.print_exc(file=file)
            print(f"error: {error} (log: {path})", file=terminal, flush=True)
            raise SystemExit(1) from None
