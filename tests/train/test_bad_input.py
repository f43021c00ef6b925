"""Bad input: one clear line each, and nothing half-written."""

from __future__ import annotations

import contextlib
import dataclasses
import types
from pathlib import Path

import pytest
import torch

from ptr_robot.cli.main import run as run_command
from ptr_robot.errors import ConfigError, DataError, NonFiniteError
from ptr_robot.files import process_lock
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.train import optimisation
from ptr_robot.train.build import build_parts
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.loop import train
from ptr_robot.train.run_folder import check_free

from . import worker
from .datasets import record_dataset


@contextlib.contextmanager
def refused(kind, match):
    """An error of one line."""
    with pytest.raises(kind, match=match) as caught:
        yield
    assert "\n" not in str(caught.value)


def test_a_preset_that_does_not_exist(settings):
    config = settings(policy=VLAChoice(preset="tinny"))
    with refused(ConfigError, "no policy preset 'tinny'; did you mean 'tiny'"):
        train(config)
    assert not Path(config.output_dir).exists()


def test_a_method_that_does_not_exist(state_data):
    with refused(ConfigError, "no method 'ptrr'; did you mean 'ptr'"):
        run_command(["train", f"--dataset.repo_id={state_data}", "--method=ptrr"])


def test_a_flag_that_does_not_exist(state_data):
    with refused(ConfigError, "no flag --ptr.weights.alfa; did you mean 'ptr.weights.alpha'"):
        run_command(["train", f"--dataset.repo_id={state_data}", "--ptr.weights.alfa=1"])


def test_no_data():
    with refused(ConfigError, r"--dataset\.repo_id"):
        run_command(["train", "--method=sft"])


def test_a_missing_dataset(settings, tmp_path):
    config = settings()
    config = dataclasses.replace(config, dataset=dataclasses.replace(config.dataset, repo_id=str(tmp_path / "none")))
    with refused(DataError, "none"):
        train(config)
    assert not Path(config.output_dir).exists()


def test_images_wanted_from_state_only_data(settings):
    config = settings(policy=VLAChoice(preset="tiny", chunk_length=4, device="cpu"))
    with refused(ConfigError, "no camera; use a state-only policy"):
        train(config)


@pytest.fixture(scope="module")
def trained(state_data, tmp_path_factory) -> Path:
    """A short run's last checkpoint."""
    run = tmp_path_factory.mktemp("trained") / "run"
    flags = f"--dataset.repo_id={state_data} --dataset.num_chunks=2 --dataset.cache_dir={state_data.parent / 'cache'}"
    flags += " --policy.preset=tiny-state --policy.chunk_length=4 --policy.device=cpu --method=ptr"
    flags += f" --steps=1 --batch_size=4 --num_workers=0 --output_dir={run}"
    assert run_command(["train", *flags.split()]) == 0
    return run / "checkpoints" / "last"


def test_a_checkpoint_of_another_robot(settings, trained, tmp_path):
    other = record_dataset(tmp_path / "fr3", lengths=(8, 9), robot="fr3", size=13)
    config = settings(policy=VLAChoice(path=str(trained), device="cpu"), batch_size=2)
    config = dataclasses.replace(config, dataset=dataclasses.replace(config.dataset, repo_id=str(other)))
    with refused(ConfigError, "was trained for the robot 'metaworld'"):
        train(config)
    allowed = dataclasses.replace(config, policy=dataclasses.replace(config.policy, allow_other_robot=True), steps=1)
    assert train(allowed).steps_done == 1


def test_a_checkpoint_of_another_shape(settings, trained):
    config = settings(policy=VLAChoice(path=str(trained), device="cpu"))
    belief = dataclasses.replace(config.ptr.belief, num_tokens=7)
    with refused(ConfigError, "num_tokens is 7 and the policy takes 4"):
        train(dataclasses.replace(config, ptr=dataclasses.replace(config.ptr, belief=belief)))


def test_a_resumed_run_of_another_shape(settings):
    config = settings(steps=1)
    train(config)
    changed = dataclasses.replace(config, policy=dataclasses.replace(config.policy, head="diffusion"), resume=True)
    with refused(DataError, r"holds a policy of another configuration"):
        train(dataclasses.replace(changed, policy=dataclasses.replace(changed.policy, head="autoregressive")))


