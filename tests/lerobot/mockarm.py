"""A robot without hardware, registered as a plug-in's robots are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from lerobot.robots.config import RobotConfig
from lerobot.robots.robot import Robot

JOINTS = ("shoulder.pos", "elbow.pos", "wrist.pos")
PIXELS = 64


@RobotConfig.register_subclass("mock_arm")
@dataclass
class MockArmConfig(RobotConfig):
    """Has no settings; LeRobot finds ``MockArm`` by the names of this class and of its module."""


class MockArm(Robot):
    """Three joints that go where they are told at once, and a camera that sees noise."""

    config_class = MockArmConfig
    name = "mock_arm"
    sent: list[dict[str, Any]] = []  # noqa: RUF012  (of all arms: LeRobot makes them itself)

    def __init__(self, config: MockArmConfig) -> None:
        super().__init__(config)
        self.cameras: dict[str, Any] = {}
        self._is_connected = False
        self._positions = dict.fromkeys(JOINTS, 0.0)

    @property
    def observation_features(self) -> dict[str, Any]:
        return {**dict.fromkeys(JOINTS, float), "front": (PIXELS, PIXELS, 3)}

    @property
    def action_features(self) -> dict[str, Any]:
        return dict.fromkeys(JOINTS, float)

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    def connect(self, calibrate: bool = True) -> None:
        self._is_connected = True

    @property
    def is_calibrated(self) -> bool:
        return True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_observation(self) -> dict[str, Any]:
        picture = np.random.default_rng(len(self.sent)).integers(0, 256, (PIXELS, PIXELS, 3), dtype=np.uint8)
        return {**self._positions, "front": picture}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        self._positions = {joint: float(action[joint]) for joint in JOINTS}
        self.sent.append(self._positions)
        return action

    def disconnect(self) -> None:
        self._is_connected = False
