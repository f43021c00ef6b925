"""The paper: Posterior-Transition Reweighting."""
