"""Theory of rank-1 hardmax heads with two points: closed forms, curves and checks."""
