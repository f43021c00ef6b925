"""Registers the policy types ``ptr_*`` with LeRobot, which imports this package by its name."""

from ptr_robot.lerobot import configuration_ptr as configuration_ptr
from ptr_robot.lerobot import configuration_ptr_pi as configuration_ptr_pi
