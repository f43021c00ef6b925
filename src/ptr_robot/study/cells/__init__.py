"""One method trained on one setting's data with one seed."""