def test_a_run_folder_that_exists(settings):
    config = settings()
    folder = Path(config.output_dir)
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with refused(ConfigError, "exists already; choose another --output_dir"):
        train(config)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_a_run_folder_in_use(settings):
    config = settings(steps=1)
    train(config)
    folder = Path(config.output_dir)
    with process_lock(folder / "run"), refused(ConfigError, "in use by another training process"):
        train(dataclasses.replace(config, resume=True, steps=2))


@pytest.mark.parametrize("name", ["run.json", "notes.txt"])
def test_a_run_folder_with_any_file_but_the_lock(settings, name):
    folder = Path(settings().output_dir)
    folder.mkdir()
    (folder / "run.lock").touch()
    check_free(folder, resume=False)
    (folder / name).touch()
    with refused(ConfigError, "exists already"):
        check_free(folder, resume=False)


def test_a_run_folder_that_another_run_took_meanwhile(settings, monkeypatch):
    """Building takes minutes; what was free before it may not be free after it."""
    config = settings()

    def build(*arguments, **named):
        parts = build_parts(*arguments, **named)
        folder = Path(config.output_dir)
        folder.mkdir()
        (folder / "records.jsonl").write_text("of another run\n")
        return parts

    monkeypatch.setattr("ptr_robot.train.loop.build_parts", build)
    with refused(ConfigError, "exists already"):
        train(config)
    assert (Path(config.output_dir) / "records.jsonl").read_text() == "of another run\n"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(settings):
    policy = dataclasses.replace(settings().policy, device="cuda")
    with refused(ConfigError, "no GPU"):
        train(settings(policy=policy))


def test_nothing_to_resume(tmp_path):
    with refused(ConfigError, "holds no run to resume"):
        run_command(["train", "--resume=true", f"--output_dir={tmp_path}"])


def test_a_loss_that_is_not_finite(settings, monkeypatch):
    """The step is named, and the last good checkpoint stays what it was."""
    step = optimisation.Optimiser.step

    def poisoned(self, batches, number):
        if number == 4:
            batches = [dataclasses.replace(batch, actions=batch.actions * torch.inf) for batch in batches]
        return step(self, batches, number)

    monkeypatch.setattr(optimisation.Optimiser, "step", poisoned)
    config = settings()
    with refused(NonFiniteError, "step 5: .*the last good checkpoint is .*000003"):
        train(config)
    assert latest_checkpoint(Path(config.output_dir)).name == "000003"


def test_a_disk_that_fills_during_a_save(settings, processes, tmp_path):
    config = settings(steps=2, save_freq=1)
    run = Path(config.output_dir)
    train(dataclasses.replace(config, steps=1))
    weights = run / "checkpoints" / "000001" / "pretrained_model" / "model.safetensors"
    before = weights.read_bytes()
    resumed = dataclasses.replace(config, resume=True)
    process = processes.Process(
        target=worker.train_with_small_disk, args=(resumed, len(before) // 2, tmp_path / "message")
    )
    process.start()
    process.join()
    assert process.exitcode == 7
    message = (tmp_path / "message").read_text()
    assert "\n" not in message
    assert "the checkpoint of step 2 could not be saved" in message
    assert "File too large" in message
    assert str(run / "checkpoints" / "000001") in message
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"000001", "last"}
    assert weights.read_bytes() == before


def test_an_instruction_that_is_too_long_is_named_before_anything_is_trained(settings):
    choice = VLAChoice(preset="tiny-state", chunk_length=4, device="cpu", max_tokens=14)
    config = settings(policy=choice)
    with refused(DataError, "the instruction 'open the drawer'... has 15 tokens; the limit is 14.*max_tokens"):
        train(config)
    assert not Path(config.output_dir).exists()
    assert (
        train(dataclasses.replace(config, policy=dataclasses.replace(choice, max_tokens=15), steps=1)).steps_done == 1
    )


def test_ways_to_spread_a_policy_that_are_not_served(settings, monkeypatch):
    sharded = types.SimpleNamespace(distributed_type=types.SimpleNamespace(value="DEEPSPEED"))
    monkeypatch.setattr("accelerate.Accelerator", lambda **named: sharded)
    with refused(ConfigError, "accelerate is set up for DEEPSPEED; ptr train knows"):
        train(settings())
