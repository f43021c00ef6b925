"""LeRobot's own command for a policy on a robot: ``lerobot-rollout`` (0.6) or ``lerobot-record`` (0.4)."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

from ptr_robot.data.lerobot.compat import is_lerobot06
from ptr_robot.scheduling import kept_scheduling
from tests.lerobot.mockarm import JOINTS, PIXELS, MockArm
from tests.lerobot.small_policies import ACT, VLA, Kind
from tests.lerobot.stock_commands import read_sources_once

CAMERA = "observation.images.front"


def save_policy(kind: Kind, folder: Path) -> None:
    size = (len(JOINTS),)
    options = kind.sizes | {
        "input_features": {
            "observation.state": PolicyFeature(FeatureType.STATE, size),
            CAMERA: PolicyFeature(FeatureType.VISUAL, (3, PIXELS, PIXELS)),
        },
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, size)},
        "device": "cpu",
    }
    config = make_policy_config(kind.type, **options)
    stats = {name: {"mean": torch.zeros(size), "std": torch.ones(size)} for name in ("observation.state", "action")}
    stats[CAMERA] = {"mean": torch.zeros(3, 1, 1), "std": torch.ones(3, 1, 1)}
    get_policy_class(kind.type)(config).save_pretrained(folder)
    for processor in make_pre_post_processors(config, dataset_stats=stats):
        processor.save_pretrained(folder)


def command(folder: Path, policy: Path):
    """The script, and its flags for a second at ten frames a second."""
    flags = [f"--policy.path={policy}", "--policy.device=cpu", "--robot.type=mock_arm", "--play_sounds=false"]
    if is_lerobot06():
        from lerobot.scripts import lerobot_rollout

        flags += ["--duration=1", "--fps=10", "--device=cpu", "--return_to_initial_position=false", "--task=push"]
        return lerobot_rollout, flags
    from lerobot.scripts import lerobot_record

    flags += ["--dataset.repo_id=owner/eval_arm", f"--dataset.root={folder / 'recorded'}", "--dataset.fps=10"]
    flags += ["--dataset.single_task=push", "--dataset.num_episodes=1", "--dataset.episode_time_s=1"]
    flags += ["--dataset.reset_time_s=0", "--dataset.push_to_hub=false"]
    return lerobot_record, flags


@pytest.mark.parametrize("kind", [ACT, VLA], ids=["act", "vla"])
def test_a_policy_moves_the_robot(kind, tmp_path, monkeypatch):
    save_policy(kind, tmp_path / "policy")
    script, flags = command(tmp_path, tmp_path / "policy")
    monkeypatch.setattr(MockArm, "sent", [])
    monkeypatch.setenv("DISPLAY", "")
    monkeypatch.setattr(sys, "argv", ["lerobot", *flags])
    read_sources_once(monkeypatch)
    with kept_scheduling():  # lerobot-record encodes what the camera saw
        script.main()
    assert len(MockArm.sent) > 1
    assert len({tuple(action.values()) for action in MockArm.sent}) > 1
    assert all(math.isfinite(value) for action in MockArm.sent for value in action.values())
