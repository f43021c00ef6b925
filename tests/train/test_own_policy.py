"""A policy that a user's own package registers trains, resumes, loads and predicts: the one of docs/add_a_policy.md."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import pytest
import torch

from ptr_robot.cli.main import run
from ptr_robot.errors import ConfigError
from ptr_robot.policy import registry
from ptr_robot.train.trained import load_trained
from tests.policy.conftest import make_observation, noise

DOCUMENT = Path(__file__).parents[2] / "docs" / "add_a_policy.md"
PACKAGE = "my_policies"


@pytest.fixture
def package(tmp_path, monkeypatch) -> str:
    """The document's module in a package that nothing has imported yet."""
    folder = tmp_path / "elsewhere" / PACKAGE
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    block = re.search(r"```python\n(# my_policies/linear.py\n.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (folder / "linear.py").write_text(block[1])
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.setenv(registry.PACKAGES_VARIABLE, "")
    for name in registry._OWN_MODULES:
        registry.policy_type(name)  # what is imported for the first time below would be forgotten with this test
    monkeypatch.setattr(registry, "_types", {})
    own = [name for name in sys.modules if name.startswith(PACKAGE)]
    own += [name for name in sys.modules if name.startswith("ptr_robot.policy.") and name.endswith(".registration")]
    for name in own:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    yield PACKAGE
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]


def flags(state_data: Path, run_folder: Path, steps: int) -> list[str]:
    return [
        "--policy.type=linear",
        "--policy.chunk_length=4",
        "--policy.device=cpu",
        f"--dataset.repo_id={state_data}",
        f"--dataset.cache_dir={state_data.parent / 'cache'}",
        "--dataset.num_chunks=2",
        "--method=ptr",
        f"--steps={steps}",
        "--batch_size=4",
        "--log_freq=2",
        "--save_freq=2",
        "--num_workers=0",
        "--scheduler.num_warmup_steps=0",
        "--ptr.weights.warmup_steps=1",
        f"--output_dir={run_folder}",
    ]


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "checkpoints/last/pretrained_model/model.safetensors")


def test_it_trains_resumes_bitwise_loads_and_predicts(package, state_data, tmp_path):
    discover = f"--policy.discover_packages_path={package}"
    whole = tmp_path / "whole"
    assert run(["train", discover, *flags(state_data, whole, 4)]) == 0
    first = tensors(whole)
    checkpoint = whole / "checkpoints/000002/pretrained_model/train_config.json"
    assert run(["train", discover, "--resume=true", f"--config_path={checkpoint}"]) == 0
    second = tensors(whole)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert json.loads((whole / "checkpoints/last/pretrained_model/config.json").read_text())["type"] == "linear"
    assert json.loads((whole / "train_config.json").read_text())["policy"]["type"] == "linear"

    trained = load_trained(whole)
    assert type(trained.policy).__name__ == "LinearPolicy"
    actions = trained.predictor().predict(make_observation(2), noise=noise(count=2)).actions
    assert actions.shape == (2, 4, 200)
    assert actions.abs().sum() > 0


def test_a_trained_one_is_post_trained_without_naming_its_type(package, state_data, tmp_path):
    discover = f"--policy.discover_packages_path={package}"
    assert run(["train", discover, *flags(state_data, tmp_path / "first", 2)]) == 0
    again = [flag for flag in flags(state_data, tmp_path / "second", 2) if "type" not in flag and "chunk" not in flag]
    assert run(["train", *again, "--dataset.num_chunks=2", f"--policy.path={tmp_path / 'first'}"]) == 0
    assert json.loads((tmp_path / "second" / "train_config.json").read_text())["policy"]["type"] == "linear"


def test_flags_are_those_of_the_type(package, state_data, tmp_path, capsys):
    discover = f"--policy.discover_packages_path={package}"
    with pytest.raises(ConfigError, match=r"there is no flag --policy.preset"):
        run(["train", discover, *flags(state_data, tmp_path / "run", 2), "--policy.preset=tiny"])
    with pytest.raises(SystemExit):
        run(["train", discover, "--policy.type=linear", "--help"])
    shown = capsys.readouterr().out
    assert "Width of every feature." in shown
    assert "The run folder" in shown
    assert "  --policy.preset" not in shown


def test_what_is_not_there_is_said_in_one_line(package, state_data, tmp_path):
    with pytest.raises(ConfigError, match=r"no policy type 'linear'.*discover_packages_path"):
        run(["train", *flags(state_data, tmp_path / "run", 2)])
    with pytest.raises(ConfigError, match=r"discover_packages_path=no_such_package cannot be imported"):
        run(["train", "--policy.discover_packages_path=no_such_package", *flags(state_data, tmp_path / "run", 2)])
