"""Simulated environments, scripted operators and rollouts."""
