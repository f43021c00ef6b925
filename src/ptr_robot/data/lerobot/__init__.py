"""The LeRobot dataset format, v2.1 and v3.0: nothing outside this folder knows the version."""
