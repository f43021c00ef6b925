"""Experiments that compare methods on the same data, seeds and compute."""
