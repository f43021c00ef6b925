"""The policy that a run starts from: new, trained before, or that of the checkpoint it goes on from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.method.ptr.belief import BeliefTokenizer
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.policy.interface import Policy, PolicyShape
from ptr_robot.policy.policy_type import PolicyChoice, PolicyType, SavedPolicy
from ptr_robot.policy.registry import policy_type, recognised_type
from ptr_robot.policy.robot_record import check_robot
from ptr_robot.train.sources import SourceRecord
from ptr_robot.train.trained import pretrained_folder, restore_belief


@dataclass(frozen=True)
class StartingPolicy:
    """What is known of the policy before the data is opened; a new one is built after it."""

    choice: PolicyChoice
    kind: PolicyType
    shape: PolicyShape
    place: Path | None  # of a saved one
    saved: SavedPolicy | None
    is_resumed: bool

    @staticmethod
    def find(choice: PolicyChoice, ptr: PTRConfig, checkpoint: Path | None) -> StartingPolicy:
        """A resumed run has the checkpoint's policy, and nothing that it once started from."""
        kind = policy_type(choice.type)
        if not isinstance(choice, kind.choice):
            raise ConfigError(f"{type(choice).__name__} has not the flags of the policy type {choice.type!r}")
        chosen = None if choice.path else choice.configure(ptr.belief.num_tokens if ptr.belief.enabled else None)
        place = checkpoint or (Path(choice.path) if choice.path else None)
        saved = _load(place, kind) if place else None
        shape = saved.policy.config if saved else chosen
        assert shape is not None
        check_belief(shape, ptr)
        if checkpoint and chosen and not kind.is_same(shape, chosen):
            raise DataError(
                f"{checkpoint} holds a policy of another configuration than these settings describe; resume with the "
                "run's own settings"
            )
        return StartingPolicy(choice, kind, shape, place, saved, is_resumed=checkpoint is not None)

    def check_data(self, dataset: SegmentDataset, sources: Sequence[SourceRecord]) -> None:
        """Refuse data that the policy cannot look at, or of other robots than it was trained for."""
        if self.shape.image_size and not dataset.num_views:
            names = ", ".join(source.config.repo_id for source in dataset.sources)
            raise ConfigError(
                f"the policy looks at images and {names} has no camera; use a state-only policy: "
                "--policy.preset=tiny-state"
            )
        if self.saved and self.saved.robots is not None and not self.choice.allow_other_robot:
            for source in sources:
                check_robot(self.saved.robots, source.robot_record, str(self.place))

    def build(self, seed: int) -> Policy:
        """The policy as it enters the first step."""
        policy = self.saved.policy if self.saved else self.kind.build(self.shape, seed=seed)
        if not self.is_resumed:
            self.choice.load_pretrained(policy)
        return policy

    def restore_belief(self, belief: BeliefTokenizer | None) -> None:
        """The belief tokenizer that a saved policy was trained with."""
        if belief is not None and self.place is not None:
            restore_belief(belief, self.place)


def check_belief(policy: PolicyShape, ptr: PTRConfig) -> None:
    """A trained policy cannot change how many belief tokens it takes."""
    if ptr.belief.enabled and policy.num_belief_tokens != ptr.belief.num_tokens:
        raise ConfigError(
            f"ptr.belief.num_tokens is {ptr.belief.num_tokens} and the policy takes {policy.num_belief_tokens}; set "
            f"--ptr.belief.num_tokens={policy.num_belief_tokens}"
        )


def _load(place: Path, kind: PolicyType) -> SavedPolicy:
    folder = pretrained_folder(place)
    found = recognised_type(folder)
    if found.name != kind.name:
        raise ConfigError(
            f"{place} holds a policy of the type {found.name!r} and policy.type is {kind.name!r}; "
            f"set --policy.type={found.name}"
        )
    return found.load(folder)
