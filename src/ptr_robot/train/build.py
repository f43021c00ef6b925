"""Puts a run's parts together: the policy, the data cut for it, PTR beside it, and the checks that they fit."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ptr_robot.data.segments.batch import UNIFIED_DIM
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.data.segments.loader import SegmentLoader, load_segments
from ptr_robot.errors import ConfigError
from ptr_robot.method.ptr.algorithm import PTR
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.method.ptr.targets import EMATargetEncoder
from ptr_robot.policy.interface import Policy
from ptr_robot.train.checkpoint_folders import PRETRAINED, STATE
from ptr_robot.train.config import RunPlan
from ptr_robot.train.given_verdicts import read_given_verdicts
from ptr_robot.train.methods.base import BeforeTraining, Preparation
from ptr_robot.train.methods.registry import training_method
from ptr_robot.train.module import TrainingModule
from ptr_robot.train.sampler_weights import batches_of_a_draw, draw_weights
from ptr_robot.train.samples import SampleFacts, target_width
from ptr_robot.train.sources import SourceRecord, check_same_sources, read_sources
from ptr_robot.train.starting_policy import StartingPolicy


@dataclass(frozen=True)
class RunParts:
    """What a training loop works with, before it is spread over processes."""

    module: TrainingModule
    policy: Policy
    loader: SegmentLoader
    sources: tuple[SourceRecord, ...]
    everything: SegmentDataset  # with the episodes that the method leaves out
    preparation: Preparation


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
    load = functools.partial(
        load_segments,
        batch_size=plan.batch_size,
        seed=config.seed,
        num_workers=config.num_workers,
        rank=rank,
        world_size=world_size,
        pin_memory=device.type == "cuda",
    )
    everything = SegmentDataset(data, config.seed)
    load(everything)  # whose batch may be too large, which is better said before the data is screened
    start.check_data(everything, source_records(everything))
    policy = start.build(config.seed)
    policy.check_instructions(text for source in everything.sources for text in source.index.tasks.values())
    method = training_method(config.method)
    saved_state = checkpoint / STATE if checkpoint else None
    verdicts = read_given_verdicts(config.verdicts, everything)
    before = BeforeTraining(
        config, everything, policy, verdicts, saved_state, device=device, rank=rank, world_size=world_size
    )
    preparation = method.prepare(before)
    if verdicts is not None:
        preparation = verdicts.applied_to(preparation, everything.sources[0].index, before.given_weights())
    is_drawn, given = plan.ptr.weights.apply == "sampler", preparation.episode_weights
    if is_drawn:
        check_has_weights(plan, given)
    drawn = draw_weights(given, None, everything.num_episodes) if is_drawn else None
    loader = load(preparation.applied_to(everything, drawn))
    if drawn is not None:
        loader.draw_by(drawn, batches_of_a_draw(plan))
    sources = source_records(loader.dataset)  # what is kept has statistics of its own
    facts = SampleFacts.of(everything, None if is_drawn else given)  # drawn by weight, the loss is plain
    if checkpoint:
        check_same_sources(read_sources(checkpoint / PRETRAINED), sources)
    ptr = build_ptr(plan.ptr, policy, loader.dataset, facts)
    start.restore_belief(ptr.belief)
    module = TrainingModule(policy, ptr, facts)
    return RunParts(module.train(), policy, loader, sources, everything, preparation)


def check_has_weights(plan: RunPlan, given: Tensor | None) -> None:
    """Refuse a sampler that would have nothing to draw by."""
    if given is None and not plan.ptr.scorer.enabled:
        raise ConfigError(
            f"weights.apply is sampler, and the method {plan.config.method!r} has no weights; give "
            "dataset.episode_weights or verdicts, or choose a method that finds weights"
        )


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


def source_records(dataset: SegmentDataset) -> tuple[SourceRecord, ...]:
    """What a checkpoint remembers of each source."""
    config = dataset.config
    return tuple(
        SourceRecord.of(source, image_size=config.image_size, resize=config.resize) for source in dataset.sources
    )
