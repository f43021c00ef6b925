"""A run from flags to folder: what it writes, what it learns, and what comes back from its checkpoints."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ptr_robot.cli.main import run as run_command
from ptr_robot.errors import DataError
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import Observation
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.train.build import build_parts
from ptr_robot.train.config import DatasetConfig, resolve
from ptr_robot.train.episode_records import EpisodeLedger
from ptr_robot.train.loop import Trainer, endless, train
from ptr_robot.train.methods.registry import training_method
from ptr_robot.train.processes import make_accelerator
from ptr_robot.train.records import read_records
from ptr_robot.train.trained import load_trained, pretrained_folder

from . import worker
from .conftest import LENGTHS, STEPS


@pytest.fixture(scope="module")
def finished(state_data, tmp_path_factory) -> Path:
    """A run by its command; not to be changed."""
    run = tmp_path_factory.mktemp("finished") / "run"
    cache = state_data.parent / "cache"
    flags = f"--dataset.repo_id={state_data} --dataset.num_chunks=2 --dataset.cache_dir={cache} --method=small-data"
    flags += " --policy.preset=tiny-state --policy.chunk_length=4 --policy.device=cpu --ptr.weights.warmup_steps=2"
    flags += f" --steps={STEPS} --batch_size=4 --num_workers=0 --log_freq=2 --save_freq=4 --output_dir={run}"
    assert run_command(["train", *flags.split()]) == 0
    return run


def test_the_folder_explains_itself(finished):
    names = {path.name for path in finished.iterdir()}
    assert names >= {
        "README.txt",
        "run.json",
        "train_config.json",
        "records.jsonl",
        "tensorboard",
        "checkpoints",
        "curves.png",
    }
    assert {path.name for path in (finished / "checkpoints").iterdir()} == {"000004", "000006", "last"}
    record = json.loads((finished / "run.json").read_text())
    assert record["data"][0]["episodes"] == len(LENGTHS)
    assert record["data"][0]["segments"] == sum(LENGTHS)
    settings = json.loads((finished / "train_config.json").read_text())
    assert settings["ptr"]["weights"]["warmup_steps"] == 2
    assert settings["ptr"]["targets"]["kind"] == "change"  # the method's own, under the flag
    assert "resume=true" in (finished / "README.txt").read_text()


def test_records_are_the_same_in_both_places(finished):
    records = read_records(finished)
    assert [record["step"] for record in records] == [2, 4, 6]
    assert all(math.isfinite(value) for record in records for value in record.values())
    events = EventAccumulator(str(finished / "tensorboard"))
    events.Reload()
    shown = [(event.step, event.value) for event in events.Scalars("action_loss")]
    assert shown == [(record["step"], pytest.approx(record["action_loss"])) for record in records]


def test_learning_rate_follows_the_cosine(finished):
    rates = [record["learning_rate"] for record in read_records(finished)]
    expected = [1e-3 * 0.5 * (1 + math.cos(math.pi * step / STEPS)) for step in (2, 4, 6)]
    assert rates == pytest.approx(expected, abs=1e-12)


def test_a_trained_policy_comes_back_with_its_data(finished, state_data):
    trained = load_trained(finished / "checkpoints" / "last")
    source = trained.source("metaworld")
    assert source.name == str(state_data)
    assert source.robot_record.action_slots == (0, 1, 2, 18)
    assert set(source.tasks) == {"open the drawer", "push the puck"}
    assert trained.belief is not None


def test_a_loaded_policy_predicts_as_it_did(settings):
    config = settings()
    train(config)
    plan = resolve(config, datetime.now())
    parts = build_parts(plan)
    observation = Observation.at_chunk(next(iter(parts.loader)), 0)
    checkpoint = Path(config.output_dir) / "checkpoints" / "last"
    trainer = Trainer(plan, parts, make_accelerator(config))
    trainer.state.read(checkpoint / "training_state")
    parts.policy.load_state_dict(load_file(checkpoint / "pretrained_model" / "model.safetensors"))
    trained = load_trained(checkpoint)
    predictor, noise = trained.predictor(), Noise.keyed(1, torch.arange(observation.batch_size))
    for _ in range(2):
        prediction = predictor.predict(observation, noise=noise)
    module = parts.module.eval()
    belief = module.ptr.initial_belief(observation.batch_size)
    for _ in range(2):
        direct = parts.policy.predict(observation, belief, noise=noise)
        belief = module.ptr.belief(direct.action_states, direct.action_tokens).next_tokens
    assert prediction.actions.equal(direct.actions)


def test_the_loss_falls(settings):
    config = settings(method="sft", steps=120, log_freq=40, save_freq=120, ptr=None)
    train(config)
    losses = [record["action_loss"] for record in read_records(Path(config.output_dir))]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("method", ["ptr", "sft-belief"])
def test_images(settings, image_data, method):
    config = settings(method=method, steps=2, save_freq=2)
    dataset = DatasetConfig(repo_id=str(image_data), num_chunks=2, cache_dir=str(image_data.parent / "cache"))
    policy = VLAChoice(preset="tiny", chunk_length=4, image_size=32, device="cpu")
    result = train(dataclasses.replace(config, dataset=dataset, policy=policy))
    state = load_file(result.checkpoint / "training_state" / "ptr_state.safetensors")
    assert any(name.startswith("target_encoder") for name in state) == (method == "ptr")


def test_post_training_starts_from_the_checkpoint(settings, finished, tmp_path):
    path = str(finished / "checkpoints" / "last" / "pretrained_model")
    config = settings(policy=VLAChoice(path=path, device="cpu"), method="sft", batch_size=4)
    parts = build_parts(resolve(config, datetime.now()))
    saved = load_file(Path(path) / "model.safetensors")
    assert all(parameter.equal(saved[name]) for name, parameter in parts.policy.state_dict().items())


def test_a_resumed_run_needs_nothing_of_what_it_started_from(settings, finished, tmp_path):
    base = shutil.copytree(finished / "checkpoints" / "000006", tmp_path / "base")
    config = settings(policy=VLAChoice(path=str(base), device="cpu"), steps=1)
    train(config)
    shutil.rmtree(base)
    assert train(dataclasses.replace(config, resume=True, steps=2)).steps_done == 2


def test_bfloat16(settings, processes):
    """In a process of its own: accelerate holds one precision a process."""
    config = settings(mixed_precision="bf16", method="ptr")
    process = processes.Process(target=worker.train_and_exit, args=(config,))
    process.start()
    process.join()
    assert process.exitcode == 0
    whole = dataclasses.replace(config, mixed_precision="no", output_dir=config.output_dir + "_float32")
    train(whole)
    losses, expected = (read_records(Path(c.output_dir))[-1]["action_loss"] for c in (config, whole))
    assert losses == pytest.approx(expected, rel=0.05)
    assert losses != expected


def test_micro_batches_equal_one_batch(settings, tmp_path):
    """With weights of one, twice four segments are eight segments."""
    config = settings(method="sft", steps=3)
    config = dataclasses.replace(config, policy=dataclasses.replace(config.policy, head="autoregressive"))
    models = []
    for name, batch_size, micro_batches in (("whole", 8, 1), ("parts", 4, 2)):
        folder = str(tmp_path / name)
        changes = {"output_dir": folder, "batch_size": batch_size, "gradient_accumulation_steps": micro_batches}
        result = train(dataclasses.replace(config, **changes))
        models.append(load_file(result.checkpoint / "pretrained_model" / "model.safetensors"))
    for name, tensor in models[0].items():
        torch.testing.assert_close(tensor, models[1][name], rtol=1e-3, atol=1e-4)


def test_episode_means_are_those_of_a_plain_loop(settings):
    config = settings()
    plan = resolve(config, datetime.now())
    parts = build_parts(plan)
    ledger = EpisodeLedger(parts.loader.dataset)
    trainer = Trainer(plan, parts, make_accelerator(config))
    seen: dict[int, list[tuple[float, float, bool]]] = {}
    batches = endless(parts.loader)
    for number in range(4):
        result = trainer.optimiser.step([next(batches)], number)
        output, samples = result.outputs[0], result.samples[0]
        ledger.add(output, samples)
        for row, episode in enumerate(samples.episode_ids.tolist()):
            if not samples.chunk_is_pad[row]:
                entry = output.scores[row].item(), output.weights[row].item(), output.is_scored[row].item()
                seen.setdefault(episode, []).append(entry)
    file = Path(config.output_dir) / "scores.parquet"
    ledger.write(ledger.totals(), file)
    for row in parquet.read_table(file).to_pylist():
        entries = seen.get(row["episode_index"], [])
        scores = [score for score, _, is_scored in entries if is_scored]
        assert row["num_samples"] == len(entries)
        assert row["num_scored"] == len(scores)
        if scores:
            assert row["mean_score"] == pytest.approx(sum(scores) / len(scores))
            assert row["mean_weight"] == pytest.approx(sum(weight for _, weight, _ in entries) / len(entries))


def test_scaled_settings_are_the_papers_at_the_papers_length():
    assert training_method("ptr").ptr_config(steps=60_000, log_freq=100) == PTRConfig()
    assert training_method("ptr").ptr_config(steps=120_000, log_freq=100) == PTRConfig()
    assert training_method("ptr").ptr_config(steps=600, log_freq=10).weights.warmup_steps == 30


@pytest.mark.parametrize("steps", [600, 1500, 20_000, 60_000])
def test_short_runs_keep_the_papers_number_of_moves_and_time_constants(steps):
    """600 moves of the controller and 60 time constants of the EMA encoder: exp(-60) of its start is left."""
    config = training_method("ptr").ptr_config(steps=steps, log_freq=7)
    assert steps / config.controller.interval_steps == pytest.approx(600, rel=0.25)
    assert (1 - config.targets.ema_decay) * steps == pytest.approx(60)
    assert training_method("ptr").ptr_config(steps=30, log_freq=7).targets.ema_decay == 0  # a copy, and nothing below
    assert training_method("robust").ptr_config(steps=steps, log_freq=7).controller.interval_steps == 7


@pytest.mark.parametrize(("processes", "micro_batches", "segments"), [(1, 1, 32), (8, 1, 4), (2, 4, 4), (64, 1, 1)])
def test_the_papers_batch_is_128_chunks_over_all_processes(monkeypatch, settings, processes, micro_batches, segments):
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    dataset = dataclasses.replace(settings().dataset, num_chunks=4)
    policy = VLAChoice(preset="being-h05", device="cpu")
    config = settings(policy=policy, dataset=dataset, batch_size=None, gradient_accumulation_steps=micro_batches)
    assert resolve(config, datetime.now()).batch_size == segments


def test_post_training_goes_on_with_the_belief_that_the_policy_knows(settings, finished):
    checkpoint = finished / "checkpoints" / "last"
    config = settings(policy=VLAChoice(path=str(checkpoint), device="cpu"))
    tokenizer = build_parts(resolve(config, datetime.now())).module.ptr.belief
    saved = load_file(checkpoint / "pretrained_model" / "belief.safetensors")
    assert saved.keys() == tokenizer.state_dict().keys()
    assert all(value.equal(saved[name]) for name, value in tokenizer.state_dict().items())


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_batch_that_weighs_nothing_is_a_step_like_any_other(settings, tmp_path, accumulation):
    weights = tmp_path / "weights.json"
    weights.write_text(json.dumps({str(number): float(number == 3) for number in range(4)}))
    config = settings(method="sft", batch_size=1, steps=6, log_freq=1, gradient_accumulation_steps=accumulation)
    config = dataclasses.replace(config, dataset=dataclasses.replace(config.dataset, episode_weights=str(weights)))
    result = train(config)
    assert result.steps_done == 6
    assert any("effective_sample_size" not in record for record in read_records(result.output_dir))


def test_a_run_stands_for_its_last_checkpoint(finished):
    last = finished / "checkpoints" / "last" / "pretrained_model"
    assert (
        pretrained_folder(finished) == last.resolve() == finished / "checkpoints" / f"{STEPS:06d}" / "pretrained_model"
    )
    assert pretrained_folder(last.parent) == pretrained_folder(last) == last


def test_a_run_that_has_ended_stays_as_it_is_described(settings):
    config = settings()
    run = train(config).output_dir
    before = (run / "train_config.json").read_text()
    assert train(dataclasses.replace(config, resume=True, steps=2)).steps_done == STEPS
    assert (run / "train_config.json").read_text() == before


def test_a_run_that_failed_before_its_first_checkpoint_is_begun_again(settings, monkeypatch):
    config = settings(steps=2, log_freq=1)
    with monkeypatch.context() as patch:
        patch.setattr("ptr_robot.train.loop.save_checkpoint", lambda *_: (_ for _ in ()).throw(DataError("full")))
        with pytest.raises(DataError, match="full"):
            train(config)
    run = train(config).output_dir
    assert [record["step"] for record in read_records(run)] == [1, 2]
