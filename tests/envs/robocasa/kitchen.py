"""A stand-in for RoboCasa, whose assets could not be had: the names, shapes and calls that it publishes, no physics."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

STATE = {
    "state.gripper_qpos": np.array([0.02, -0.03]),
    "state.base_position": np.array([1.0, 2.0, 3.0]),
    "state.base_rotation": np.array([0.0, 0.0, 0.6, 0.8]),
    "state.end_effector_position_relative": np.array([0.1, 0.2, 0.3]),
    "state.end_effector_rotation_relative": np.array([1.0, 0.0, 0.0, 0.0]),
}


class StandInKitchen:
    """``RoboCasaGymEnv``: observations by part; done when the gripper has closed once."""

    def __init__(self, env_name: str, camera_widths: int, camera_heights: int, split: str, **kwargs: Any) -> None:
        if env_name == "OpenCabinet":
            raise FileNotFoundError("objects/lightwheel: no such folder")
        sys.stdout.write(f"Creating {env_name}\n")
        self.made = {"env_name": env_name, "split": split, **kwargs}
        self.shape = (camera_heights, camera_widths, 3)
        self.actions: list[dict[str, Any]] = []
        self.env = SimpleNamespace(get_ep_meta=lambda: {"lang": f"close it, said seed {self.seed}"})

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        self.seed = seed
        return self._observation(), {"success": False}

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        is_closed = bool(action["action.gripper_close"] >= 0.5)
        return self._observation(), float(is_closed), False, False, {"success": is_closed}

    def close(self) -> None:
        self.is_closed = True

    def _observation(self) -> dict[str, Any]:
        cameras = ("robot0_agentview_left", "robot0_agentview_right", "robot0_eye_in_hand")
        views = {f"video.{name}": np.full(self.shape, number, np.uint8) for number, name in enumerate(cameras)}
        return {**STATE, **views}


def stand_in_modules() -> dict[str, ModuleType]:
    """The modules that the adapter imports, by name."""
    registry = ModuleType("robocasa.utils.dataset_registry")
    vars(registry).update(
        ATOMIC_TASK_DATASETS={"CloseFridge": {"horizon": 600}, "OpenCabinet": {"horizon": 700}},
        COMPOSITE_TASK_DATASETS={"ArrangeTea": {"horizon": 1500}},
        TARGET_TASKS={"atomic_seen": ["CloseFridge", "OpenCabinet"], "composite_unseen": ["ArrangeTea"]},
        PRETRAINING_TASKS={"pretrain50": ["CloseFridge"]},
    )
    wrapper = ModuleType("robocasa.wrappers.gym_wrapper")
    vars(wrapper)["RoboCasaGymEnv"] = StandInKitchen
    packages = {name: ModuleType(name) for name in ("robocasa", "robocasa.utils", "robocasa.wrappers")}
    return {**packages, registry.__name__: registry, wrapper.__name__: wrapper}
