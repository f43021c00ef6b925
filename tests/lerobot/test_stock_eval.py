"""LeRobot's own ``lerobot-eval`` with a policy of the plug-in, in Meta-World."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

from tests.lerobot.small_policies import ACT
from tests.lerobot.stock_commands import read_sources_once

metaworld = pytest.importorskip("metaworld")
STEPS = 8


def test_evaluates_in_metaworld(tmp_path, monkeypatch):
    from lerobot.envs import metaworld as environments
    from lerobot.scripts import lerobot_eval

    options = ACT.sizes | {
        "input_features": {
            "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
            "observation.image": PolicyFeature(FeatureType.VISUAL, (3, 480, 480)),
        },
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (4,))},
        "device": "cpu",
    }
    config = make_policy_config("ptr_act", **options)
    stats = {name: {"mean": torch.zeros(4), "std": torch.ones(4)} for name in ("observation.state", "action")}
    stats["observation.image"] = {"mean": torch.zeros(3, 1, 1), "std": torch.ones(3, 1, 1)}
    folder = tmp_path / "pretrained_model"
    get_policy_class("ptr_act")(config).save_pretrained(folder)
    for processor in make_pre_post_processors(config, dataset_stats=stats):
        processor.save_pretrained(folder)

    original = environments.MetaworldEnv.__init__

    def short(self, *arguments, **keywords):
        original(self, *arguments, **keywords)
        self._max_episode_steps = STEPS

    monkeypatch.setattr(environments.MetaworldEnv, "__init__", short)
    flags = [f"--policy.path={folder}", "--policy.device=cpu", f"--output_dir={tmp_path / 'out'}"]
    flags += ["--env.type=metaworld", "--env.task=reach-v3", "--eval.n_episodes=1", "--eval.batch_size=1"]
    read_sources_once(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["lerobot-eval", *flags])
    lerobot_eval.main()
    results = json.loads((tmp_path / "out" / "eval_info.json").read_text())
    assert results["overall"]["n_episodes"] == 1
