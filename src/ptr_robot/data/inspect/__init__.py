"""What is in a dataset, and what is odd about it."""
