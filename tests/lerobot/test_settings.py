"""What is counted in steps follows the run's length where the user says it."""

from __future__ import annotations

import pytest

from ptr_robot.errors import ConfigError
from ptr_robot.lerobot.settings import PTRSettings
from ptr_robot.method import in_proportion
from tests.lerobot.small_policies import ACT, make_pair


def test_run_steps_keep_the_papers_proportions():
    settings = PTRSettings(run_steps=600)
    assert settings.in_this_run == in_proportion(settings, 600)
    assert settings.in_this_run.weights.warmup_steps == 30
    assert PTRSettings().in_this_run == PTRSettings()


def test_the_policys_method_has_them():
    policy, _ = make_pair(ACT, run_steps=600)
    config = policy.ptr.method.config
    assert (config.weights.warmup_steps, config.controller.interval_steps) == (
        round(policy.config.ptr.weights.warmup_steps / 100),
        1,
    )


def test_a_run_without_steps_is_refused():
    with pytest.raises(ConfigError, match=r"policy\.ptr\.run_steps is 0; it must be at least 1"):
        PTRSettings(run_steps=0)
