"""PTR inside LeRobot's own policies: what the plug-in ``lerobot_policy_ptr`` registers."""
