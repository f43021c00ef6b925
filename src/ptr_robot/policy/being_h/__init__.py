"""Being-H0.5, the paper's base policy: read from its published checkpoints, post-trained, written back."""
