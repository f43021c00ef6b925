"""MuJoCo's off-screen rendering: which library draws where there is no display, and what is missing where none does."""

from __future__ import annotations

import ctypes.util
import os
import platform
import sys

from ptr_robot.errors import MissingExtraError


def choose_backend() -> None:
    """Point MuJoCo at a renderer that needs no display, unless the user chose one; call before importing mujoco."""
    if platform.system() != "Linux" or os.environ.get("MUJOCO_GL") or "mujoco" in sys.modules:
        return
    if ctypes.util.find_library("EGL") is None and ctypes.util.find_library("OSMesa") is not None:
        os.environ["MUJOCO_GL"] = "osmesa"
    elif ctypes.util.find_library("EGL") is not None:
        os.environ["MUJOCO_GL"] = "egl"


def check_backend() -> None:
    """Raise an error that names the system package where no off-screen renderer is installed."""
    if platform.system() != "Linux":
        return
    backend = os.environ.get("MUJOCO_GL", "")
    library, packages = {
        "osmesa": ("OSMesa", "libosmesa6"),
        "": ("EGL", "libegl1 libegl-mesa0 libgl1-mesa-dri"),
        "egl": ("EGL", "libegl1 libegl-mesa0 libgl1-mesa-dri"),
    }.get(backend, (None, None))
    if library is not None and ctypes.util.find_library(library) is None:
        raise MissingExtraError(
            f"images need lib{library}, which is not installed (MUJOCO_GL={backend!r}); "
            f"install it with: sudo apt-get install {packages}, or work without images (--images=false)"
        )
