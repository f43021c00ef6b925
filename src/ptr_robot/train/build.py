"""Puts a run's parts together: the policy, the data cut for it, PTR beside it, and the checks that they fit."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ptr_robot.data.segments.batch import UNIFIED_DIM
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.data.segments.loader import SegmentLoader, make_loader
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.method.ptr.algorithm import PTR
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.method.ptr.targets import EMATargetEncoder
from ptr_robot.method.scoring.screen import Screening
from ptr_robot.policy.robot_record import check_robot
from ptr_robot.policy.save import SavedPolicy, load_policy
from ptr_robot.policy.vla.config import PolicyConfig
from ptr_robot.policy.vla.policy import MixturePolicy, build_policy
from ptr_robot.policy.vla.presets import preset
from ptr_robot.policy.vla.pretrained import load_action_expert, load_language_model, load_vision_tower
from ptr_robot.train.checkpoint import PRETRAINED, STATE
from ptr_robot.train.config import PolicyChoice, RunPlan
from ptr_robot.train.module import TrainingModule
from ptr_robot.train.prior_weights import read_prior_weights
from ptr_robot.train.samples import SampleFacts, target_width
from ptr_robot.train.screening import (
    check_screened,
    corrected_instructions,
    episode_weights,
    kept_sources,
    read_screening,
    screen_once,
)
from ptr_robot.train.sources import SourceRecord, check_same_sources, read_sources
from ptr_robot.train.trained import pretrained_folder, restore_belief


@dataclass(frozen=True)
class RunParts:
    """What a training loop works with, before it is spread over processes."""

    module: TrainingModule
    policy: MixturePolicy
    loader: SegmentLoader
    sources: tuple[SourceRecord, ...]
    everything: SegmentDataset  # with the episodes that screening left out
    screening: Screening | None = None  # of the method "screened"


def build_parts(
    plan: RunPlan,
    *,
    checkpoint: Path | None = None,  # where a resumed run goes on: its weights are loaded later
    rank: int = 0,
    world_size: int = 1,
    device: torch.device | None = None,  # where the run trains; None: the CPU
) -> RunParts:
    """Everything that the settings describe; complaints come before anything is trained."""
    config, device = plan.config, device or torch.device("cpu")
    choice = resumed_choice(config.policy, checkpoint) if checkpoint else config.policy
    saved = load_policy(pretrained_folder(Path(choice.path))) if choice.path else None
    policy_config = saved.policy.config if saved else chosen_config(choice, plan.ptr)
    check_belief(policy_config, plan.ptr)
    if checkpoint and not config.policy.path:
        check_same_policy(policy_config, chosen_config(config.policy, plan.ptr), checkpoint)
    data = config.dataset.data_config(policy_config)
    open_loader = functools.partial(
        make_loader,
        batch_size=plan.batch_size,
        seed=config.seed,
        num_workers=config.num_workers,
        rank=rank,
        world_size=world_size,
        pin_memory=device.type == "cuda",
    )
    loader = open_loader(data)
    sources = source_records(loader)
    check_views(loader, policy_config)
    if saved and not choice.allow_other_robot:
        for source in sources:
            check_robot(saved.robots, source.robot_record, str(choice.path))
    policy = first_policy(choice, policy_config, saved, config.seed)
    policy.text.check(text for source in loader.dataset.sources for text in source.index.tasks.values())
    facts = sample_facts(loader.dataset, config.dataset.episode_weights)
    screening, everything = None, loader.dataset
    if config.method == "screened":
        screening = read_screening(checkpoint / STATE) if checkpoint else None
        screening = screening or screen_once(
            loader.dataset,
            facts,
            config.screening,
            vision_tower=policy.vision_tower,
            num_prefix_tokens=policy.num_prefix_tokens,
            device=device,
            num_workers=config.num_workers,
            rank=rank,
            world_size=world_size,
        )
        check_screened(screening, loader.dataset)
        weights = episode_weights(screening, loader.dataset.num_episodes)
        facts = facts.times(weights)
        assert facts.prior_weights is not None
        data = dataclasses.replace(data, sources=kept_sources(loader.dataset, facts.prior_weights, data.sources))
        corrected = corrected_instructions(loader.dataset, screening)
        everything, loader = loader.dataset, open_loader(data, instructions=corrected)
        sources = source_records(loader)  # what is kept has statistics of its own
    if checkpoint:
        check_same_sources(read_sources(checkpoint / PRETRAINED), sources)
    ptr = build_ptr(plan.ptr, policy, loader.dataset, facts)
    if choice.path and ptr.belief is not None:
        restore_belief(ptr.belief, Path(choice.path))
    module = TrainingModule(policy, ptr, facts)
    return RunParts(
        module=module.train(), policy=policy, loader=loader, sources=sources, everything=everything, screening=screening
    )


def sample_facts(dataset: SegmentDataset, episode_weights: str | None) -> SampleFacts:
    """The slots that the run's robots act by, and the user's weights of episodes."""
    masks = [source.action_map.slots.mask for source in dataset.sources]
    slots = torch.from_numpy(np.flatnonzero(np.any(masks, axis=0)))
    prior = read_prior_weights(Path(episode_weights).expanduser(), dataset) if episode_weights else None
    return SampleFacts(slots, prior)


def build_ptr(config: PTRConfig, policy: MixturePolicy, dataset: SegmentDataset, facts: SampleFacts) -> PTR:
    """PTR with the policy's widths; targets come from its vision tower, or from states where it has none."""
    encoder = None
    if config.scorer.enabled and policy.vision_tower is not None:
        encoder = EMATargetEncoder(policy.vision_tower, num_prefix_tokens=policy.num_prefix_tokens)
    sizes = policy.sizes
    return PTR(
        config,
        context_dim=sizes.context_dim,
        action_dim=sizes.action_dim,
        target_dim=target_width(encoder),
        action_state_dim=sizes.action_state_dim,
        state_dim=UNIFIED_DIM,
        action_target_dim=sizes.chunk_length * len(facts.action_slots) if config.scorer.needs_recorded_actions else 0,
        num_episodes=dataset.num_episodes,
        target_encoder=encoder,
    )


