"""Faults of known kinds, put into copies of recorded episodes: what would scoring have found of them?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.recordings import Recording, Recordings

Order = NDArray[np.int64]


@dataclass(frozen=True)
class Injector:
    """One kind of fault, drawn for an episode."""

    kind: str
    title: str
    inject: Callable[[Recording, Recordings, np.random.Generator], Recording | None]  # None: cannot be done to it


def replayed(episode: Recording, order: Order) -> Recording:  # (T',)
    """The episode with its frames in another order, some of them several times or not at all."""
    looks = episode.looks
    if looks is not None:
        looks = episode.looks_at(order[:: episode.look_stride])
    return replace(episode, states=episode.states[order], actions=episode.actions[order], looks=looks)


def _noise(episode: Recording, recordings: Recordings, generator: np.random.Generator) -> Recording:
    """Gaussian noise of a tenth of each dimension's deviation on the recorded actions, as the paper's ANI."""
    deviation = np.std(np.concatenate([one.actions for one in recordings.episodes[:200]]), axis=0)
    if recordings.is_smooth is not None:
        deviation = np.where(recordings.is_smooth, deviation, 0.0)
    noise = 0.1 * deviation * generator.standard_normal(episode.actions.shape)
    return replace(episode, actions=(episode.actions + noise).astype(np.float32))


def _timing(episode: Recording, recordings: Recordings, generator: np.random.Generator) -> Recording | None:
    """Actions a fifth of a second too early or too late, four frames at least."""
    shift = max(4, round(recordings.fps / 5))
    if episode.num_frames < 4 * shift:
        return None
    sign = -1 if generator.uniform() < 0.5 else 1
    places = np.clip(np.arange(episode.num_frames) + sign * shift, 0, episode.num_frames - 1)
    return replace(episode, actions=episode.actions[places])


def _pause(episode: Recording, recordings: Recordings, generator: np.random.Generator) -> Recording:
    """Standing still for one and a half seconds, or an eighth of the episode where that is more, amid the motion."""
    length = max(round(1.5 * recordings.fps), episode.num_frames // 8)
    length = min(length, episode.num_frames)
    place = _moving_frame(episode, generator)
    order = np.concatenate([np.arange(place), np.full(length, place), np.arange(place, episode.num_frames)])
    paused = replayed(episode, order)
    tremble = 1e-4 * generator.standard_normal((length, episode.states.shape[1]))
    states = paused.states.copy()
    states[place : place + length] += tremble.astype(np.float32)
    return replace(paused, states=states)


def _moving_frame(episode: Recording, generator: np.random.Generator) -> int:
    """A frame of the middle part at which the robot is faster than usual."""
    first, end = episode.num_frames // 5, max(episode.num_frames * 4 // 5, episode.num_frames // 5 + 1)
    speeds = np.linalg.norm(np.diff(episode.states, axis=0, append=episode.states[-1:]), axis=1)[first:end]
    quick = np.flatnonzero(speeds >= np.median(speeds))
    return first + int(generator.choice(quick))


def _truncation(episode: Recording, recordings: Recordings, generator: np.random.Generator) -> Recording | None:  # noqa: ARG001
    """Only the first 40 to 70 per cent are there, as the paper's TT."""
    kept = round(generator.uniform(0.4, 0.7) * episode.num_frames)
    return replayed(episode, np.arange(kept)) if kept >= 8 else None


def _back_and_forth(episode: Recording, recordings: Recordings, generator: np.random.Generator) -> Recording | None:
    """A part of the way is gone, gone back and gone again."""
    length = max(round(recordings.fps * 0.75), episode.num_frames // 6)
    if episode.num_frames < 3 * length:
        return None
    end = int(generator.integers(length, episode.num_frames - length // 2))
    order = np.concatenate(
        [np.arange(end), np.arange(end - 1, end - length - 1, -1), np.arange(end - length, episode.num_frames)]
    )
    return replayed(episode, order)


def _frozen(episode: Recording, recordings: Recordings, generator: np.random.Generator) -> Recording:
    """Observations repeat for a second, or a fifth of the episode where that is less, while actions go on."""
    length = min(round(recordings.fps), max(4, episode.num_frames // 5))
    place = _moving_frame(episode, generator)
    order = np.arange(episode.num_frames)
    order[place : place + length] = place
    frozen = replayed(episode, order)
    return replace(frozen, actions=episode.actions)


def _swapped_dimensions(episode: Recording, recordings: Recordings, generator: np.random.Generator) -> Recording | None:
    """Two of the actions that move most change places."""
    moving = np.argsort(-episode.actions.std(axis=0))[: max(2, episode.actions.shape[1] // 2)]
    if len(moving) < 2 or recordings.episodes[0].actions.shape[1] < 2:
        return None
    one, other = generator.choice(moving, size=2, replace=False)
    actions = episode.actions.copy()
    actions[:, [one, other]] = actions[:, [other, one]]
    return replace(episode, actions=actions)


def _dead(episode: Recording, recordings: Recordings, generator: np.random.Generator) -> Recording:  # noqa: ARG001
    """Nothing moves from the first frame on, and nothing is told to."""
    noise = 1e-4 * generator.standard_normal(episode.states.shape)
    states = (np.repeat(episode.states[:1], episode.num_frames, axis=0) + noise).astype(np.float32)
    still = replayed(episode, np.zeros(episode.num_frames, dtype=np.int64))
    return replace(still, states=states)


def _dead_camera(episode: Recording, recordings: Recordings, generator: np.random.Generator) -> Recording | None:  # noqa: ARG001
    """Pictures stop after the first third while the robot goes on."""
    if episode.looks is None or len(episode.looks) < 6:
        return None
    looks = episode.looks.copy()
    looks[len(looks) // 3 :] = looks[len(looks) // 3]
    return replace(episode, looks=looks)


INJECTORS: tuple[Injector, ...] = (
    Injector("action_noise", "noise on actions, σ = 0.1", _noise),
    Injector("timing", "actions shifted by a fifth of a second", _timing),
    Injector("pause", "standing still for 1.5 s", _pause),
    Injector("truncation", "cut off at 40 to 70%", _truncation),
    Injector("back_and_forth", "going back and forth", _back_and_forth),
    Injector("frozen", "observations frozen for 1 s", _frozen),
    Injector("swapped_dimensions", "two action dimensions swapped", _swapped_dimensions),
    Injector("dead", "dead recording", _dead),
    Injector("dead_camera", "camera frozen", _dead_camera),
)
WRONG_INSTRUCTION = "wrong_instruction"
