"""Decoded frames and tables on disk, made once."""
