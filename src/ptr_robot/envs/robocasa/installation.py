"""An import of RoboCasa that says in one line what is missing."""

from __future__ import annotations

import contextlib
import importlib
import io
from types import ModuleType

from ptr_robot.envs.offscreen import choose_backend
from ptr_robot.errors import DataError, MissingExtraError


def import_robocasa(module: str) -> ModuleType:
    """Import a module of RoboCasa; it is no package of PyPI, so the remedy is a clone of its own."""
    choose_backend()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"RoboCasa could not be imported ({error}); install it from a clone of github.com/robocasa/robocasa, "
            "with its assets, in an environment without LIBERO, whose robosuite is older"
        ) from error
    except OSError as error:
        raise DataError(f"RoboCasa could not be imported ({error}); are its assets downloaded?") from error
