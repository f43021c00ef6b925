"""Simulated environments behind one interface, and recording in them."""
