"""LIBERO's two cameras, rendered when somebody looks and not before."""

from __future__ import annotations

import atexit
import os
from typing import Any

import numpy as np

from ptr_robot.envs.base import Image
from ptr_robot.envs.offscreen import check_backend
from ptr_robot.errors import ConfigError, MissingExtraError, did_you_mean

# LeRobot's names for LIBERO's views, and the simulator's.
CAMERAS = {"image": "agentview", "image2": "robot0_eye_in_hand"}
_COLLISION_GROUP = 0


class LiberoCameras:
    """A renderer of one simulated scene. It lives as long as its environment: one at a time in a process.

    Full light (shadows, reflections, multisampling) is what LIBERO ships and LeRobot renders. Without it a picture
    costs about a quarter on a processor; objects throw no shadows, and edges are not smoothed. A policy should be
    evaluated with the setting that its data was recorded with.
    """

    def __init__(self, model: Any, image_size: int, full_light: bool) -> None:
        check_backend()
        import mujoco

        if not full_light:
            model.vis.quality.shadowsize = 0
            model.vis.quality.offsamples = 0
        model.vis.global_.offwidth = model.vis.global_.offheight = image_size
        try:
            self._renderer = mujoco.Renderer(model, image_size, image_size)
        except Exception as error:  # each GL binding raises its own kinds
            raise MissingExtraError(
                f"MuJoCo could not open an off-screen renderer (MUJOCO_GL={os.environ.get('MUJOCO_GL', '')!r}: "
                f"{type(error).__name__}); install Mesa with: sudo apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri"
            ) from error
        if not full_light:
            for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
                self._renderer.scene.flags[flag] = 0
        self._options = mujoco.MjvOption()
        self._options.geomgroup[_COLLISION_GROUP] = 0
        # At interpreter exit the GL library may be gone before the renderer; so it is closed before that.
        atexit.register(self._renderer.close)

    def render(self, data: Any, view: str) -> Image:
        """One view of the scene as ``data`` has it, mirrored as LIBERO's pictures are.

        LIBERO hands out pictures bottom row first, and the field turns them by half a circle: what comes of it is
        upright and mirrored.
        """
        if view not in CAMERAS:
            raise ConfigError(f"LIBERO has no view {view!r}; {did_you_mean(view, CAMERAS)}")
        self._renderer.update_scene(data, camera=CAMERAS[view], scene_option=self._options)
        image: Image = np.ascontiguousarray(self._renderer.render()[:, ::-1])
        return image

    def close(self) -> None:
        """Give back the renderer's memory."""
        atexit.unregister(self._renderer.close)
        self._renderer.close()
