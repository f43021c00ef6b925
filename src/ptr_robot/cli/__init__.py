"""The ``ptr`` command: one file a verb, parsing only."""
