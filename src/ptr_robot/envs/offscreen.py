"""MuJoCo's off-screen rendering: which library draws where there is no display, and what is missing where none does."""

from __future__ import annotations

import ctypes.util
import os
import platform
import sys

from ptr_robot.errors import ConfigError, MissingExtraError

_VARIABLE = "MUJOCO_GL"
# The backends that need no display, the one that is chosen first: the library of each, and the packages that bring it.
_LIBRARIES = {"egl": ("EGL", "libegl1 libegl-mesa0 libgl1-mesa-dri"), "osmesa": ("OSMesa", "libosmesa6")}
_WITH_DISPLAY = ("glfw", "glx", "enable", "enabled", "on", "true", "1")
_WITHOUT_IMAGES = ("disable", "disabled", "off", "false", "0")


def choose_backend() -> None:
    """Point MuJoCo at a renderer that needs no display, unless the user chose one; call before importing mujoco.

    What the user chose is checked, whether images are wanted or not: without that backend MuJoCo cannot be imported.
    """
    if platform.system() != "Linux" or "mujoco" in sys.modules:
        return
    chosen = os.environ.get(_VARIABLE, "")
    if chosen.strip():
        _check_chosen(chosen, chosen.lower().strip())  # MuJoCo reads it so
        return
    installed = _installed_backends()
    if installed:
        os.environ[_VARIABLE] = installed[0]


def _check_chosen(written: str, backend: str) -> None:
    """Refuse a backend that MuJoCo does not know, or whose library is missing."""
    if backend not in (*_LIBRARIES, *_WITH_DISPLAY, *_WITHOUT_IMAGES):
        raise ConfigError(
            f"{_VARIABLE}={written} is no backend of MuJoCo; set {_VARIABLE}=egl or osmesa, glfw where there is a "
            "display, disable where no images are needed, or unset it"
        )
    installed = _installed_backends()
    if backend in _LIBRARIES and backend not in installed:
        library, packages = _LIBRARIES[backend]
        # robosuite, which LIBERO runs on, imports one of the two libraries whatever is set.
        instead = installed[0] if installed else "disable (Meta-World without images)"
        raise MissingExtraError(
            f"{_VARIABLE}={written} needs lib{library}, which is not installed; set {_VARIABLE}={instead}, "
            f"or install it with: sudo apt-get install {packages}"
        )


def _installed_backends() -> list[str]:
    return [backend for backend, (library, _) in _LIBRARIES.items() if ctypes.util.find_library(library) is not None]


def check_backend() -> None:
    """Raise an error that names the system package where no off-screen renderer is installed."""
    if platform.system() != "Linux":
        return
    backend = os.environ.get(_VARIABLE, "")
    library, packages = _LIBRARIES.get(backend.lower().strip() or "egl", (None, None))
    if library is not None and ctypes.util.find_library(library) is None:
        raise MissingExtraError(
            f"images need lib{library}, which is not installed ({_VARIABLE}={backend!r}); "
            f"install it with: sudo apt-get install {packages}, or work without images (--images=false)"
        )
