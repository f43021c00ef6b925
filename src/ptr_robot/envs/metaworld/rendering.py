"""Small off-screen images of a Meta-World scene, rendered when somebody looks and not before."""

from __future__ import annotations

import atexit
import os
from typing import Any

import numpy as np

from ptr_robot.envs.base import Image
from ptr_robot.envs.offscreen import check_backend
from ptr_robot.errors import MissingExtraError

# Whether Meta-World mounts the camera upside down, so that its picture must be turned by half a circle.
IS_UPSIDE_DOWN = {
    "topview": False,
    "corner": True,
    "corner2": True,
    "corner3": True,
    "behindGripper": False,
    "gripperPOV": False,
}
# LeRobot moves this camera closer to the table; the same place keeps datasets and policies interchangeable.
_LEROBOT_CORNER2_POSITION = (0.75, 0.075, 0.7)


class Camera:
    """One camera of one task's scene; several environments of the same task may share it.

    A renderer holds the meshes and textures of its model (about 65 MB and a second of set-up), and these are the
    same in every environment of a task: what differs is the environment's ``data``, which each picture reads.
    """

    def __init__(self, model: Any, name: str, image_size: int) -> None:
        check_backend()
        import mujoco

        self._name = name
        self._is_upside_down = IS_UPSIDE_DOWN[name]
        self.num_renders = 0
        # Vertices dominate the cost in software; shadows, reflections and multi-sampling would triple it.
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
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._renderer.scene.flags[flag] = 0
        # At interpreter exit the GL library may be gone before the renderer; so it is closed before that.
        atexit.register(self._renderer.close)

    def render(self, data: Any) -> Image:
        """The picture of an environment's current ``data``, upright."""
        self._renderer.update_scene(data, camera=self._name)
        image: Image = self._renderer.render()
        self.num_renders += 1
        return np.ascontiguousarray(image[::-1, ::-1]) if self._is_upside_down else image

    def close(self) -> None:
        """Give back the renderer's memory."""
        atexit.unregister(self._renderer.close)
        self._renderer.close()


def place_camera(model: Any, name: str) -> None:
    """Put the camera where LeRobot's environment has it; takes effect at the next reset."""
    if name == "corner2":
        model.cam(name).pos[:] = _LEROBOT_CORNER2_POSITION


def update_positions(model: Any, data: Any) -> None:
    """Recompute where everything stands, marks and cameras included, without touching the dynamics."""
    import mujoco

    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)
