"""Scores of whole datasets, before any training."""
