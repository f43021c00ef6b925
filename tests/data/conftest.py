"""Small real datasets: v2.1 written plainly, v3.0 by LeRobot's converter and by LeRobot's own recorder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from ptr_robot.data.lerobot.compat import convert_v21

from .corruptions.corrupted_sets import corrupted as corrupted  # fixtures of the tests of corruption
from .corruptions.corrupted_sets import source as source
from .v21_writer import write_v21

WRIST = "observation.images.wrist"
RECORDED_LENGTHS = (19, 26)


@pytest.fixture(scope="session")
def v21(tmp_path_factory) -> Path:
    """A sound v2.1 dataset; not to be changed."""
    return write_v21(tmp_path_factory.mktemp("v21") / "cubes")


@pytest.fixture
def own_v21(v21, tmp_path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(v21, tmp_path / "cubes"))


def convert(source: Path, folder: Path) -> Path:
    """A v3.0 copy by LeRobot's own converter."""
    shutil.copytree(source, folder / "owner" / source.name, copy_function=shutil.copyfile)
    convert_v21(folder / "owner" / source.name)
    return folder / "owner" / source.name


@pytest.fixture(scope="session")
def v30(v21, tmp_path_factory) -> Path:
    """The v3.0 copy of ``v21``; not to be changed."""
    return convert(v21, tmp_path_factory.mktemp("v30"))


@pytest.fixture
def own_v30(v30, tmp_path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(v30, tmp_path / "cubes_v30"))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Path:
    """A v3.0 dataset as LeRobot records it, with one camera as video and one as pictures in the table."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = tmp_path_factory.mktemp("recorded") / "arm"
    picture = {"shape": (32, 40, 3), "names": ["height", "width", "channels"]}
    features = {
        "observation.state": {"dtype": "float32", "shape": (13,), "names": None},
        "action": {"dtype": "float32", "shape": (13,), "names": None},
        "observation.images.top": {"dtype": "video", **picture},
        WRIST: {"dtype": "image", **picture},
    }
    dataset = LeRobotDataset.create("owner/arm", fps=5, features=features, root=root, robot_type="fr3")
    generator = np.random.default_rng(5)
    for episode, length in enumerate(RECORDED_LENGTHS):
        for frame in range(length):
            dataset.add_frame(
                {
                    "observation.state": generator.normal(size=13).astype("f4"),
                    "action": generator.normal(size=13).astype("f4"),
                    "observation.images.top": np.full((32, 40, 3), 9 * frame, dtype=np.uint8),
                    WRIST: generator.integers(0, 255, (32, 40, 3)).astype("u1"),
                    "task": ("lift the cube", "turn the knob")[episode],
                }
            )
        dataset.save_episode()
    dataset.finalize()
    return root


@pytest.fixture(scope="session")
def g1() -> Path:
    """The real G1 demonstrations."""
    folder = os.environ.get("PTR_ROBOT_G1_DATASET")
    if not folder:
        pytest.skip("PTR_ROBOT_G1_DATASET is not set: it names the folder of the real G1 demonstrations")
    return Path(folder)
