"""Meta-World: environment, scripted operators and their faults."""
