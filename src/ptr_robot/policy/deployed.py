"""A trained policy as something that acts on a robot: raw observations in, actions in the robot's units out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ptr_robot.data.frames import resize_frame
from ptr_robot.data.source import UnifiedMap
from ptr_robot.errors import ConfigError, ShapeError, did_you_mean
from ptr_robot.method.belief import BeliefTokenizer
from ptr_robot.policy.interface import Policy
from ptr_robot.policy.observation import Observation
from ptr_robot.policy.recursion import ChunkPredictor


class RobotSide(Protocol):
    """What a checkpoint remembers of the robot it was trained for."""

    @property
    def robot(self) -> str:
        """The robot's name, for messages."""

    @property
    def state_map(self) -> UnifiedMap:
        """From the robot's state to the unified space."""

    @property
    def action_map(self) -> UnifiedMap:
        """From the robot's actions to the unified space; its inverse is what a deployed policy needs."""

    @property
    def cameras(self) -> tuple[str | None, ...]:
        """The feature key of each view, None where the robot lacks it."""

    @property
    def image_size(self) -> int:
        """Pixels of a square frame; 0: no images."""

    @property
    def resize(self) -> str:
        """How a frame of another shape becomes a square one."""


@dataclass(frozen=True)
class RobotObservation:
    """What one robot measures, sees and is told now, in its own units."""

    state: NDArray[np.floating]  # (D,)
    images: Mapping[str, NDArray[np.uint8]]  # by feature key, each (H, W, 3)
    instruction: str


@dataclass
class _Episode:
    """What is carried from chunk to chunk of one episode."""

    predictor: ChunkPredictor
    generator: torch.Generator


class DeployedPolicy:
    """A policy that runs several episodes side by side, each in its slot with its own belief and random numbers.

    Each episode is predicted by itself: a batch would draw its noise in one go, and then an episode's actions would
    depend on its neighbours. As it is, they depend on nothing but its seed and what it observed.
    """

    def __init__(
        self,
        policy: Policy,
        tokenizer: BeliefTokenizer | None,
        robot: RobotSide,
        device: torch.device | str = "cpu",
    ) -> None:
        self._policy = policy.to(device).eval()
        self._tokenizer = tokenizer.to(device).eval() if tokenizer is not None else None
        self._robot = robot
        self._device = torch.device(device)
        self._episodes: dict[int, _Episode] = {}
        self._state_mask = torch.from_numpy(robot.state_map.slots.mask).unsqueeze(0)  # (1, 200)
        self._action_mask = torch.from_numpy(robot.action_map.slots.mask).unsqueeze(0)  # (1, 200)

    @property
    def camera_keys(self) -> tuple[str, ...]:
        """The cameras that every observation must bring."""
        return tuple(key for key in self._robot.cameras if key is not None)

    def reset(self, slot: int, seed: int) -> None:
        """An episode begins in ``slot``: its belief is the learned initial one, its noise depends on ``seed`` alone."""
        generator = torch.Generator(device="cpu").manual_seed(seed)
        self._episodes[slot] = _Episode(ChunkPredictor(self._policy, self._tokenizer), generator)

    @torch.no_grad()
    def act(self, slots: Sequence[int], observations: Sequence[RobotObservation]) -> NDArray[np.float32]:  # (N, L, D)
        """The next chunk of actions of each slot, in the robot's units."""
        return np.stack([self._act(slot, seen) for slot, seen in zip(slots, observations, strict=True)])

    def _act(self, slot: int, seen: RobotObservation) -> NDArray[np.float32]:  # (L, D)
        if slot not in self._episodes:
            raise ConfigError(f"no episode has begun in slot {slot}; call reset({slot}, seed) before the first chunk")
        episode = self._episodes[slot]
        prediction = episode.predictor.predict(self._observe(seen), generator=episode.generator)
        return self._robot.action_map.from_unified(prediction.actions[0].float().cpu().numpy())

    def _observe(self, seen: RobotObservation) -> Observation:
        frames = [self._frame(seen, key) for key in self._robot.cameras]  # V of (3, H, W)
        size = self._robot.image_size
        images = np.stack(frames) if frames else np.zeros((0, 3, size, size), dtype=np.uint8)
        view_mask = torch.tensor([[key is not None for key in self._robot.cameras]], dtype=torch.bool)
        return Observation(
            images=torch.from_numpy(images).unsqueeze(0).to(self._device),
            view_mask=view_mask.reshape(1, len(frames)).to(self._device),
            states=torch.from_numpy(self._unified_state(seen.state)).unsqueeze(0).to(self._device),
            state_mask=self._state_mask.to(self._device),
            action_mask=self._action_mask.to(self._device),
            instructions=(seen.instruction,),
        )

    def _unified_state(self, state: NDArray[np.floating]) -> NDArray[np.float32]:  # (200,)
        size = self._robot.state_map.slots.size
        if state.shape != (size,):
            raise ShapeError(
                f"the state has shape {state.shape} and the policy was trained for the robot {self._robot.robot!r} "
                f"with ({size},); use a policy of the same robot"
            )
        if not np.isfinite(state).all():
            raise ShapeError(f"the state {state.tolist()} is not finite; check the robot that measured it")
        return self._robot.state_map.to_unified(state)

    def _frame(self, seen: RobotObservation, key: str | None) -> NDArray[np.uint8]:  # (3, H, W)
        """One view as training saw it; black where the robot has none."""
        size = self._robot.image_size
        if key is None:
            return np.zeros((3, size, size), dtype=np.uint8)
        if key not in seen.images:
            raise ConfigError(
                f"the policy looks through {key!r}, which the observation lacks; {did_you_mean(key, seen.images)}"
            )
        frame = seen.images[key]
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
            raise ShapeError(f"the image {key!r} is {frame.dtype} {frame.shape}; it must be uint8 (height, width, 3)")
        return resize_frame(frame, size, self._robot.resize)
