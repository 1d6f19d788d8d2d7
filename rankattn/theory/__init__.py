"""Theory of the paper: closed forms, bounds, constructions and their checks, without training."""
