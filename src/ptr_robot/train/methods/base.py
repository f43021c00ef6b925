"""What a training method is: settings of PTR, and what it decides about the episodes before the first step."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.method.mixture import POPULATIONS_VERSION
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.method.ptr.run_length import in_proportion
from ptr_robot.policy.interface import Policy
from ptr_robot.train.episode_weights import read_episode_weights

if TYPE_CHECKING:
    from ptr_robot.train.config import TrainConfig
    from ptr_robot.train.given_verdicts import GivenVerdicts


@dataclass(frozen=True)
class BeforeTraining:
    """A run's data and policy as a method meets them before the first step."""

    config: TrainConfig
    dataset: SegmentDataset
    policy: Policy  # as it starts
    verdicts: GivenVerdicts | None = None  # that come before what the method would decide
    saved_state: Path | None = None  # the training_state folder of the checkpoint that a resumed run goes on from
    device: torch.device | str = "cpu"
    rank: int = 0
    world_size: int = 1

    def given_weights(self) -> Tensor | None:  # (episodes,)
        """Those of the file that ``dataset.episode_weights`` names."""
        file = self.config.dataset.episode_weights
        return read_episode_weights(Path(file).expanduser(), self.dataset) if file else None


@dataclass(frozen=True)
class EpisodeFinding:
    """What a method found of one episode before training."""

    num_chunks: int  # that were scored
    score: float | None  # None: it could not be scored
    weight: float


@dataclass(frozen=True)
class Preparation:
    """What is decided about the episodes before the first step; episodes are numbered over all sources."""

    episode_weights: Tensor | None = None  # (episodes,) factors on the weight of every chunk; None: one
    kept: Sequence[Sequence[int]] | None = None  # of each source, the episode indices to train on; None: all
    instructions: Mapping[int, str] = field(default_factory=dict)  # in place of the recorded ones, by episode_id
    findings: Mapping[int, EpisodeFinding] = field(default_factory=dict)  # by episode_id
    summary: str | None = None  # one line for the log
    state: Mapping[str, Tensor] = field(default_factory=dict)  # what a resumed run needs to decide the same

    def applied_to(
        self, dataset: SegmentDataset, drawn_by: NDArray[np.float64] | None = None
    ) -> SegmentDataset:  # (episodes,)
        """The data to train on; the normalisers' statistics follow the weights that episodes are ``drawn_by``."""
        if self.kept is None and not self.instructions and drawn_by is None:
            return dataset
        return dataset.restricted(self.kept, self.instructions, drawn_by)


class TrainingMethod(ABC):
    """One value of ``--method``; registered by name in ``methods.registry``."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()  # other names that users may type
    has_ptr_settings: ClassVar[bool] = True  # whether --ptr.* are settings of it
    own_settings: ClassVar[tuple[str, ...]] = ()  # other groups of flags that only such methods read
    leaves_out_episodes: ClassVar[bool] = False

    @abstractmethod
    def paper_config(self) -> PTRConfig:
        """The settings of PTR in a run as long as the paper's."""

    def ptr_config(self, *, steps: int, log_freq: int) -> PTRConfig:
        """The settings for a run of ``steps``, in the paper's proportions.

        Weights of episodes, which ``robust`` has in place of the controller, are renewed at each record.
        """
        config = in_proportion(self.paper_config(), steps)
        if config.scorer.enabled and config.controller.enabled:
            return config
        return dataclasses.replace(config, controller=dataclasses.replace(config.controller, interval_steps=log_freq))

    def scores_episodes(self, ptr: PTRConfig) -> bool:
        """Whether a run finds scores and weights of its own, in training or before it."""
        return ptr.scorer.enabled

    def versions(self, ptr: PTRConfig) -> dict[str, Any]:
        """What records keep so that results of an earlier version of the method are not taken for present ones."""
        return {"populations_version": POPULATIONS_VERSION} if ptr.weights.map == "populations" else {}

    def prepare(self, run: BeforeTraining) -> Preparation:
        """Decide about the episodes; by default they have the weights that the user gives them."""
        return Preparation(episode_weights=run.given_weights())

    def save_state(self, preparation: Preparation, folder: Path) -> None:  # noqa: B027 (most have nothing to keep)
        """Keep what was decided in a checkpoint's training_state folder, where ``prepare`` finds it again."""
