"""Audit a dataset: score it, look at it, and act on what was found."""
