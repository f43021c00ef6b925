"""From records of cells to numbers."""
