"""Recordings that stand still: no motion at all, long pauses, repeated frames."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement, Values
from ptr_robot.method.scoring.recordings import Recording, Recordings

_LEAST = 1e-4
_STILL_SHARE = 0.1  # of the usual speed
_WINDOW_SECONDS = 0.25


class Extent(Channel):
    """Whether the robot moves at all, and whether it is told to."""

    name = "motion"
    reason = "hardly moves"
    floor = 0.3

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel:  # noqa: ARG002
        """Against the region that most of a task's episodes cover: the upper quartile, since dead ones cover none."""
        usual = {}
        for task in np.unique(recordings.tasks):
            own = [episode for episode in recordings.episodes if episode.task == task]
            usual[int(task)] = tuple(
                float(np.quantile([_extent(getattr(e, part)) for e in own], 0.75)) + _LEAST
                for part in ("states", "actions")
            )
        return _FittedExtent(usual)


class _FittedExtent(FittedChannel):
    def __init__(self, usual: dict[int, tuple[float, ...]]) -> None:
        self.usual = usual

    def measure(self, episode: Recording) -> Measurement:
        """How many times smaller than usual, as a logarithm; what moves a third as far as usual or more is alike."""
        states, actions = self.usual[episode.task]
        shares = (_extent(episode.states) / states, _extent(episode.actions) / actions)
        share = min(shares)
        what = "the robot" if shares[0] <= shares[1] else "the action"
        note = "" if share > 0.1 else f"{what} does not move" if share < 0.01 else f"{what} hardly moves"
        return Measurement(float(-np.log(np.clip(share, _LEAST, 0.33))), note=note)


def _extent(values: NDArray[np.float32]) -> float:
    """The size of the region that is covered, but for the most extreme hundredth at both ends."""
    low, high = np.quantile(values, [0.01, 0.99], axis=0)
    return float(np.linalg.norm(high - low))


class Idle(Channel):
    """Standing still for longer than others do."""

    name = "idle"
    reason = "stands still"
    floor = 0.4

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:  # noqa: ARG002
        """Still is what moves at less than a tenth of the usual speed for a quarter of a second."""
        window = max(2, round(_WINDOW_SECONDS * recordings.fps))
        speeds = [_speeds(episode.states, window) for episode in recordings.episodes]
        typical = [np.median(speed) for speed in speeds if len(speed)]
        moving = [float(value) for value in typical if value > _LEAST]
        usual = float(np.median(moving)) if moving else 0.0
        return _FittedIdle(window, _STILL_SHARE * usual, recordings.fps) if usual > 0 else None


class _FittedIdle(FittedChannel):
    def __init__(self, window: int, limit: float, fps: float) -> None:
        self.window, self.limit, self.fps = window, limit, fps

    def measure(self, episode: Recording) -> Measurement:
        """Seconds of the longest stop and of all stops, as a logarithm."""
        speeds = _speeds(episode.states, self.window)
        if not len(speeds):
            return Measurement(float("nan"))
        is_still = np.concatenate([speeds < self.limit, np.zeros(self.window, dtype=np.bool_)])[: episode.num_frames]
        longest = longest_run(is_still) / self.fps
        total = float(is_still.sum()) / self.fps
        share = float(is_still.mean())
        value = float(np.log1p(4.0 * longest) + np.log1p(2.0 * total) + 2.0 * share)
        note = f"does not move for {longest:.1f} s" if longest >= 0.2 else ""
        return Measurement(value, is_still.astype(np.float64), note)


def _speeds(states: NDArray[np.float32], window: int) -> Values:  # (T, D) -> (T - window,)
    return np.asarray(np.linalg.norm(states[window:].astype(np.float64) - states[:-window], axis=1) / window)


class Frozen(Channel):
    """Frames that repeat the frame before to the last digit."""

    name = "frozen"
    reason = "frames repeat"
    floor = 0.3

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel:  # noqa: ARG002
        """Needs no more than the rate."""
        return _FittedFrozen(recordings.fps)


class _FittedFrozen(FittedChannel):
    def __init__(self, fps: float) -> None:
        self.fps = fps

    def measure(self, episode: Recording) -> Measurement:
        """Repeated states, and repeated pictures where there are some."""
        is_same = _repeats(episode.states)
        if episode.looks is not None and len(episode.looks) > 1:
            seen = np.repeat(_repeats(episode.looks), episode.look_stride)[: episode.num_frames]
            is_same[: len(seen)] |= seen
        longest, share = longest_run(is_same) / self.fps, float(is_same.mean())
        note = f"frames repeat for {longest:.1f} s" if longest >= 0.1 else ""
        return Measurement(float(np.log1p(10.0 * longest) + 2.0 * share), is_same.astype(np.float64), note)


def _repeats(values: NDArray[np.float32]) -> NDArray[np.bool_]:  # (T, D) -> (T,)
    return np.concatenate([[False], (np.diff(values, axis=0) == 0).all(axis=1)])


def longest_run(flags: NDArray[np.bool_]) -> int:
    """The longest stretch of true ones."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max(initial=0))
