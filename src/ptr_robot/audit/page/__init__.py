"""The report on a dataset: one HTML file that needs nothing beside it."""
