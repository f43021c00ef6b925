"""Settings that are refused when a run opens its loggers."""

from __future__ import annotations

import pytest

from ptr_robot.errors import ConfigError
from ptr_robot.train.config import WandbConfig
from ptr_robot.train.records import RunRecords


def test_a_mode_that_weights_and_biases_does_not_have(settings, tmp_path):
    config = settings(wandb=WandbConfig(enable=True, mode="foo"))
    with pytest.raises(
        ConfigError, match=r"wandb\.mode is 'foo'; it must be one of: online, offline, disabled"
    ) as caught:
        RunRecords(tmp_path, config, 0)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
