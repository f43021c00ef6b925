"""Jobs on all cores, done once."""
