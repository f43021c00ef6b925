"""Reading a policy that ``lerobot-train`` saved, with its processors: nothing is unpickled, no foreign code runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ptr_robot.errors import ConfigError, DataError, PTRError, require
from ptr_robot.policy.policy_files import declared_type
from ptr_robot.text_files import read_json_object

CONFIG, WEIGHTS = "config.json", "model.safetensors"
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PROCESSORS = ("policy_preprocessor.json", "policy_postprocessor.json")
BASES = ("act", "diffusion", "smolvla", "pi0", "pi05")
TYPES = (*BASES, *(f"ptr_{base}" for base in BASES), "ptr_vla")
REMEDY = "copy the checkpoint again"


@dataclass(frozen=True)
class SavedLeRobotPolicy:
    """A policy with the steps before and after it."""

    config: Any  # LeRobot's PreTrainedConfig
    policy: nn.Module
    preprocess: Callable[[dict[str, Any]], dict[str, Any]]
    postprocess: Callable[[Tensor], Tensor]
    device: torch.device


def find_pretrained(run: Path) -> Path | None:
    """The folder that holds a policy of LeRobot's, for a run, a checkpoint or that folder; None where there is none."""
    for folder in (run, run / "pretrained_model", run / "checkpoints" / "last" / "pretrained_model"):
        if _policy_type(folder) is not None:
            return folder
    return None


def load_saved(run: Path, device: str = "cpu") -> SavedLeRobotPolicy:
    """The policy of a run of ``lerobot-train``, ready to act."""
    folder = find_pretrained(run)
    if folder is None:
        raise DataError(f"{run} holds no LeRobot policy; give a run of lerobot-train, a checkpoint or pretrained_model")
    kind = _policy_type(folder)
    if kind not in TYPES:
        raise ConfigError(f"{folder} is a policy of type {kind!r}; those that can act here: {', '.join(TYPES)}")
    require("lerobot", "lerobot")
    for name in PROCESSORS:
        _check_steps(folder / name)
    try:
        return _load(folder, torch.device(device))
    except (PTRError, ImportError):
        raise
    except Exception as error:  # whatever LeRobot and the libraries below it make of a damaged file
        raise DataError(f"{folder} cannot be loaded by LeRobot ({type(error).__name__}: {error}); {REMEDY}") from error


def _policy_type(folder: Path) -> str | None:
    """The type that LeRobot's config.json names; one of ``ptr train`` has another layout."""
    if not (folder / CONFIG).is_file() or declared_type(folder) is not None:
        return None
    kind = read_json_object(folder / CONFIG, REMEDY).get("type")
    return kind if isinstance(kind, str) else None


def _check_steps(file: Path) -> None:
    """LeRobot imports the class that a step names; of a stranger's checkpoint, LeRobot's own and ours alone."""
    if not file.is_file():
        raise DataError(f"{file}: no such file; LeRobot saves a policy's processors beside it")
    steps = read_json_object(file, REMEDY).get("steps")
    for step in steps if isinstance(steps, list) else [None]:
        if not isinstance(step, dict):
            raise DataError(f"{file} has no list of steps; {REMEDY}")
        home = str(step.get("class", ""))
        if "registry_name" not in step and not home.startswith(("lerobot.", "ptr_robot.lerobot.")):
            raise DataError(f"{file} names the step {home!r}, which is not LeRobot's; it is not imported")


def _load(folder: Path, device: torch.device) -> SavedLeRobotPolicy:
    for name in ("configuration_ptr", "configuration_ptr_pi"):
        importlib.import_module(f"ptr_robot.lerobot.{name}")  # registers our types
    configs = importlib.import_module("lerobot.configs.policies")
    factory = importlib.import_module("lerobot.policies.factory")
    config = configs.PreTrainedConfig.from_pretrained(folder)
    config.device, config.pretrained_path = str(device), folder
    _check_inputs(config)
    policy = _load_weights(factory.get_policy_class(config.type), config, folder)
    importlib.import_module(type(config).__module__.replace(".configuration_", ".processor_"))  # registers its steps
    before, after = factory.make_pre_post_processors(
        config,
        pretrained_path=str(folder),
        preprocessor_overrides={"device_processor": {"device": str(device)}},
    )
    return SavedLeRobotPolicy(config, policy.to(device).eval(), before, after, device)


def _check_inputs(config: Any) -> None:
    known = {*config.image_features, "observation.state"}
    if others := sorted(set(config.input_features) - known):
        raise ConfigError(f"{config.type} was trained with {', '.join(others)}; only states and images can be sent")


def _load_weights(policy_class: Any, config: Any, folder: Path) -> Any:
    if not getattr(config, "use_peft", False):
        if not (folder / WEIGHTS).is_file():
            raise DataError(f"{folder / WEIGHTS}: no such file; {REMEDY}")
        return policy_class.from_pretrained(folder, config=config)
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise DataError(f"{folder / ADAPTER_WEIGHTS}: no such file; {REMEDY}")
    peft = require("peft", "lora")
    adapter = peft.PeftConfig.from_pretrained(str(folder))
    policy = policy_class.from_pretrained(adapter.base_model_name_or_path, config=config)
    return peft.PeftModel.from_pretrained(policy, str(folder), config=adapter).get_base_model()
