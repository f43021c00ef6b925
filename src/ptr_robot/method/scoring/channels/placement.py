"""Where each number of the state lies during an episode, against the other episodes of its task.

Models of several numbers together excuse one of them by the others. A joint whose sign was changed, or that was
recorded in other units or with a shifted zero, lies elsewhere all the time, and that is seen in this joint alone.
"""

from __future__ import annotations

import numpy as np

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement, Values
from ptr_robot.method.scoring.recordings import FEWEST_OF_A_TASK, Recording, Recordings

_QUANTILES = (0.02, 0.25, 0.5, 0.75, 0.98)
_NUM_ELSEWHERE = 3  # of the quantiles: fewer are a visit, not a place
_SHARED_EPISODES = 8.0  # how many episodes the spread of all tasks counts as, against a task's own
_LEAST_SPREAD = 0.05  # of a quantile over episodes, where the range of all frames is two


class Placement(Channel):
    """A number of the state that lies elsewhere during most of the episode."""

    name = "placement"
    reason = "a part of the state lies elsewhere than in other episodes"
    is_contextual = True
    floor = 0.5

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel:  # noqa: ARG002
        """Median and spread of every quantile within each task; over all episodes where a task has few."""
        found = np.stack([_quantiles(episode) for episode in recordings.episodes])  # (E, Q, Ds)
        tasks = recordings.tasks
        numbers, counts = np.unique(tasks, return_counts=True)
        own = {int(t): (int(n), *_moments(found[tasks == t])) for t, n in zip(numbers, counts, strict=True)}
        known = {task: moments for task, moments in own.items() if moments[0] >= FEWEST_OF_A_TASK}
        return _FittedPlacement(_shared_spreads(known), _moments(found))


class _FittedPlacement(FittedChannel):
    def __init__(self, own: dict[int, tuple[Values, Values]], usual: tuple[Values, Values]) -> None:
        self.own, self.usual = own, usual

    def measure(self, episode: Recording) -> Measurement:
        """By the number that lies furthest from where it usually does."""
        centres, spreads = self.own.get(episode.task, self.usual)
        deviations = np.abs(_quantiles(episode) - centres) / spreads
        by_dimension = np.sort(deviations, axis=0)[-_NUM_ELSEWHERE]
        return Measurement(float(np.log1p(by_dimension.max())))


def _quantiles(episode: Recording) -> Values:  # (Q, Ds)
    return np.quantile(episode.states.astype(np.float64), _QUANTILES, axis=0)


def _moments(found: Values) -> tuple[Values, Values]:  # (E, Q, Ds) -> 2 x (Q, Ds)
    centres = np.median(found, axis=0)
    return centres, np.maximum(1.4826 * np.median(np.abs(found - centres), axis=0), _LEAST_SPREAD)


def _shared_spreads(own: dict[int, tuple[int, Values, Values]]) -> dict[int, tuple[Values, Values]]:
    """Spreads drawn towards what tasks usually have: a few episodes say little of their own."""
    if not own:
        return {}
    usual = np.mean([spreads**2 for _, _, spreads in own.values()], axis=0)
    return {
        task: (centres, np.sqrt((count * spreads**2 + _SHARED_EPISODES * usual) / (count + _SHARED_EPISODES)))
        for task, (count, centres, spreads) in own.items()
    }
