"""Numbers of a policy's configuration that cannot be meant, as a checkpoint from elsewhere may have them."""

from __future__ import annotations

import dataclasses

import pytest

from ptr_robot.errors import ConfigError
from ptr_robot.policy.vla.config import AutoregressiveConfig, DiffusionConfig, FlowConfig

from ..conftest import small_config


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (FlowConfig, "num_sampling_steps", 0),
        (FlowConfig, "num_sampling_steps", -1),
        (FlowConfig, "num_sampling_steps", 10**9),
        (FlowConfig, "beta_alpha", -1.0),
        (FlowConfig, "beta_alpha", float("nan")),
        (FlowConfig, "noise_limit", 0.0),
        (FlowConfig, "noise_limit", 1.5),
        (FlowConfig, "num_time_buckets", -1),
        (FlowConfig, "initial_noise", float("inf")),
        (DiffusionConfig, "num_train_steps", 0),
        (DiffusionConfig, "num_sampling_steps", 101),
        (AutoregressiveConfig, "num_bins", 1),
        (AutoregressiveConfig, "bin_limit", -3.0),
        (AutoregressiveConfig, "temperature", -0.5),
    ],
)
def test_numbers_without_a_meaning_are_refused_by_name(kind, field, value):
    with pytest.raises(ConfigError, match=f"{field} is .*it must be from"):
        kind(**{field: value})


def test_there_are_no_belief_tokens_below_none():
    with pytest.raises(ConfigError, match="num_belief_tokens is -1"):
        dataclasses.replace(small_config(), num_belief_tokens=-1)
