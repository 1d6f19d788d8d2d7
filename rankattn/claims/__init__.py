"""The paper's claims as measurements: a statistic, a threshold, an interval, a verdict."""
