"""What a type of policy brings along: its flags, its configuration, its class, and the files it is kept in."""

from __future__ import annotations

import contextlib
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.method.ptr.run_length import PAPER_STEPS
from ptr_robot.policy.interface import Policy, PolicyShape
from ptr_robot.policy.policy_files import WEIGHTS_FILE, load_weights, read_record, save_weights, write_record
from ptr_robot.policy.robot_record import RobotRecord

DEVICES = ("cpu", "cuda")


@contextlib.contextmanager
def initial_weights(seed: int) -> Iterator[None]:
    """Weights drawn inside depend on the seed alone; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@dataclass(frozen=True)
class TrainingScale:
    """How much training a policy gets where the user does not say."""

    steps: int
    global_chunks: int  # in a step, over all processes and micro-batches; a sample of the paper is one chunk
    learning_rate: float
    log_freq: int
    save_freq: int


PAPER_SCALE = TrainingScale(PAPER_STEPS, global_chunks=128, learning_rate=1e-4, log_freq=100, save_freq=10_000)


@dataclass(frozen=True)
class PolicyChoice(ABC):
    """The flags ``--policy.*`` of one type: which policy, and what it starts from.

    A type of policy adds its own flags in a subclass, whose ``type`` is by default the type's name.
    """

    # The name of the type.
    type: str = ""
    # A run (its last checkpoint), a checkpoint or its pretrained_model folder to post-train, as it is: no preset.
    path: str | None = None
    # cpu, or by default what accelerate finds.
    device: str | None = None
    # Go on although path was trained for robots with other slots.
    allow_other_robot: bool = False

    def __post_init__(self) -> None:
        if self.device is not None and self.device not in DEVICES:
            raise ConfigError(f"policy.device is {self.device!r}; it must be cpu or cuda")

    @abstractmethod
    def configure(self, num_belief_tokens: int | None) -> PolicyShape:
        """The configuration that the flags describe.

        The method decides how many belief tokens there are, where it has any.
        """

    @property
    def scale(self) -> TrainingScale:
        """How much training a policy gets that starts from these flags."""
        return PAPER_SCALE

    @property
    def label(self) -> str:
        """What run folders are named after."""
        return self.type

    def load_pretrained(self, policy: Any) -> None:  # noqa: B027 (most policies have no parts to fill)
        """Fill parts of a new policy with published weights that the flags name."""


@dataclass(frozen=True)
class SavedPolicy:
    """A policy read from a folder, and the robots it was trained for."""

    policy: Policy
    robots: tuple[RobotRecord, ...] | None  # None: published for no robot in particular, and not checked


@dataclass(frozen=True)
class PolicyType:
    """One type of policy under its name.

    The default layout of a folder is config.json and model.safetensors. A type with files of its own overrides
    ``save``, ``load`` and ``read_config`` and, where its config.json is another's, says by ``recognises`` which
    folders are its own.
    """

    name: str
    choice: type[PolicyChoice]
    config: type[Any]  # a dataclass with the members of ``PolicyShape``
    policy: type[Policy]  # its one argument is the configuration

    def build(self, config: PolicyShape, *, seed: int) -> Policy:
        """A policy with initial weights that depend on the seed alone."""
        with initial_weights(seed):
            return self.policy(config)

    def recognises(self, folder: Path) -> bool:  # noqa: ARG002 (of the default layout, config.json says the type)
        """Whether the folder, which is not of the default layout, holds a policy of this type."""
        return False

    def save(self, policy: Policy, folder: Path, robots: Sequence[RobotRecord]) -> None:
        """Fill an empty folder."""
        write_record(folder, self.name, self.encode(policy.config), robots)
        save_weights(policy, folder / WEIGHTS_FILE)

    def load(self, folder: Path) -> SavedPolicy:
        """Read a policy back; it predicts what it predicted when it was saved."""
        policy = self.policy(self.read_config(folder))
        load_weights(policy, folder / WEIGHTS_FILE)
        return SavedPolicy(policy.eval(), read_record(folder).robots)

    def read_config(self, folder: Path) -> PolicyShape:
        """What a saved policy is made of, without its weights."""
        record = read_record(folder)
        try:
            return self.decode(record.config)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise DataError(
                f"{record.file} cannot be read ({type(error).__name__}: {error}); copy the policy again"
            ) from error

    def resize(self, config: Any) -> str:  # noqa: ARG002 (most policies have no way of their own)
        """How the data's frames become square, where the data's settings do not say."""
        return "pad"

    def encode(self, config: Any) -> dict[str, Any]:
        """A configuration as plain values for JSON."""
        return dataclasses.asdict(config)

    def decode(self, values: dict[str, Any]) -> PolicyShape:
        """The inverse of ``encode``."""
        draccus = require("draccus", "lerobot")
        try:
            config: PolicyShape = draccus.decode(self.config, values)
        except (draccus.ParsingError, draccus.utils.DecodingError) as error:
            raise ValueError(" ".join(str(error).split())) from error
        return config

    def is_same(self, saved: Any, chosen: Any) -> bool:
        """Whether a run whose flags ask for ``chosen`` may go on with a policy that was saved with ``saved``."""
        return bool(saved == chosen)
