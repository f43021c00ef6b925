"""Supervised fine-tuning on what screening keeps, with its weights and the instructions that it corrects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.method.scoring.config import SCREENING_VERSION
from ptr_robot.method.scoring.quality import QUALITY_VERSION
from ptr_robot.method.scoring.screen import Screening
from ptr_robot.train.methods.base import BeforeTraining, EpisodeFinding, Preparation, TrainingMethod
from ptr_robot.train.methods.registry import register_method
from ptr_robot.train.samples import SampleFacts
from ptr_robot.train.screening import screen_once
from ptr_robot.train.tensor_files import read_tensors, save_tensors

SCREENING_FILE = "screening.safetensors"
_FIRST_NAMES = {"standings": "z_scores"}  # of fields, as version 0.1 wrote them


@register_method
class Screened(TrainingMethod):
    """Every episode is scored before the first step; the scores decide what is trained on."""

    name = "screened"
    has_ptr_settings = False
    own_settings = ("screening",)
    leaves_out_episodes = True

    def paper_config(self) -> PTRConfig:
        """Nothing of PTR is on in training."""
        return PTRConfig.preset("sft")

    def scores_episodes(self, ptr: PTRConfig) -> bool:  # noqa: ARG002 (before training, whatever happens in it)
        """Before training."""
        return True

    def versions(self, ptr: PTRConfig) -> dict[str, Any]:  # noqa: ARG002
        """Those of the two scorers."""
        return {"screening_version": SCREENING_VERSION, "quality_version": QUALITY_VERSION}

    def prepare(self, run: BeforeTraining) -> Preparation:
        """Screen, or take what the run found when it began; the user's weights are factors on what is found."""
        given = run.given_weights()
        if run.verdicts is not None and run.verdicts.has_scores:
            return Preparation(episode_weights=given, findings=run.verdicts.findings)
        screening = read_screening(run.saved_state) if run.saved_state else None
        screening = screening or screen_once(
            run.dataset,
            SampleFacts.of(run.dataset),
            run.config.screening,
            vision_tower=run.policy.vision_tower,
            num_prefix_tokens=run.policy.num_prefix_tokens,
            device=run.device,
            num_workers=run.config.num_workers,
            rank=run.rank,
            world_size=run.world_size,
        )
        check_screened(screening, run.dataset)
        weights = found_weights(screening, run.dataset.num_episodes)
        weights = weights if given is None else given * weights
        return Preparation(
            episode_weights=weights,
            kept=kept_episodes(run.dataset, weights),
            instructions=corrected_instructions(run.dataset, screening),
            findings=findings_of(screening),
            summary=describe_screening(screening, run.dataset),
            state={entry.name: getattr(screening, entry.name) for entry in fields(screening)},
        )

    def save_state(self, preparation: Preparation, folder: Path) -> None:
        """A resumed run goes on with the episodes it began with, whatever screening would find now."""
        if preparation.state:  # nothing was screened where the verdicts are given
            save_tensors(dict(preparation.state), folder / SCREENING_FILE)


def read_screening(folder: Path) -> Screening | None:
    """None where the run has not kept it."""
    file = folder / SCREENING_FILE
    if not file.is_file():
        return None
    tensors = {_FIRST_NAMES.get(name, name): tensor for name, tensor in read_tensors(file).items()}
    if tensors.keys() != {entry.name for entry in fields(Screening)}:
        raise DataError(f"{file} is not a record of screening; resume from another checkpoint")
    return Screening(**tensors)


def check_screened(screening: Screening, dataset: SegmentDataset) -> None:
    """Refuse what was found of other data: a resumed run must have the episodes and instructions it began with."""
    episodes = {
        int(first) + episode.episode_index
        for source, first in zip(dataset.sources, dataset.first_episodes, strict=True)
        for episode in source.index.episodes
    }
    is_known = set(screening.episode_ids.tolist()) <= episodes
    if not is_known or any(task >= len(dataset.task_ids) for task in screening.instructions.tolist()):
        raise ConfigError(
            f"cannot resume the data: screening judged {len(screening.episode_ids)} episodes, not all of which are "
            "there now; give the dataset and the episodes that the run began with"
        )


def found_weights(screening: Screening, num_episodes: int) -> Tensor:  # (episodes,)
    """A weight for every number of an episode; one for those that could not be judged."""
    weights = torch.ones(num_episodes)
    weights[screening.episode_ids] = screening.weights
    return weights


def kept_episodes(dataset: SegmentDataset, weights: Tensor) -> list[list[int]]:
    """Of each source, the episodes that weigh something.

    Leaving the others out and weighing them by zero have the same expectation, but batches without them are full.
    """
    kept = []
    for source, first in zip(dataset.sources, dataset.first_episodes, strict=True):
        numbers = [episode.episode_index for episode in source.index.episodes]
        kept.append([number for number in numbers if weights[first + number] > 0])
        if not kept[-1]:
            raise DataError(
                f"{source.config.repo_id}: the episodes that screening keeps all weigh nothing by "
                "dataset.episode_weights; give one of them a weight, or add --method=sft"
            )
    return kept


def corrected_instructions(dataset: SegmentDataset, screening: Screening) -> dict[int, str]:
    """The episodes that get another instruction than they came with, by episode_id."""
    texts = {number: text for text, number in dataset.task_ids.items()}
    found = (screening.episode_ids, screening.instructions, screening.is_corrected)
    rows = zip(*(column.tolist() for column in found), strict=True)
    return {episode: texts[task] for episode, task, is_corrected in rows if is_corrected}


def findings_of(screening: Screening) -> dict[int, EpisodeFinding]:
    """Score and weight of each episode that was scored, by episode_id."""
    columns = (screening.num_chunks, screening.z_scores, screening.weights)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    found = (EpisodeFinding(*row) for row in rows)
    return dict(zip(screening.episode_ids.tolist(), found, strict=True))


def describe_screening(screening: Screening, dataset: SegmentDataset) -> str:
    """One line: how many episodes are kept, and which are not, as far as they fit."""
    names = _episode_names(dataset)
    left_out, corrected = (
        [names[number] for number in screening.episode_ids[chosen].tolist()]
        for chosen in (screening.weights == 0, screening.is_corrected)
    )
    count, lighter = len(screening.episode_ids), int(((screening.weights > 0) & (screening.weights < 1)).sum())
    unjudged = sorted(names.keys() - set(screening.episode_ids.tolist()))
    rest = (
        f"; too short or too few to be judged, and kept: {_listed([names[number] for number in unjudged])}"
        if unjudged
        else ""
    )
    return (
        f"screened {count} episodes: {count - lighter - len(left_out)} are kept in full, {lighter} weigh less, "
        f"{_listed(left_out)} are out, "
        f"{_listed(corrected)} given another instruction{rest}"
    )


def _episode_names(dataset: SegmentDataset) -> dict[int, str]:
    """Each episode by its number, after the name of its dataset where there are several."""
    full = [source.config.repo_id for source in dataset.sources]
    short = [Path(name).name for name in full]
    unique = short if len(set(short)) == len(short) else full
    places = [f"{name}:" for name in unique] if len(full) > 1 else [""]
    return {
        first + episode.episode_index: f"{place}{episode.episode_index}"
        for source, first, place in zip(dataset.sources, dataset.first_episodes, places, strict=True)
        for episode in source.index.episodes
    }


def _listed(names: Sequence[str], most: int = 8) -> str:
    """How many, and the first of them: `2 (0, 19)`."""
    shown = [*names[:most], *(["..."] if len(names) > most else [])]
    return f"{len(names)} ({', '.join(shown)})" if names else "0"
