"""How fast a training step is, beside a literal implementation driven in the usual way (``make bench``)."""
