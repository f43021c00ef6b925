"""Scores of whole datasets, before any training: `screen` and the steps that it is made of."""
