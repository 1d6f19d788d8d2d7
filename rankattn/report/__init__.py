"""One self-contained page: verdicts, figures with published values, cost, settings, errata, provenance."""

from rankattn.report.build import build

__all__ = ["build"]
