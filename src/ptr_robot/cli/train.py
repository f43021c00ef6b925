"""``ptr train --dataset.repo_id=FOLDER``: post-train a policy with PTR, plain fine-tuning, or anything between."""

from __future__ import annotations

import dataclasses
import json
import operator
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ptr_robot.cli.flags import given_value, without_flag
from ptr_robot.cli.policy_flags import import_packages, parse_train_flags
from ptr_robot.errors import ConfigError, MissingExtraError
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.method.scoring.screen import ScreeningConfig
from ptr_robot.text_files import read_yaml
from ptr_robot.train.config import TrainConfig, resolve, unread_setting
from ptr_robot.train.config_file import CONFIG_FILE, flattened, merged
from ptr_robot.train.given_verdicts import SCORES
from ptr_robot.train.methods.registry import training_method

# What a checkpoint would not fit, or would mean something else with.
_BEGUN_WITH = (
    *(f"dataset.{name}" for name in ("normaliser", "resize", "state_key", "action_key")),
    "gradient_accumulation_steps",
)


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    config, checkpoint = read_flags(import_packages(arguments))
    from ptr_robot.train.loop import train

    result = train(config, checkpoint=checkpoint)
    if result.is_main:
        _draw(result.output_dir)
    return result.exit_code


def _draw(run: Path) -> None:
    """Figures are an extra: a run without it ends well and says what it lacks."""
    from ptr_robot.train.curves import draw_curves

    try:
        sys.stderr.write(f"curves: {draw_curves(run)}\n")
    except MissingExtraError as error:
        sys.stderr.write(f"no curves.png: {error}\n")


def read_flags(arguments: list[str]) -> tuple[TrainConfig, Path | None]:
    """The settings and, where a resumed run names it, the checkpoint to go on from.

    Settings come from the method's own, then the file, then the flags, each over the one before.
    """
    checkpoint = None
    if str(given_value(arguments, "resume")).lower() not in ("none", "false", "no", "off", "0"):
        arguments, checkpoint = _resumed(arguments)
    config = parse_train_flags(arguments)
    if config.resume and given_value(arguments, "resume") is None:
        raise ConfigError("resume stands in the file; say it with a flag: ptr train --resume=true --output_dir=RUN")
    _check_groups(config, arguments)
    if config.ptr is not None:
        config = _over_method(config, arguments)
        _check_read(config, arguments)
    if config.resume:
        _check_unchanged(config, arguments)
    return config, checkpoint


def _check_groups(config: TrainConfig, arguments: Sequence[str]) -> None:
    """Refuse settings of PTR, or of what comes before training, where the method has none."""
    method = training_method(config.method)
    if not method.has_ptr_settings and (words := _words(arguments, "--ptr.")):
        raise ConfigError(
            f"{words[0]} is a setting of PTR, of which the method {config.method!r} has none; add --method=ptr"
        )
    does_screen = "screening" in method.own_settings
    if (not does_screen or config.resume) and (words := _words(arguments, "--screening.")):
        why = "the run was screened when it began" if does_screen else f"the method {config.method!r} does not screen"
        raise ConfigError(f"{words[0]} would change nothing: {why}; take it out")
    has_scores = any(Path(file).suffix.lower() == SCORES for file in config.verdicts)
    if has_scores and (words := _words(arguments, "--screening.")):
        raise ConfigError(f"{words[0]} would change nothing: the verdicts bring their scores; take it out")
    if not does_screen and config.screening != ScreeningConfig():
        raise ConfigError(f"the file's screening would change nothing: the method {config.method!r} does not screen")


def _check_read(config: TrainConfig, arguments: Sequence[str]) -> None:
    """Refuse settings of PTR that the method, without scores or without belief tokens, never looks at.

    Those of a file count where they differ from the method's own: a run's train_config.json has all of them.
    """
    assert config.ptr is not None
    words = {word.removeprefix("--ptr.").partition("=")[0]: word for word in _words(arguments, "--ptr.")}
    own = _timeless(resolve(dataclasses.replace(config, ptr=None), datetime.now()).ptr)
    timeless = _timeless(config.ptr)
    for name in flattened(dataclasses.asdict(own)):
        if operator.attrgetter(name)(own) != operator.attrgetter(name)(timeless):
            words.setdefault(name, f"ptr.{name}={operator.attrgetter(name)(config.ptr)}")
    if (unread := unread_setting(config.ptr, words)) is not None:
        name, why = unread
        raise ConfigError(f"{words[name]} would change nothing: the method {config.method!r} {why}; add --method=ptr")


