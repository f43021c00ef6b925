"""LeRobot datasets in, segments out."""
