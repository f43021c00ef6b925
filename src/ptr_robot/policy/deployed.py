"""A trained policy as something that acts on a robot: raw observations in, actions in the robot's units out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptr_robot.data.lerobot.frames import resize_frame
from ptr_robot.data.segments.source import UnifiedMap
from ptr_robot.errors import ConfigError, ShapeError, did_you_mean
from ptr_robot.method.ptr.belief import BeliefTokenizer
from ptr_robot.policy.carried_belief import CarriedBelief
from ptr_robot.policy.interface import Policy
from ptr_robot.policy.noise import Noise
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

    state: NDArray[np.floating]  # (D,); (n, D) for a policy that looks at the last n frames
    images: Mapping[str, NDArray[np.uint8]]  # by feature key, each (H, W, 3) or (n, H, W, 3)
    instruction: str


@dataclass(frozen=True)
class _Episode:
    """What is carried from chunk to chunk of one episode."""

    seed: int
    num_chunks: int  # predicted so far
    belief: CarriedBelief


class DeployedPolicy:
    """A policy that runs several episodes side by side, each in its slot with its own belief and random numbers.

    All slots of a call are predicted in one batch. An episode's noise is keyed by its seed and the number of the chunk,
    and no sample looks at another, so its actions do not depend on its neighbours but for rounding: matrix products of
    another size may add in another order.
    """

    def __init__(
        self,
        policy: Policy,
        tokenizer: BeliefTokenizer | None,
        robot: RobotSide,
        device: torch.device | str = "cpu",
        n_action_steps: int | None = None,  # of a chunk that are carried out before the next look; unset: all
    ) -> None:
        self._chunk_length = policy.sizes.chunk_length
        self._num_executed = min(n_action_steps or self._chunk_length, self._chunk_length)
        self._predictor = ChunkPredictor(
            policy.to(device).eval(), tokenizer.to(device).eval() if tokenizer is not None else None
        )
        self._robot = robot
        self._device = torch.device(device)
        self._episodes: dict[int, _Episode] = {}

    @property
    def camera_keys(self) -> tuple[str, ...]:
        """The cameras that every observation must bring."""
        return tuple(key for key in self._robot.cameras if key is not None)

    def reset(self, slot: int, seed: int) -> None:
        """An episode begins in ``slot``: its belief is the learned initial one, its noise depends on ``seed`` alone."""
        initial = self._predictor.initial(1)
        self._episodes[slot] = _Episode(seed, 0, CarriedBelief(None if initial is None else initial[0]))

    @torch.no_grad()
    def act(self, slots: Sequence[int], observations: Sequence[RobotObservation]) -> NDArray[np.float32]:  # (N, L, D)
        """The next chunk of actions of each slot, in the robot's units."""
        episodes = [self._episode(slot) for slot in slots]
        carried = [episode.belief.at_look(self._chunk_length) for episode in episodes]
        prediction, beliefs = self._predictor.predict_from(
            _stack_beliefs(carried), self._observe(observations), noise=self._noise(episodes)
        )
        for row, (slot, episode) in enumerate(zip(slots, episodes, strict=True)):
            belief = carried[row].after_look(None if beliefs is None else beliefs[row], self._num_executed)
            self._episodes[slot] = _Episode(episode.seed, episode.num_chunks + 1, belief)
        return self._robot.action_map.from_unified(prediction.actions.float().cpu().numpy())

    def _episode(self, slot: int) -> _Episode:
        if slot not in self._episodes:
            raise ConfigError(f"no episode has begun in slot {slot}; call reset({slot}, seed) before the first chunk")
        return self._episodes[slot]

    def _noise(self, episodes: Sequence[_Episode]) -> Noise:
        seeds = torch.tensor([episode.seed for episode in episodes], device=self._device)
        numbers = torch.tensor([episode.num_chunks for episode in episodes], device=self._device)
        return Noise.keyed(seeds, numbers)

    def _observe(self, observations: Sequence[RobotObservation]) -> Observation:
        count, size, cameras = len(observations), self._robot.image_size, self._robot.cameras
        images = np.zeros((count, len(cameras), 3, size, size), dtype=np.uint8)
        for row, seen in enumerate(observations):
            for view, key in enumerate(cameras):
                if key is not None:
                    images[row, view] = self._frame(seen, key)
        states = np.stack([self._unified_state(seen.state) for seen in observations])
        return Observation(
            images=torch.from_numpy(images).to(self._device),
            view_mask=self._rows(np.array([key is not None for key in cameras], dtype=bool), count),
            states=torch.from_numpy(states).to(self._device),
            state_mask=self._rows(self._robot.state_map.slots.mask, count),
            action_mask=self._rows(self._robot.action_map.slots.mask, count),
            instructions=tuple(seen.instruction for seen in observations),
        )

    def _rows(self, flags: NDArray[np.bool_], count: int) -> Tensor:  # (n,) -> (N, n)
        return torch.from_numpy(flags).to(self._device).expand(count, -1)

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

    def _frame(self, seen: RobotObservation, key: str) -> NDArray[np.uint8]:  # (3, H, W)
        """One view as training saw it."""
        if key not in seen.images:
            raise ConfigError(
                f"the policy looks through {key!r}, which the observation lacks; {did_you_mean(key, seen.images)}"
            )
        frame = seen.images[key]
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
            raise ShapeError(f"the image {key!r} is {frame.dtype} {frame.shape}; it must be uint8 (height, width, 3)")
        return resize_frame(frame, self._robot.image_size, self._robot.resize)


def _stack_beliefs(carried: Sequence[CarriedBelief]) -> Tensor | None:  # (N, M, Da)
    rows = [belief.now for belief in carried if belief.now is not None]
    return torch.stack(rows) if rows else None
