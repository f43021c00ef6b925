"""LIBERO: its four suites by the official protocol, scripted operators and their faults."""
