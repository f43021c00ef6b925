"""One operator in one episode: the expert's way of doing the task, in the operator's manner and without its faults."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.arm import Action, Expert, Vector
from ptr_robot.envs.operators import OperatorConfig

_BOW_FRAMES = 12.0  # after so many frames a third of the bow is left
_CONTACT_SPEED = 0.9  # near the object slowness would lose the grip: force comes from the hand's speed
_PAUSE_FRAMES = 6
_PAUSE_GAP_FRAMES = 3
_NOISE_MEMORY = 0.8  # a hand's noise is smooth: the share of the last frame's that stays


class Operator:
    """One operator in one episode, without its faults: the expert's way, done in this operator's manner."""

    def __init__(self, config: OperatorConfig, expert: Expert, seed: int, speed: float | None = None) -> None:
        style, self._hand = np.random.default_rng([seed, 0]).spawn(2)
        drawn_speed = style.uniform(*config.speed)
        self.speed = float(drawn_speed if speed is None else speed)
        self._bow = style.uniform(*config.bow) * _tilted_direction(style)
        self._noise_scale = style.uniform(*config.noise)
        self._rest_chances = style.uniform(0.1, 0.9, size=style.integers(config.rests[0], config.rests[1] + 1))
        self.settle_frames = int(style.integers(4, 11))
        self._tremor_scale = style.uniform(*config.tremor)
        self._expert = expert
        self._noise = np.zeros(3)
        self._num_intentions = 0
        self._rest_frames: frozenset[int] = frozenset()
        self._style = style

    def expect(self, num_frames: int, num_pause_frames: int = 0) -> None:
        """Place the rests in an episode of about ``num_frames``, and pauses that make it so many frames longer."""
        starts = np.round(self._rest_chances * num_frames).astype(int)
        rests = {int(frame) for start in starts for frame in range(start, start + int(self._style.integers(3, 7)))}
        self._rest_frames = frozenset(rests | _spread_pauses(num_frames, num_pause_frames, self._style))

    def intend(self, hand: Vector, last_action: Action) -> npt.NDArray[np.float64]:  # (Da,)
        """The action this operator means to execute now, with its hand where it believes it to be."""
        frame = self._num_intentions
        self._num_intentions += 1
        fresh = self._hand.normal(0.0, self._noise_scale, size=3)
        self._noise = _NOISE_MEMORY * self._noise + np.sqrt(1.0 - _NOISE_MEMORY**2) * fresh
        tremor = self._hand.normal(0.0, self._tremor_scale, size=3)
        if frame in self._rest_frames:
            return _pausing(tremor, last_action)
        bowed = hand - self._bow * np.exp(-frame / _BOW_FRAMES)
        action: npt.NDArray[np.float64] = np.clip(self._expert.act(bowed), -1.0, 1.0).astype(np.float64)
        is_near = self._expert.is_near_object(hand)
        top_speed = max(self.speed, _CONTACT_SPEED) if is_near else self.speed
        action[:3] *= min(1.0, top_speed / max(float(np.abs(action[:3]).max()), 1e-9))
        action[:3] += self._noise + tremor
        return action


def _spread_pauses(num_frames: int, num_pause_frames: int, generator: np.random.Generator) -> set[int]:
    """The frames of short pauses all over an episode that would take ``num_frames`` without them."""
    total = num_frames + num_pause_frames
    num_pauses = min(-(-num_pause_frames // _PAUSE_FRAMES), total // (_PAUSE_FRAMES + _PAUSE_GAP_FRAMES))
    if num_pauses < 1:
        return set()
    space = total / num_pauses  # each pause has a space of its own
    lengths = np.full(num_pauses, num_pause_frames // num_pauses)
    lengths[: num_pause_frames % num_pauses] += 1
    offsets = generator.uniform(0.0, np.maximum(space - lengths - _PAUSE_GAP_FRAMES, 0.0))
    starts = np.floor(np.arange(num_pauses) * space + offsets).astype(int)
    return {int(start + frame) for start, length in zip(starts, lengths, strict=True) for frame in range(length)}


def _pausing(tremor: Vector, last_action: Action) -> npt.NDArray[np.float64]:  # (Da,)
    """An action that trembles in its place, with the gripper as it was."""
    action = np.zeros(len(last_action))
    action[:3], action[-1] = tremor, last_action[-1]
    return action


def _tilted_direction(generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """A random unit vector that does not point down: the table is there."""
    vector = generator.normal(size=3)
    vector[2] = abs(vector[2])
    unit: npt.NDArray[np.float64] = vector / np.linalg.norm(vector)
    return unit