def _check_unchanged(config: TrainConfig, arguments: Sequence[str]) -> None:
    """A resumed run has the policy and the units that it began with."""
    file = _settings_of_the_run(arguments)
    begun = parse_train_flags([f"--config_path={file}"])
    method = (f"ptr.{name}" for name in flattened(dataclasses.asdict(PTRConfig())))
    names = [*_begun_policy(config), *_BEGUN_WITH, *method]
    for name in names:
        try:
            old, new = (operator.attrgetter(name)(settings) for settings in (begun, config))
        except AttributeError as error:
            raise ConfigError(f"{file} lacks the setting {name}, which a run writes; put its own file back") from error
        if old != new:
            raise ConfigError(f"the run was begun with --{name}={old} and cannot go on with {new}; start another run")


def _begun_policy(config: TrainConfig) -> list[str]:
    names = [entry.name for entry in dataclasses.fields(config.policy)]
    return [f"policy.{name}" for name in names if name not in ("device", "allow_other_robot")]


def _settings_of_the_run(arguments: Sequence[str]) -> Path:
    """Those that a resumed run began with: in its folder or, where that was moved, as they are named."""
    in_folder = Path(given_value(arguments, "output_dir") or "").expanduser() / CONFIG_FILE
    return in_folder if in_folder.is_file() else Path(given_value(arguments, "config_path") or "").expanduser()


def _words(arguments: Sequence[str], start: str) -> list[str]:
    return [word for word in arguments if word.startswith(start)]


def _resumed(arguments: list[str]) -> tuple[list[str], Path | None]:
    """Name the run's own settings and folder, wherever the run lies now."""
    output_dir, config_path = given_value(arguments, "output_dir"), given_value(arguments, "config_path")
    if config_path is None:
        if output_dir is None:
            raise ConfigError("--resume=true needs the run: --output_dir=RUN, or --config_path=RUN/train_config.json")
        file = Path(output_dir).expanduser() / CONFIG_FILE
        if not file.is_file():
            raise ConfigError(f"{output_dir} holds no run to resume ({CONFIG_FILE} is missing)")
        return [*arguments, f"--config_path={file}"], None
    if Path(config_path).name != CONFIG_FILE:
        raise ConfigError(
            f"a resumed run has its own settings, so --config_path={config_path} is not read; name the run alone: "
            "--resume=true --output_dir=RUN, and what may change as flags"
        )
    folder = Path(config_path).expanduser().resolve().parent
    checkpoint = folder.parent if folder.name == "pretrained_model" else None
    run = checkpoint.parent.parent if checkpoint else folder
    return [*arguments, *([] if output_dir else [f"--output_dir={run}"])], checkpoint


def _over_method(config: TrainConfig, arguments: list[str]) -> TrainConfig:
    """Read the settings again, with those of the method in place of PTR's defaults."""
    path = given_value(arguments, "config_path")
    settings: dict[str, Any] = read_yaml(Path(path).expanduser()) if path else {}
    changes = settings.get("ptr") or {}
    if changes and training_method(settings.get("method", config.method)).name != config.method:
        if config.resume:
            raise ConfigError(
                f"the run was begun with the method {settings['method']!r} and cannot go on with {config.method!r}; "
                "start another run"
            )
        raise ConfigError(
            f"{path} has ptr settings for the method {settings['method']!r} and --method is {config.method!r}; "
            "take ptr out of the file, or name one method"
        )
    base = resolve(dataclasses.replace(config, ptr=None), datetime.now()).ptr
    has_others = config.ptr is not None and _timeless(config.ptr) != _timeless(base)
    if has_others and not training_method(config.method).has_ptr_settings:
        raise ConfigError(
            f"{path} has settings of PTR, of which the method {config.method!r} has none; add method: ptr, or take "
            "ptr out"
        )
    settings["ptr"] = merged(dataclasses.asdict(base), changes)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / CONFIG_FILE
        file.write_text(json.dumps(settings, default=str))  # YAML has dates, and here they are names
        return parse_train_flags([*without_flag(arguments, "config_path"), f"--config_path={file}"])


def _timeless(config: PTRConfig) -> PTRConfig:
    """Without what follows from the length of a run."""
    return dataclasses.replace(
        config,
        targets=dataclasses.replace(config.targets, ema_decay=1.0),
        weights=dataclasses.replace(config.weights, warmup_steps=0),
        controller=dataclasses.replace(config.controller, interval_steps=1),
    )
