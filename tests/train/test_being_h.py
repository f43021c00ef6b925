"""Being-H0.5 by ptr train: every method from its checkpoint, saved, loaded, resumed and written back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ptr_robot.cli.main import run
from ptr_robot.errors import DataError
from ptr_robot.policy.being_h.export import export_released
from ptr_robot.policy.being_h.load import load_released
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.registry import load_policy
from ptr_robot.train.trained import load_trained, pretrained_folder
from tests.policy.being_h.conftest import checkpoint, read_case, reference  # noqa: F401

from .datasets import record_dataset


@pytest.fixture(scope="module")
def libero_data(tmp_path_factory) -> Path:
    """LIBERO's 8-D state and 7-D action, one camera that is not square-sized for the policy."""
    root = tmp_path_factory.mktemp("libero") / "libero"
    return record_dataset(root, lengths=(40, 36), robot="panda", size=8, action_size=7, pixels=100)


def train(checkpoint, data: Path, output: Path, *more: str, method: str = "sft", steps: int = 2) -> Path:  # noqa: F811
    flags = [
        f"--policy.path={checkpoint}",
        "--policy.device=cpu",
        f"--dataset.repo_id={data}",
        f"--dataset.cache_dir={output.parent / 'cache'}",
        "--dataset.num_chunks=2",
        "--dataset.normaliser=none",
        f"--method={method}",
        f"--steps={steps}",
        "--batch_size=2",
        "--log_freq=1",
        "--save_freq=1",
        "--num_workers=0",
        "--scheduler.num_warmup_steps=0",
        f"--output_dir={output}",
    ]
    if method == "ptr":
        flags.append("--ptr.weights.warmup_steps=1")
    assert run(["train", *flags, *more]) == 0
    return output


def moved(before, after) -> set[str]:
    """The parts of the policy whose weights have changed."""
    old = before.state_dict()
    return {name.split(".")[0] for name, value in after.state_dict().items() if not torch.equal(value, old[name])}


@pytest.mark.parametrize("method", ["sft", "sft-belief", "ptr"])
def test_every_method_trains_saves_and_exports(checkpoint, reference, libero_data, tmp_path, method):  # noqa: F811
    folder = train(checkpoint, libero_data, tmp_path / "run", method=method)
    trained = load_trained(folder)
    assert (trained.belief is None) == (method == "sft")
    assert moved(load_released(checkpoint).policy, trained.policy) == {"trunk", "vision", "state_embedder", "head"}
    record = trained.sources[0]
    assert record.resize == "bicubic_crop"
    assert set(record.action_map.normaliser.scale.tolist()) == {1.0}
    assert not record.action_map.normaliser.is_binary.any()
    exported = export_released(trained.policy, tmp_path / "exported")
    keys = json.loads((reference / "keys.json").read_text())
    tensors = load_file(exported / "model.safetensors")
    assert {name: list(tensor.shape) for name, tensor in tensors.items()} == keys
    case = read_case(reference, "libero_one_view")
    noise = Noise.keyed(torch.tensor([5]))
    chunks = [p.predict(case.observation, noise=noise).actions for p in (trained.policy, load_policy(exported).policy)]
    torch.testing.assert_close(*chunks, rtol=0, atol=1e-5)


def test_a_resumed_run_equals_one_in_one_go(checkpoint, libero_data, tmp_path):  # noqa: F811
    whole = train(checkpoint, libero_data, tmp_path / "whole", method="ptr", steps=2)
    begun = train(checkpoint, libero_data, tmp_path / "begun", method="ptr", steps=2)
    assert (
        run(["train", "--resume=true", f"--config_path={begun}/checkpoints/000001/pretrained_model/train_config.json"])
        == 0
    )
    files = [pretrained_folder(folder) / "model.safetensors" for folder in (whole, begun)]
    first, second = (load_file(file) for file in files)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def test_switches_and_lora_are_kept_and_merged(checkpoint, libero_data, tmp_path):  # noqa: F811
    pytest.importorskip("peft")
    more = ["--policy.lora_rank=4", "--policy.attention=paper", "--policy.unused_slots=zero", "--policy.mpg=true"]
    more.append("--policy.checkpoint_activations=true")
    folder = train(checkpoint, libero_data, tmp_path / "run", *more, method="ptr")
    policy = load_trained(folder).policy
    config = policy.config
    assert (config.attention, config.flow.every_slot, config.lora.rank) == ("paper", False, 4)
    assert config.gating is not None
    assert config.trunk.checkpoint_activations
    updates = [value for name, value in policy.state_dict().items() if "lora_B" in name and "und.layers.2" not in name]
    assert all(value.abs().max() > 0 for value in updates)
    base = load_released(checkpoint).policy.state_dict()["trunk.gen.layers.0.self_attn.q_proj.weight"]
    name = "trunk.gen.layers.0.self_attn.q_proj"
    assert torch.equal(policy.state_dict()[f"{name}.base_layer.weight"], base)
    exported = load_released(export_released(policy, tmp_path / "exported")).policy
    assert not torch.equal(exported.state_dict()[f"{name}.weight"], base)


def test_real_demonstrations(checkpoint, tmp_path):  # noqa: F811
    data = os.environ.get("PTR_ROBOT_G1_DATASET")
    if not data:
        pytest.skip("PTR_ROBOT_G1_DATASET is not set: it names the folder of the real G1 demonstrations")
    flags = ["--dataset.episodes=[0]", "--dataset.image_keys=[observation.images.cam_high]"]
    flags.append("--dataset.normaliser=q99")
    folder = train(checkpoint, Path(data), tmp_path / "run", *flags, method="ptr", steps=1)
    assert load_trained(folder).sources[0].robot == "unitree_g1"


def test_a_name_that_is_neither_here_nor_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(DataError, match="no such folder, and nothing of that name could be fetched") as raised:
        pretrained_folder(Path("owner-of-nothing/no-such-policy"))
    assert "\n" not in str(raised.value)
