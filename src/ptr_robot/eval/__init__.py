"""Rollouts of a saved policy, and their statistics."""
