"""Tests of LIBERO need hf-libero, and most of them its assets; without these they say why they are skipped."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest

from ptr_robot.envs.base import CameraConfig
from ptr_robot.envs.libero.environment import LiberoEnvironment
from ptr_robot.envs.libero.installation import ASSETS_VARIABLE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    is_installed = importlib.util.find_spec("libero") is not None
    for item in items:
        if item.get_closest_marker("libero") is not None and not is_installed:
            item.add_marker(pytest.mark.skip(reason="hf-libero is not installed (make libero)"))
        if item.get_closest_marker("libero_assets") is not None:
            if not is_installed:
                item.add_marker(pytest.mark.skip(reason="hf-libero is not installed (make libero)"))
            elif ASSETS_VARIABLE not in os.environ:
                item.add_marker(pytest.mark.skip(reason=f"{ASSETS_VARIABLE} names no folder of LIBERO's assets"))


@pytest.fixture(scope="session")
def cream_cheese(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiberoEnvironment]:
    """One task for all tests: building a scene takes a second, the first step in a process some more."""
    before = os.environ.get("LIBERO_CONFIG_PATH")
    os.environ["LIBERO_CONFIG_PATH"] = str(tmp_path_factory.mktemp("libero"))
    environment = LiberoEnvironment("libero_object_1", CameraConfig(("image", "image2"), 32))
    yield environment
    environment.close()
    os.environ.pop("LIBERO_CONFIG_PATH")
    if before is not None:
        os.environ["LIBERO_CONFIG_PATH"] = before
