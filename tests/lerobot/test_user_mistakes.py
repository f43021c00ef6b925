"""What a user may get wrong is a line that says so."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from lerobot.policies.factory import get_policy_class, make_policy_config

from ptr_robot.errors import ConfigError, DataError, ShapeError
from ptr_robot.lerobot.settings import PTRSettings
from ptr_robot.method import BeliefConfig, ScorerConfig
from tests.lerobot.small_policies import (
    ACT,
    CAMERA,
    DIFFUSION,
    SMOLVLA,
    STATE,
    features,
    make_batch,
    make_config,
    make_pair,
    settings,
)


def meta(lengths=(20, 30), fps=10):
    """As much of LeRobot's metadata as is looked at."""
    ends = torch.tensor(lengths).cumsum(0).tolist()
    starts = [end - length for end, length in zip(ends, lengths, strict=True)]
    episodes = {"dataset_from_index": starts, "dataset_to_index": ends}
    return SimpleNamespace(fps=fps, total_frames=sum(lengths), episodes=episodes)


def build(dataset_meta=None, **changes):
    return get_policy_class("ptr_act")(make_config(ACT, **changes), dataset_meta=dataset_meta)


def test_a_consequence_beyond_every_episode():
    with pytest.raises(ConfigError, match=r"offset_steps is 40 \(4.0 s at 10 fps\).*longest episode has 30 frames"):
        build(meta(), offset_steps=40)


def test_a_consequence_too_soon_or_too_late_for_the_frame_rate_is_said(caplog):
    with caplog.at_level(logging.WARNING):
        build(meta(fps=200), offset_steps=2)
        build(meta(lengths=(20, 20)), offset_steps=15)
    assert "0.01 s at 200 fps" in caplog.text
    assert "only 25% of the frames have a consequence" in caplog.text


def test_a_dataset_without_images():
    from lerobot.configs.types import FeatureType, PolicyFeature

    inputs = {
        STATE: features()["input_features"][STATE],
        "observation.environment_state": PolicyFeature(FeatureType.ENV, (3,)),
    }
    options = ACT.sizes | features() | {"input_features": inputs, "device": "cpu"}
    with pytest.raises(ConfigError, match=r"the dataset has no images.*--policy.type=act"):
        get_policy_class("ptr_act")(make_policy_config("ptr_act", **options))


def test_a_camera_that_is_missing():
    policy, _ = make_pair(ACT)
    batch = make_batch(ACT, policy.config)
    del batch[CAMERA]
    with pytest.raises(DataError, match=r"no 'observation.images.top'.*observation.images.side"):
        policy(batch)


def test_a_batch_without_the_future():
    policy, _ = make_pair(ACT)
    batch = make_batch(ACT, policy.config)
    with pytest.raises(ShapeError, match="needs 2 frames of each sample"):
        policy(batch | {CAMERA: batch[CAMERA][:, 0]})


def test_a_batch_that_does_not_say_where_episodes_end():
    policy, _ = make_pair(ACT)
    batch = make_batch(ACT, policy.config)
    with pytest.raises(ConfigError, match="past the end of their episode"):
        policy({key: value for key, value in batch.items() if not key.endswith("_is_pad") or "action" in key})


def test_a_frozen_tower_is_said_once(caplog):
    policy, _ = make_pair(SMOLVLA)
    with caplog.at_level(logging.WARNING):
        for seed in range(2):
            policy(make_batch(SMOLVLA, policy.config, seed=seed))
    assert caplog.text.count("the vision tower is frozen") == 1


def test_weights_of_another_dataset(tmp_path):
    file = tmp_path / "ptr_frames.parquet"
    pd.DataFrame({"index": range(70), "weight": [1.0] * 70}).to_parquet(file)
    with pytest.raises(DataError, match="dataset has 50 frames; it is the file of another dataset"):
        build(meta(), prior_weights=str(file))


def test_prior_weights_are_factors_of_the_weights(tmp_path):
    file = tmp_path / "ptr_frames.parquet"
    pd.DataFrame({"index": range(50), "weight": [0.5] * 10 + [2.0] * 40}).to_parquet(file)
    policy = build(meta(), prior_weights=str(file)).train()
    seen = []
    policy.ptr.method.register_forward_hook(lambda _module, _inputs, output: seen.append(output.weights))
    torch.manual_seed(0)
    policy(make_batch(ACT, policy.config, padded=False))  # frames 0, 10, 20, 30
    plain = build(meta()).train()
    plain.ptr.method.register_forward_hook(lambda _module, _inputs, output: seen.append(output.weights))
    plain.load_state_dict(policy.state_dict())
    torch.manual_seed(0)
    plain(make_batch(ACT, policy.config, padded=False))
    ratios = seen[0] / seen[1]
    assert ratios.tolist() == pytest.approx([0.5, 2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offset_steps": 0}, "offset_steps is 0"),
        ({"num_chunks": 1, "belief": BeliefConfig()}, "num_chunks is 1 with belief tokens on"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"fallback_weight": -1.0}, "fallback_weight is -1.0"),
    ],
)
def test_settings_out_of_range(changes, message):
    with pytest.raises(ConfigError, match=message):
        PTRSettings(**changes)


def test_several_chunks_of_a_policy_with_a_history():
    with pytest.raises(ConfigError, match="several chunks need n_obs_steps=1"):
        get_policy_class("ptr_diffusion")(make_config(DIFFUSION, num_chunks=2))


def test_lerobots_own_weighting_is_refused():
    policy, _ = make_pair(ACT)
    with pytest.raises(ConfigError, match="prior_weights=FILE"):
        policy(make_batch(ACT, policy.config), reduction="none")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim_feedforward": 24}, "has other sizes than these settings .*linear.* give those of the checkpoint's"),
        ({"ptr": settings(ACT, scorer=ScorerConfig(hidden_dim=8))}, "its PTR has other sizes"),
    ],
    ids=["the base policy", "PTR"],
)
def test_a_checkpoint_of_other_sizes(changes, message, tmp_path):
    policy, _ = make_pair(ACT)
    policy.save_pretrained(tmp_path)
    for name, value in changes.items():
        setattr(policy.config, name, value)
    with pytest.raises(ConfigError, match=message):
        get_policy_class("ptr_act").from_pretrained(tmp_path, config=policy.config)
