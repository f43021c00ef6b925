"""Settings of a training run, spelt as LeRobot spells them; what is left open is filled in by ``resolve``."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.method.ptr.config import APPLY, PTRConfig
from ptr_robot.method.ptr.run_length import scaled
from ptr_robot.method.scoring.screen import ScreeningConfig
from ptr_robot.policy.interface import PolicyShape
from ptr_robot.policy.policy_type import PAPER_SCALE, PolicyChoice, TrainingScale
from ptr_robot.policy.registry import DEFAULT_TYPE, policy_type
from ptr_robot.train.methods.registry import training_method

PRECISIONS = ("no", "bf16")
WANDB_MODES = ("online", "offline", "disabled")
PAPER_LEARNING_RATE_WARMUP = 2000
MAX_SEED = 2**63  # what torch takes
_ALWAYS_READ = ("scorer.enabled", "belief.enabled", "check_inputs")


@dataclass(frozen=True)
class DatasetConfig(SourceConfig):
    """One dataset under LeRobot's flags, or several as ``sources`` in a file, and how they are cut into segments."""

    # A hub id (owner/name) or the folder of a dataset.
    repo_id: str = ""
    # Several datasets in place of repo_id, from a file: [{repo_id: ..., weight: ...}, ...].
    sources: list[SourceConfig] = field(default_factory=list)
    # T: chunks in a segment.
    num_chunks: int = 4
    # Frames between the starts of two segments.
    stride: int = 1
    # Δ: frames from a chunk's start to its consequence; by default the chunk's length.
    offset_steps: int | None = None
    # With it, each chunk's Δ is drawn from offset_steps to this.
    offset_steps_max: int | None = None
    # pad, stretch, crop or bicubic_crop; by default as the policy's type has it, pad for most.
    resize: str | None = None
    # Where decoded frames are kept; by default ~/.cache/ptr_robot.
    cache_dir: str | None = None
    # A JSON file {"episode_index": weight}: a factor on the weight of every chunk of an episode.
    episode_weights: str | None = None
    # Leave unusable episodes out and go on.
    skip_bad_episodes: bool = False

    def data_config(self, policy: PolicyShape, resize: str = "pad") -> DataConfig:
        """The same data, cut to the policy's chunks and image size; ``resize``: where the settings do not say."""
        if bool(self.repo_id) == bool(self.sources):
            raise ConfigError(
                "give the data as --dataset.repo_id=FOLDER_OR_HUB_ID or, in a --config_path file, as dataset.sources"
            )
        names = [entry.name for entry in dataclasses.fields(SourceConfig)]
        for name in names if self.sources else ():
            if getattr(self, name) != getattr(DatasetConfig, name):
                raise ConfigError(
                    f"dataset.{name} is set beside dataset.sources, which say it each for themselves; give it to them"
                )
        single = SourceConfig(**{name: getattr(self, name) for name in names}) if self.repo_id else None
        return DataConfig(
            sources=[single] if single else list(self.sources),
            chunk_length=policy.chunk_length,
            num_chunks=self.num_chunks,
            stride=self.stride,
            offset_steps=self.offset_steps,
            offset_steps_max=self.offset_steps_max,
            image_size=policy.image_size,
            resize=self.resize or resize,
            cache_dir=self.cache_dir,
            skip_bad_episodes=self.skip_bad_episodes,
        )


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW as the paper has it."""

    # Peak learning rate; by default the paper's 1e-4, higher for small presets that start from nothing.
    lr: float | None = None
    # Decay rates of AdamW's running means of the gradient and of its square.
    betas: tuple[float, float] = (0.9, 0.999)
    # Added to the denominator of AdamW's update, for numerical stability.
    eps: float = 1e-8
    # Decoupled weight decay, on every parameter.
    weight_decay: float = 0.01
    # The gradient's norm is clipped to this; 0 does not clip.
    grad_clip_norm: float = 1.0

    def __post_init__(self) -> None:
        if self.lr is not None and not 0 < self.lr < math.inf:
            raise ConfigError(f"optimizer.lr is {self.lr}; it must be above 0 and finite")
        for name, meaning in (("grad_clip_norm", "0 (off)"), ("eps", "0"), ("weight_decay", "0")):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(
                    f"optimizer.{name} is {getattr(self, name)}; it must be {meaning} or more, and finite"
                )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"optimizer.betas are {self.betas}; both must be at least 0 and below 1")


@dataclass(frozen=True)
class SchedulerConfig:
    """A linear warm-up, then a cosine down to zero."""

    # Steps of warm-up; by default the paper's share of the run, 2000 of 60,000.
    num_warmup_steps: int | None = None

    def __post_init__(self) -> None:
        if self.num_warmup_steps is not None and self.num_warmup_steps < 0:
            raise ConfigError(f"scheduler.num_warmup_steps is {self.num_warmup_steps}; it must be 0 or more")


@dataclass(frozen=True)
class WeightsConfig:
    """What is done with the weights of episodes and samples, whoever finds them."""

    # loss: they scale the loss, as in the paper; sampler: segments are drawn in proportion, and the loss is plain.
    apply: str = "loss"

    def __post_init__(self) -> None:
        if self.apply not in APPLY:
            raise ConfigError(f"weights.apply is {self.apply!r}; {did_you_mean(self.apply, APPLY)}")


@dataclass(frozen=True)
class WandbConfig:
    """Weights & Biases, for those who use it."""

    # Send records to Weights & Biases.
    enable: bool = False
    # Project of Weights & Biases.
    project: str = "ptr-robot"
    # User or team of the project; by default your own.
    entity: str | None = None
    # Notes that are kept with the run.
    notes: str | None = None
    # online, offline or disabled.
    mode: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in (None, *WANDB_MODES):
            raise ConfigError(f"wandb.mode is {self.mode!r}; it must be one of: {', '.join(WANDB_MODES)}")


@dataclass(frozen=True)
class TrainConfig:
    """Post-train a policy: ptr train --dataset.repo_id=FOLDER --policy.preset=tiny --method=screened."""

    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    policy: PolicyChoice = field(default_factory=lambda: policy_type(DEFAULT_TYPE).choice())
    # screened, ptr (or paper), robust, small-data, sft-belief or sft.
    method: str = "screened"
    # Changes to the method's settings; by default none.
    ptr: PTRConfig | None = None
    # Verdicts to train by: ptr_episodes.parquet of ptr score, marks saved from the report (JSON), or one of each.
    verdicts: list[str] = field(default_factory=list)
    weights: WeightsConfig = field(default_factory=WeightsConfig)
    # How the method screened scores episodes before the first step.
    screening: ScreeningConfig = field(default_factory=ScreeningConfig)
    # The run folder; by default outputs/train/<day>/<time>_<job_name>.
    output_dir: str | None = None
    # Part of the default folder's name; by default method and preset.
    job_name: str | None = None
    # Go on with the run in output_dir, or with the one whose train_config.json is given as --config_path.
    resume: bool = False
    # Seed of the initial weights, the order of the data and all noise; PTR's heads and screening have their own.
    seed: int = 1000
    # Optimiser steps.
    steps: int | None = None
    # Segments of one process and micro-batch; by default so many that a step has the preset's number of chunks.
    batch_size: int | None = None
    # Micro-batches of a step.
    gradient_accumulation_steps: int = 1
    # Processes that read data; 0: the run reads itself.
    num_workers: int = 2
    # Steps between two records.
    log_freq: int | None = None
    # Steps between two checkpoints; the last step always has one.
    save_freq: int | None = None
    # no or bf16; by default what accelerate launch was told, otherwise no.
    mixed_precision: str | None = None
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", training_method(self.method).name)  # an alias ends here
        if self.mixed_precision is not None and self.mixed_precision not in PRECISIONS:
            hint = did_you_mean(self.mixed_precision, PRECISIONS)
            raise ConfigError(f"mixed_precision is {self.mixed_precision!r}; {hint}")
        for name in ("steps", "batch_size", "gradient_accumulation_steps", "log_freq", "save_freq"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        for name in ("num_workers", "seed"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if self.seed >= MAX_SEED:
            raise ConfigError(f"seed is {self.seed}; it must be below 2 to the 63rd")
        if self.job_name is not None and Path(self.job_name).name != self.job_name:
            raise ConfigError(f"job_name is {self.job_name!r}; it is a name: for a folder, give --output_dir")


@dataclass(frozen=True)
class RunPlan:
    """A config with nothing left open, and the values that were, under types that say so."""

    config: TrainConfig
    ptr: PTRConfig
    output_dir: Path
    steps: int
    batch_size: int
    log_freq: int
    save_freq: int
    learning_rate: float
    num_warmup_steps: int


def chosen_precision(config: TrainConfig) -> str:
    """That of the flag, or what ``accelerate launch`` was told."""
    precision = config.mixed_precision or os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    if precision not in PRECISIONS:
        raise ConfigError(
            f"accelerate asks for the precision {precision!r}; it must be one of: {', '.join(PRECISIONS)}"
        )
    return precision


def unread_setting(ptr: PTRConfig, names: Iterable[str]) -> tuple[str, str] | None:
    """The first of these dotted settings of PTR that nothing looks at, and why; None where all are read."""
    for name in names:
        group = name.partition(".")[0]
        is_on = ptr.belief.enabled if group == "belief" else ptr.scorer.enabled
        if not is_on and name not in _ALWAYS_READ:
            return name, "has no belief tokens" if group == "belief" else "scores nothing"
    return None


def default_batch_size(config: TrainConfig, scale: TrainingScale) -> int:
    """Segments of one process and micro-batch that make up the scale's chunks of a step, at least one."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))  # as torchrun and accelerate launch say
    parts = config.dataset.num_chunks * config.gradient_accumulation_steps * processes
    return max(1, scale.global_chunks // parts)


def resolve(config: TrainConfig, now: datetime) -> RunPlan:
    """Fill in everything that the user left open."""
    scale = PAPER_SCALE if config.policy.path else config.policy.scale
    steps, log_freq = config.steps or scale.steps, config.log_freq or scale.log_freq
    batch_size, save_freq = config.batch_size or default_batch_size(config, scale), config.save_freq or scale.save_freq
    learning_rate = config.optimizer.lr or scale.learning_rate
    warmup = config.scheduler.num_warmup_steps
    warmup = scaled(PAPER_LEARNING_RATE_WARMUP, steps) if warmup is None else warmup
    ptr = config.ptr or training_method(config.method).ptr_config(steps=steps, log_freq=log_freq)
    if ptr.weights.apply != "loss" and config.weights.apply == "loss":
        raise ConfigError(
            f"ptr.weights.apply is {ptr.weights.apply!r}; give --weights.apply, which holds for every weight"
        )
    ptr = dataclasses.replace(ptr, weights=dataclasses.replace(ptr.weights, apply=config.weights.apply))
    policy_name = Path(config.policy.path).expanduser().name if config.policy.path else config.policy.label
    job_name = config.job_name or f"{config.method}_{policy_name}"
    output_dir = config.output_dir or f"outputs/train/{now:%Y-%m-%d}/{now:%H-%M-%S}_{job_name}"
    resolved = dataclasses.replace(
        config,
        ptr=ptr,
        output_dir=output_dir,
        job_name=job_name,
        resume=False,  # the next run that reads this says for itself whether it resumes
        steps=steps,
        batch_size=batch_size,
        log_freq=log_freq,
        save_freq=save_freq,
        mixed_precision=chosen_precision(config),
        optimizer=dataclasses.replace(config.optimizer, lr=learning_rate),
        scheduler=SchedulerConfig(warmup),
    )
    return RunPlan(
        config=resolved,
        ptr=ptr,
        output_dir=Path(output_dir).expanduser(),
        steps=steps,
        batch_size=batch_size,
        log_freq=log_freq,
        save_freq=save_freq,
        learning_rate=learning_rate,
        num_warmup_steps=warmup,
    )
