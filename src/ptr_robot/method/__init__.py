"""Posterior-Transition Reweighting in plain PyTorch."""
