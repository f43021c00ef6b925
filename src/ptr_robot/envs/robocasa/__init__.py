"""RoboCasa's kitchens behind the environment interface, by the gym wrapper that RoboCasa publishes."""
