"""The plain base policy out of a PTR policy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from ptr_robot.errors import ConfigError, DataError
from ptr_robot.lerobot.export import export_base_policy
from tests.lerobot.small_policies import ACT, BELIEVING_SMOLVLA, DIFFUSION, PIXELS, SMOLVLA, STATE_DIM, VLA, make_pair

WITHOUT_US = """
import sys
sys.modules["ptr_robot"] = sys.modules["lerobot_policy_ptr"] = None  # importing either fails
import torch, torchvision
torchvision.models.resnet10 = lambda weights=None, **options: torchvision.models.ResNet(
    torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], **options)
from lerobot.policies.act.modeling_act import ACTPolicy
policy = ACTPolicy.from_pretrained(sys.argv[1])
torch.save(policy.select_action(torch.load(sys.argv[2])), sys.argv[3])
"""


def observation() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    images = torch.rand(2, 1, 3, PIXELS, PIXELS, generator=generator)
    return {
        "observation.state": torch.randn(1, STATE_DIM, generator=generator),
        "observation.images.top": images[0],
        "observation.images.side": images[1],
        "observation.language.tokens": torch.full((1, 2), 9),
        "observation.language.attention_mask": torch.ones(1, 2, dtype=torch.bool),
    }


@pytest.mark.parametrize("kind", [ACT, DIFFUSION, SMOLVLA], ids=["act", "diffusion", "smolvla"])
def test_the_exported_policy_is_the_base_type_with_equal_actions(kind, tmp_path):
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class

    policy, _ = make_pair(kind)
    policy.save_pretrained(tmp_path / "run" / "pretrained_model")
    folder, base = export_base_policy(tmp_path / "run", tmp_path / "plain")
    assert base == kind.base
    assert "ptr" not in json.loads((folder / "config.json").read_text())
    assert not [name for name in load_file(folder / "model.safetensors") if name.startswith("ptr.")]
    config = PreTrainedConfig.from_pretrained(folder)
    assert config.type == kind.base
    plain = get_policy_class(kind.base).from_pretrained(folder, config=config, strict=True)
    torch.manual_seed(1)
    expected = policy.eval().select_action(observation())
    torch.manual_seed(1)
    torch.testing.assert_close(plain.select_action(observation()), expected, rtol=0, atol=0)


def test_it_loads_where_this_package_is_not(tmp_path):
    policy, _ = make_pair(ACT)
    policy.save_pretrained(tmp_path / "run")
    export_base_policy(tmp_path / "run", tmp_path / "plain")
    torch.save(observation(), tmp_path / "seen.pt")
    command = [sys.executable, "-c", WITHOUT_US, tmp_path / "plain", tmp_path / "seen.pt", tmp_path / "action.pt"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    expected = policy.eval().select_action(observation())
    # Another process may have other threads, which add in another order.
    torch.testing.assert_close(torch.load(tmp_path / "action.pt"), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "message"),
    [(BELIEVING_SMOLVLA, "trained with belief tokens"), (VLA, "no base to export")],
    ids=["belief", "vla"],
)
def test_what_has_no_plain_form_is_refused(kind, message, tmp_path):
    policy, _ = make_pair(kind)
    policy.config._save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=message):
        export_base_policy(tmp_path, tmp_path / "plain")
    assert not (tmp_path / "plain").exists()


def test_a_folder_without_a_policy_and_one_that_is_taken(tmp_path):
    with pytest.raises(DataError, match="holds no LeRobot policy"):
        export_base_policy(tmp_path, tmp_path / "plain")
    (tmp_path / "config.json").write_text('{"type": "act"}')
    with pytest.raises(ConfigError, match="nothing of PTR to leave out"):
        export_base_policy(tmp_path, tmp_path / "plain")
    (tmp_path / "config.json").write_text('{"type": "ptr_act"}')
    with pytest.raises(ConfigError, match="exists already"):
        export_base_policy(tmp_path, tmp_path)


def test_the_verb(tmp_path, capsys):
    from ptr_robot.cli.export import main

    policy, _ = make_pair(ACT)
    policy.save_pretrained(tmp_path / "run")
    assert main([f"--policy.path={tmp_path / 'run'}", f"--output_dir={tmp_path / 'plain'}"]) == 0
    assert "'act'" in capsys.readouterr().out
    assert (tmp_path / "plain" / "model.safetensors").is_file()
