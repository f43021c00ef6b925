"""Channels: what can be measured on an episode that a fault changes, one file each."""
