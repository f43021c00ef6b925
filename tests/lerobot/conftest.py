from __future__ import annotations

import pytest

from tests.train.datasets import record_dataset


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    """Four short episodes with images, in LeRobot's own format."""
    return record_dataset(tmp_path_factory.mktemp("data") / "small", lengths=(14, 12, 15, 13), pixels=48)
