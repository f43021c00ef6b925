"""Settings come from the method's own, then the file, then the flags."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime

import pytest

from ptr_robot.cli.train import read_flags
from ptr_robot.errors import ConfigError
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.policy.vla.presets import preset
from ptr_robot.train.config import resolve
from ptr_robot.train.config_file import write_config


def test_defaults_are_the_papers():
    config, _ = read_flags(["--dataset.repo_id=data", "--policy.preset=being-h05", "--method=ptr"])
    plan = resolve(config, datetime.now())
    assert plan.ptr == PTRConfig()
    assert (plan.steps, plan.batch_size, plan.learning_rate, plan.num_warmup_steps) == (
        60_000,
        32,
        1e-4,
        2000,
    )  # of 4 chunks
    optimiser = plan.config.optimizer
    assert (optimiser.betas, optimiser.weight_decay, optimiser.grad_clip_norm) == ((0.9, 0.999), 0.01, 1.0)


def test_a_flag_changes_the_method_and_leaves_the_rest_of_it():
    config, _ = read_flags(["--dataset.repo_id=data", "--method=small-data", "--steps=600", "--ptr.weights.alpha=0.5"])
    assert config.ptr.weights.alpha == 0.5
    assert config.ptr.targets.kind == "change"
    assert config.ptr.scorer.num_folds == 5
    assert config.ptr.weights.warmup_steps == 30


def test_file_over_method_and_flag_over_file(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(
        "method: small-data\ndataset: {sources: [{repo_id: a, weight: 1}, {repo_id: b, weight: 3}]}\n"
        "ptr: {weights: {alpha: 0.5, beta: 2.0}}\n"
    )
    config, _ = read_flags([f"--config_path={file}", "--ptr.weights.beta=1.2"])
    weights = config.ptr.weights
    assert (weights.alpha, weights.beta, weights.fallback) == (0.5, 1.2, "mean")
    data = config.dataset.data_config(preset("tiny"))
    assert [(source.repo_id, source.weight) for source in data.sources] == [("a", 1), ("b", 3)]
    assert (data.chunk_length, data.image_size) == (16, 64)


def test_one_file_with_settings_for_another_method_is_refused(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("method: small-data\ndataset: {repo_id: a}\nptr: {weights: {alpha: 0.5}}\n")
    with pytest.raises(ConfigError, match="has ptr settings for the method 'small-data' and --method is 'sft'"):
        read_flags([f"--config_path={file}", "--method=sft"])


@pytest.mark.parametrize("how", ["folder", "config", "checkpoint"])
def test_a_run_is_resumed_with_its_own_settings_wherever_it_lies(tmp_path, how):
    config, _ = read_flags(
        ["--dataset.repo_id=data", "--method=ptr", "--steps=50", "--ptr.weights.w_max=3", "--output_dir=elsewhere"]
    )
    run = tmp_path / "run"
    checkpoint = run / "checkpoints" / "000040"
    written = resolve(config, datetime.now()).config
    write_config(written, run)
    write_config(written, checkpoint / "pretrained_model")
    (run / "checkpoints" / "last").symlink_to("000040")
    flags = {
        "folder": [f"--output_dir={run}"],
        "config": ["--config_path", str(run / "train_config.json")],
        "checkpoint": [f"--config_path={run}/checkpoints/last/pretrained_model/train_config.json"],
    }[how]
    resumed, place = read_flags(["--resume", *flags, "--steps=80"])
    assert resumed == dataclasses.replace(written, resume=True, output_dir=str(run), steps=80)
    assert place == (checkpoint if how == "checkpoint" else None)


def test_settings_survive_their_file(tmp_path):
    flags = ["--dataset.repo_id=data", "--dataset.episodes=[0,2]", "--optimizer.betas=[0.8,0.9]", "--output_dir=run"]
    config = resolve(read_flags(flags)[0], datetime.now()).config
    file = write_config(config, tmp_path)
    assert json.loads(file.read_text())["dataset"]["episodes"] == [0, 2]
    assert read_flags([f"--config_path={file}"])[0] == config


def test_ptr_settings_have_no_part_in_screening():
    with pytest.raises(ConfigError, match=r"--ptr\.weights\.alpha=0\.5 is a setting of PTR.*--method=ptr"):
        read_flags(["--dataset.repo_id=data", "--method=screened", "--ptr.weights.alpha=0.5"])


@pytest.mark.parametrize(
    ("method", "flag", "why"),
    [
        ("sft", "--ptr.weights.w_max=8", "scores nothing"),
        ("sft", "--ptr.belief.num_tokens=2", "has no belief tokens"),
        ("sft-belief", "--ptr.scorer.temperature=0.1", "scores nothing"),
    ],
)
def test_a_flag_that_the_method_never_looks_at_is_refused(method, flag, why):
    with pytest.raises(ConfigError, match=f"{flag} would change nothing: the method '{method}' {why}; add --method"):
        read_flags(["--dataset.repo_id=data", f"--method={method}", flag])


@pytest.mark.parametrize(
    ("method", "flags"),
    [
        ("sft-belief", ["--ptr.belief.num_tokens=2"]),
        ("sft", ["--ptr.scorer.enabled=true", "--ptr.weights.w_max=8"]),
        ("sft", ["--ptr.belief.enabled=true", "--ptr.belief.num_tokens=2"]),
        ("sft", ["--ptr.check_inputs=false"]),
    ],
)
def test_a_flag_that_something_looks_at_is_not(method, flags):
    read_flags(["--dataset.repo_id=data", f"--method={method}", *flags])


def test_ptr_settings_of_a_file_have_no_part_in_it_either(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("dataset: {repo_id: data}\nptr: {weights: {w_max: 8.0}}\n")
    with pytest.raises(ConfigError, match=r"has settings of PTR.*add method: ptr"):
        read_flags([f"--config_path={file}"])
    assert read_flags([f"--config_path={file}", "--method=ptr"])[0].ptr.weights.w_max == 8.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method: sft\nptr: {weights: {w_max: 8.0}}", r"ptr\.weights\.w_max=8.0 would change nothing"),
        ("method: sft-belief\nptr: {scorer: {temperature: 0.1}}", r"ptr\.scorer\.temperature=0.1 would change nothing"),
        ("method: sft\nscreening: {seed: 5}", "the file's screening would change nothing"),
        ("method: sft\nresume: true", "resume stands in the file; say it with a flag"),
    ],
)
def test_what_a_file_says_in_vain_is_refused(tmp_path, text, message):
    file = tmp_path / "run.yaml"
    file.write_text(f"dataset: {{repo_id: data}}\n{text}\n")
    with pytest.raises(ConfigError, match=message):
        read_flags([f"--config_path={file}"])


@pytest.mark.parametrize("method", ["sft", "sft-belief", "ptr"])
def test_the_settings_of_a_run_are_a_file_for_another(tmp_path, method):
    config = resolve(read_flags(["--dataset.repo_id=data", f"--method={method}"])[0], datetime.now()).config
    assert read_flags([f"--config_path={write_config(config, tmp_path)}", "--seed=5"])[0].seed == 5


def test_a_resumed_run_has_its_own_settings(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("dataset: {repo_id: data}\n")
    with pytest.raises(ConfigError, match=r"mine.yaml is not read; name the run alone"):
        read_flags([f"--config_path={file}", "--resume=true", "--output_dir=run"])


def test_a_date_in_a_file_is_a_name(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("dataset: {repo_id: data}\nmethod: ptr\njob_name: 2024-01-01\nptr: {weights: {alpha: 0.5}}\n")
    assert read_flags([f"--config_path={file}"])[0].job_name == "2024-01-01"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--policy.path=", "--policy.path is empty"),
        ("--dataset.episode_weights=", "--dataset.episode_weights is empty"),
        ("--seed=99999999999999999999999", "--seed is a number beyond 9223372036854775807"),
        ("--job_name=../elsewhere", "it is a name: for a folder, give --output_dir"),
        ("--optimizer.lr=.inf", "above 0 and finite"),
        ("--optimizer.eps=.inf", "optimizer.eps is inf"),
    ],
)
def test_values_of_no_use_are_refused(flag, message):
    with pytest.raises(ConfigError, match=message):
        read_flags(["--dataset.repo_id=data", "--method=sft", flag])


@pytest.mark.parametrize("method", ["ptr", "sft"])
def test_screening_settings_are_those_of_screening(method):
    with pytest.raises(ConfigError, match=f"would change nothing: the method '{method}' does not screen"):
        read_flags(["--dataset.repo_id=data", f"--method={method}", "--screening.steps=3"])


def test_a_run_keeps_its_method_and_its_screening(tmp_path):
    config, _ = read_flags(["--dataset.repo_id=data", f"--output_dir={tmp_path}"])
    write_config(resolve(config, datetime.now()).config, tmp_path)
    resumed = ["--resume=true", f"--output_dir={tmp_path}"]
    assert read_flags([*resumed, "--steps=9000"])[0].method == "screened"
    with pytest.raises(ConfigError, match="begun with the method 'screened' and cannot go on with 'sft'"):
        read_flags([*resumed, "--method=sft"])
    with pytest.raises(ConfigError, match="the run was screened when it began"):
        read_flags([*resumed, "--screening.steps=3"])


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--seed=-1", "seed is -1"),
        ("--optimizer.betas=[1.5, 0.9]", "betas are"),
        ("--optimizer.eps=-1", "eps is"),
        ("--optimizer.weight_decay=-0.1", "weight_decay is"),
        ("--scheduler.num_warmup_steps=-2", "num_warmup_steps is"),
        ("--num_workers=100000", "--num_workers is a number beyond 1024"),
        (f"--steps={10**23}", "--steps is a number beyond 1000000000"),
        ("--ptr.pool.queue_size=2147483647", r"--ptr\.pool\.queue_size is a number beyond 1048576"),
        ("--screening.num_folds=2147483647", r"--screening\.num_folds is a number beyond 1000"),
    ],
)
def test_a_value_out_of_its_range_is_named(flag, message):
    with pytest.raises(ConfigError, match=message):
        read_flags(["--dataset.repo_id=data", flag])


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--policy.head=diffusion", "begun with --policy.head=None and cannot go on with diffusion"),
        ("--policy.path=elsewhere", "begun with --policy.path=None and cannot go on with elsewhere"),
        ("--dataset.normaliser=mean_std", "begun with --dataset.normaliser=q99 and cannot go on with mean_std"),
    ],
)
def test_a_resumed_run_keeps_its_policy_and_its_units(tmp_path, flag, words):
    config, _ = read_flags(["--dataset.repo_id=data", "--method=ptr", "--steps=50", f"--output_dir={tmp_path}"])
    write_config(resolve(config, datetime.now()).config, tmp_path)
    assert read_flags(["--resume", f"--output_dir={tmp_path}", "--policy.device=cpu"])[0].policy.device == "cpu"
    with pytest.raises(ConfigError, match=words):
        read_flags(["--resume", f"--output_dir={tmp_path}", flag])


def test_a_trained_policy_keeps_its_shape():
    with pytest.raises(ConfigError, match=r"policy.head is set, but policy.path names a trained policy"):
        read_flags(["--dataset.repo_id=data", "--policy.path=run", "--policy.head=diffusion"])


def test_a_mode_that_weights_and_biases_does_not_have():
    with pytest.raises(ConfigError, match=r"wandb.mode is 'foo'; it must be one of: online, offline, disabled"):
        read_flags(["--dataset.repo_id=data", "--wandb.enable=true", "--wandb.mode=foo"])


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--gradient_accumulation_steps=3", "begun with --gradient_accumulation_steps=1 and cannot go on with 3"),
        ("--ptr.weights.beta=2.5", "begun with --ptr.weights.beta=1.5 and cannot go on with 2.5"),
        ("--ptr.targets.kind=change", "begun with --ptr.targets.kind=future and cannot go on with change"),
    ],
)
def test_a_resumed_run_keeps_its_method_settings_and_micro_batches(tmp_path, flag, words):
    config, _ = read_flags(["--dataset.repo_id=data", f"--output_dir={tmp_path}", "--method=ptr"])
    write_config(resolve(config, datetime.now()).config, tmp_path)
    resumed = ["--resume=true", f"--output_dir={tmp_path}"]
    read_flags([*resumed, "--log_freq=7", "--steps=9000"])
    with pytest.raises(ConfigError, match=words):
        read_flags([*resumed, flag])


@pytest.mark.parametrize("word", ["no", "false", "False"])
def test_not_resuming_is_said_in_several_ways(word):
    config, checkpoint = read_flags(["--dataset.repo_id=data", f"--resume={word}"])
    assert (config.resume, checkpoint) == (False, None)


def test_settings_of_one_dataset_beside_several_are_refused(tmp_path):
    file = tmp_path / "mix.yaml"
    file.write_text("dataset: {sources: [{repo_id: a}, {repo_id: b}]}\n")
    config, _ = read_flags([f"--config_path={file}", "--dataset.normaliser=identity"])
    with pytest.raises(ConfigError, match=r"dataset\.normaliser is set beside dataset.sources"):
        config.dataset.data_config(preset("tiny"))


def test_precision_is_the_flags_or_what_accelerate_was_told(monkeypatch):
    plain, _ = read_flags(["--dataset.repo_id=data"])
    flagged, _ = read_flags(["--dataset.repo_id=data", "--mixed_precision=no"])
    assert resolve(plain, datetime.now()).config.mixed_precision == "no"
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert resolve(plain, datetime.now()).config.mixed_precision == "bf16"
    assert resolve(flagged, datetime.now()).config.mixed_precision == "no"
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp8")
    with pytest.raises(ConfigError, match="accelerate asks for the precision 'fp8'"):
        resolve(plain, datetime.now())


def test_a_run_from_a_trained_policy_is_named_after_it():
    config, _ = read_flags(["--dataset.repo_id=data", "--policy.path=runs/mine", "--method=sft"])
    assert resolve(config, datetime.now()).config.job_name == "sft_mine"
