"""The ``pretrained_model`` folder of a checkpoint: the policy, its belief tokenizer and what it knows of its data."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from ptr_robot.errors import DataError
from ptr_robot.method.ptr.belief import BeliefTokenizer
from ptr_robot.method.ptr.config import BeliefConfig
from ptr_robot.policy.hub import local_folder
from ptr_robot.policy.interface import Policy
from ptr_robot.policy.policy_files import load_weights
from ptr_robot.policy.recursion import ChunkPredictor
from ptr_robot.policy.registry import load_policy, save_policy
from ptr_robot.text_files import read_json_object
from ptr_robot.train.checkpoint_folders import PRETRAINED, latest_checkpoint
from ptr_robot.train.sources import SourceRecord, read_sources, write_sources
from ptr_robot.train.tensor_files import save_tensors

BELIEF_CONFIG_FILE = "belief.json"
BELIEF_FILE = "belief.safetensors"


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy as a rollout needs it."""

    policy: Policy
    belief: BeliefTokenizer | None  # None: trained without belief tokens
    sources: tuple[SourceRecord, ...]

    def predictor(self) -> ChunkPredictor:
        """The policy with its memory, for any number of environments side by side."""
        return ChunkPredictor(self.policy, self.belief)

    def source(self, robot: str) -> SourceRecord:
        """The first source of that robot: its slots, normalisers and cameras."""
        for record in self.sources:
            if record.robot == robot:
                return record
        known = ", ".join(sorted({record.robot for record in self.sources}))
        raise DataError(f"this policy was not trained for the robot {robot!r}; it knows: {known}")


def save_trained(trained: TrainedPolicy, folder: Path) -> None:
    """Write a new folder; the caller sees to it that it appears whole."""
    save_policy(trained.policy, folder, [record.robot_record for record in trained.sources])
    write_sources(folder, trained.sources)
    if trained.belief is not None:
        (folder / BELIEF_CONFIG_FILE).write_text(json.dumps(dataclasses.asdict(trained.belief.config), indent=2) + "\n")
        save_tensors(trained.belief.state_dict(), folder / BELIEF_FILE)


def load_trained(path: Path) -> TrainedPolicy:
    """Read a policy from a checkpoint or its ``pretrained_model`` folder; it predicts as it did when it was saved."""
    folder = pretrained_folder(path)
    sources = read_sources(folder)
    policy = load_policy(folder).policy
    return TrainedPolicy(policy=policy, belief=_load_belief(folder, policy), sources=sources)


def restore_belief(belief: BeliefTokenizer, path: Path) -> None:
    """Fill the tokenizer as the policy at ``path`` was trained with it; one that had none starts with a fresh one."""
    file = pretrained_folder(path) / BELIEF_FILE
    if file.is_file():
        load_weights(belief, file)


def pretrained_folder(path: Path) -> Path:
    """The folder with the weights, also where a whole checkpoint or a run, which stands for its last, was named.

    A name of the form owner/name that is no folder here is looked for on the hub.
    """
    named = path.expanduser()
    folder = (latest_checkpoint(named) or named) / PRETRAINED
    return folder if folder.is_dir() else local_folder(named)


def _load_belief(folder: Path, policy: Policy) -> BeliefTokenizer | None:
    file = folder / BELIEF_CONFIG_FILE
    if not file.is_file():
        return None
    record = read_json_object(file, "copy the checkpoint again")
    try:
        config = BeliefConfig(**record)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{file} cannot be read ({error}); copy the checkpoint again") from error
    sizes = policy.sizes
    belief = BeliefTokenizer(config, state_dim=sizes.action_state_dim, action_dim=sizes.action_dim)
    load_weights(belief, folder / BELIEF_FILE)
    return belief.eval()
