"""Puts a run's parts together: the policy, the data cut for it, PTR beside it, and the checks that they fit."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ptr_robot.data.segments.batch import UNIFIED_DIM
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.data.segments.loader import SegmentLoader, make_loader
from ptr_robot.method.ptr.algorithm import PTR
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.method.ptr.targets import EMATargetEncoder
from ptr_robot.method.scoring.screen import Screening
from ptr_robot.policy.interface import Policy
from ptr_robot.train.checkpoint import PRETRAINED, STATE
from ptr_robot.train.config import RunPlan
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
from ptr_robot.train.starting_policy import StartingPolicy


@dataclass(frozen=True)
class RunParts:
    """What a training loop works with, before it is spread over processes."""

    module: TrainingModule
    policy: Policy
    loader: SegmentLoader
    sources: tuple[SourceRecord, ...]
    everything: SegmentDataset  # with the episodes that screening left out
    screening: Screening | None = None  # of the method "screened"


def build_parts(
    plan: RunPlan,
    *,
    checkpoint: Path | None = None,  # where a resumed run goes on: its policy is loaded here, the rest later
    rank: int = 0,
    world_size: int = 1,
    device: torch.device | None = None,  # where the run trains; None: the CPU
) -> RunParts:
    """Everything that the settings describe; complaints come before anything is trained."""
    config, device = plan.config, device or torch.device("cpu")
    start = StartingPolicy.find(config.policy, plan.ptr, checkpoint)
    data = config.dataset.data_config(start.shape, start.kind.resize(start.shape))
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
    start.check_data(loader.dataset, sources)
    policy = start.build(config.seed)
    policy.check_instructions(text for source in loader.dataset.sources for text in source.index.tasks.values())
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
    start.restore_belief(ptr.belief)
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


def build_ptr(config: PTRConfig, policy: Policy, dataset: SegmentDataset, facts: SampleFacts) -> PTR:
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


def source_records(loader: SegmentLoader) -> tuple[SourceRecord, ...]:
    """What a checkpoint remembers of each source."""
    config = loader.dataset.config
    return tuple(
        SourceRecord.of(source, image_size=config.image_size, resize=config.resize) for source in loader.dataset.sources
    )