def resumed_choice(choice: PolicyChoice, checkpoint: Path) -> PolicyChoice:
    """What a resumed run builds: the checkpoint's policy and tokenizer, and nothing that it once started from."""
    return PolicyChoice(path=str(checkpoint), device=choice.device, allow_other_robot=choice.allow_other_robot)


def chosen_config(choice: PolicyChoice, ptr: PTRConfig) -> PolicyConfig:
    """The preset with the changes that the flags ask for."""
    config = preset(choice.preset)
    changes: dict[str, Any] = _given(head=choice.head, chunk_length=choice.chunk_length)
    if choice.max_tokens is not None:
        changes["language"] = dataclasses.replace(config.language, max_tokens=choice.max_tokens)
    vision: dict[str, Any] = _given(image_size=choice.image_size, augment=choice.augment)
    if vision and config.vision is None:
        raise ConfigError(f"policy.{next(iter(vision))} is set, but the preset {choice.preset!r} looks at no images")
    if config.vision is not None:
        changes["vision"] = dataclasses.replace(config.vision, **vision)
    if ptr.belief.enabled:
        changes["num_belief_tokens"] = ptr.belief.num_tokens
    return dataclasses.replace(config, **changes)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def first_policy(choice: PolicyChoice, config: PolicyConfig, saved: SavedPolicy | None, seed: int) -> MixturePolicy:
    """The policy as it enters the first step."""
    policy = saved.policy if saved else build_policy(config, seed=seed)
    if choice.language_model:
        load_language_model(policy, choice.language_model)
    if choice.action_expert:
        load_action_expert(policy, choice.action_expert)
    if choice.vision_weights:
        load_vision_tower(policy, choice.vision_weights)
    return policy


def check_belief(policy: PolicyConfig, ptr: PTRConfig) -> None:
    """A trained policy cannot change how many belief tokens it takes."""
    if ptr.belief.enabled and policy.num_belief_tokens != ptr.belief.num_tokens:
        raise ConfigError(
            f"ptr.belief.num_tokens is {ptr.belief.num_tokens} and the policy takes {policy.num_belief_tokens}; set "
            f"--ptr.belief.num_tokens={policy.num_belief_tokens}"
        )


def check_same_policy(saved: PolicyConfig, chosen: PolicyConfig, checkpoint: Path) -> None:
    """A resumed run has the policy that its settings describe, but for what loading published weights changed."""
    language = dataclasses.replace(chosen.language, tokenizer=saved.language.tokenizer)
    vision = chosen.vision
    if vision is not None and saved.vision is not None:
        vision = dataclasses.replace(vision, mean=saved.vision.mean, std=saved.vision.std)
    if saved != dataclasses.replace(chosen, language=language, vision=vision):
        raise DataError(
            f"{checkpoint} holds a policy of another configuration than these settings describe; resume with the "
            "run's own settings"
        )


def check_views(loader: SegmentLoader, policy: PolicyConfig) -> None:
    """A policy that looks needs at least one camera."""
    if policy.vision is not None and not loader.dataset.num_views:
        names = ", ".join(source.config.repo_id for source in loader.dataset.sources)
        raise ConfigError(
            f"the policy looks at images and {names} has no camera; use a state-only preset: --policy.preset=tiny-state"
        )


def source_records(loader: SegmentLoader) -> tuple[SourceRecord, ...]:
    """What a checkpoint remembers of each source."""
    config = loader.dataset.config
    return tuple(
        SourceRecord.of(source, image_size=config.image_size, resize=config.resize) for source in loader.dataset.sources
    )
