"""From datasets to batches of segments: cutting, sampling, loading."""
