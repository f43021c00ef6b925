"""What draws where there is no display: chosen before MuJoCo is imported, and refused in one line if it cannot draw."""

from __future__ import annotations

import ctypes.util
import os
import sys

import pytest

from ptr_robot.envs import offscreen
from ptr_robot.errors import ConfigError, MissingExtraError, PTRError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="backends are chosen on Linux alone")


@pytest.fixture
def choose(monkeypatch):
    """Chooses where MuJoCo is not imported yet and these libraries are installed; returns what is set then."""

    def choose(value: str | None, *libraries: str) -> str | None:
        monkeypatch.delitem(sys.modules, "mujoco", raising=False)
        monkeypatch.setattr(ctypes.util, "find_library", lambda name: name if name in libraries else None)
        monkeypatch.setenv("MUJOCO_GL", value or "")
        offscreen.choose_backend()
        return os.environ["MUJOCO_GL"]

    return choose


@pytest.mark.parametrize(
    ("value", "libraries", "then"),
    [
        (None, ("EGL", "OSMesa"), "egl"),
        (None, ("OSMesa",), "osmesa"),
        (None, (), ""),
        ("osmesa", ("EGL", "OSMesa"), "osmesa"),
        ("EGL", ("EGL",), "EGL"),  # MuJoCo reads it whatever the case
        ("glfw", (), "glfw"),
        ("disable", (), "disable"),
    ],
)
def test_what_the_user_chose_stays_and_what_needs_no_display_is_chosen_otherwise(choose, value, libraries, then):
    assert choose(value, *libraries) == then


@pytest.mark.parametrize(
    ("value", "libraries", "kind", "words"),
    [
        ("foo", ("EGL",), ConfigError, "MUJOCO_GL=foo is no backend of MuJoCo; set MUJOCO_GL=egl"),
        ("osmesa", ("EGL",), MissingExtraError, "MUJOCO_GL=osmesa needs libOSMesa.*set MUJOCO_GL=egl, or .*libosmesa6"),
        ("egl", ("OSMesa",), MissingExtraError, "MUJOCO_GL=egl needs libEGL.*set MUJOCO_GL=osmesa, or .*libegl1"),
        ("egl", (), MissingExtraError, "MUJOCO_GL=egl needs libEGL.*set MUJOCO_GL=disable .*, or .*libegl1"),
    ],
)
def test_a_backend_that_cannot_draw_is_one_line_before_mujoco_is_imported(choose, value, libraries, kind, words):
    with pytest.raises(kind, match=words) as caught:
        choose(value, *libraries)
    assert isinstance(caught.value, PTRError)
    assert "\n" not in str(caught.value)
