"""Where an episode ends, against where such beginnings usually lead: gave up, or was cut off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement, Values
from ptr_robot.method.scoring.recordings import Recording, Recordings

_NUM_FRAMES = 3  # at both ends, averaged
_PENALTIES = (0.03, 0.3, 3.0, 30.0)
_FEWEST = 6  # episodes of a task
_MOST_COMPONENTS = 12


class Ending(Channel):
    """The last state, predicted from the first one by a robust ridge regression within the task."""

    name = "ending"
    reason = "ends elsewhere than its neighbours"
    is_contextual = True
    floor = 0.1

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:  # noqa: ARG002
        """One regression a task; None where every task has too few episodes."""
        models = {}
        for task in np.unique(recordings.tasks):
            own = [episode for episode in recordings.episodes if episode.task == task]
            if len(own) >= _FEWEST:
                models[int(task)] = _TaskEnding(np.stack([_start(e) for e in own]), np.stack([_end(e) for e in own]))
        return _FittedEnding(models) if models else None


def _start(episode: Recording) -> Values:  # (D,)
    return np.asarray(episode.states[:_NUM_FRAMES].mean(axis=0), dtype=np.float64)


def _end(episode: Recording) -> Values:  # (D,)
    return np.asarray(episode.states[-_NUM_FRAMES:].mean(axis=0), dtype=np.float64)


class _TaskEnding:
    """Ridge regression that is fitted again and again on the better part; an episode never predicts itself."""

    def __init__(self, starts: Values, ends: Values) -> None:
        self.centre = np.median(starts, axis=0)
        _, sizes, directions = np.linalg.svd(starts - self.centre, full_matrices=False)
        num = min(_MOST_COMPONENTS, max(1, len(starts) // 4), int((sizes > 1e-6 * max(sizes.max(), 1e-12)).sum()))
        self.directions = directions[: max(num, 1)]
        self.scale = ((starts - self.centre) @ self.directions.T).std(axis=0) + 1e-6
        inputs = self._inputs(starts)
        trust: Values = np.ones(len(starts))
        for _ in range(4):
            penalty = min(_PENALTIES, key=lambda one: float(np.median(_left_out_errors(inputs, ends, trust, one))))
            errors = _left_out_errors(inputs, ends, trust, penalty)
            trust = np.minimum(1.0, 2.0 * max(float(np.median(errors)), 1e-9) / np.maximum(errors, 1e-9))
        fit = _Fit.of(inputs, ends, trust, penalty)
        self.residual_scale = np.sqrt(np.average(fit.left_out(inputs, ends) ** 2, axis=0, weights=trust)) + 0.02
        self.predictions = ends - fit.left_out(inputs, ends)  # of every episode by the fit without it
        self.coefficients = fit.coefficients
        self.places = {start.tobytes(): place for place, start in enumerate(starts)}

    def _inputs(self, starts: Values) -> Values:  # (n, D) -> (n, 1 + C)
        scores = (starts - self.centre) @ self.directions.T / self.scale
        return np.concatenate([np.ones((len(starts), 1)), np.clip(scores, -5, 5)], axis=1)

    def error(self, start: Values, end: Values) -> float:
        """Of an episode; where it is one of those that the regression knows, without it."""
        place = self.places.get(start.tobytes())
        known = self._inputs(start[None])[0] @ self.coefficients if place is None else self.predictions[place]
        return float(np.mean(np.minimum(((end - known) / self.residual_scale) ** 2, 400.0)))


@dataclass(frozen=True)
class _Fit:
    """A weighted ridge regression, with what it takes to leave one episode out."""

    coefficients: Values  # (1 + C, D)
    leverages: Values  # (n,)

    @classmethod
    def of(cls, inputs: Values, ends: Values, trust: Values, penalty: float) -> _Fit:
        shrinkage = penalty * np.eye(inputs.shape[1])
        shrinkage[0, 0] = 1e-9
        weighted = inputs * trust[:, None]
        inverse = np.linalg.inv(weighted.T @ inputs + shrinkage)
        leverages = np.einsum("nc,cd,nd->n", weighted, inverse, inputs)
        return cls(inverse @ (weighted.T @ ends), leverages)

    def left_out(self, inputs: Values, ends: Values) -> Values:  # (n, 1 + C), (n, D) -> (n, D)
        """The error of every episode under the fit without it."""
        errors: Values = (ends - inputs @ self.coefficients) / np.maximum(1.0 - self.leverages, 0.05)[:, None]
        return errors


def _left_out_errors(inputs: Values, ends: Values, trust: Values, penalty: float) -> Values:  # (n,)
    spread = np.median(np.abs(ends - np.median(ends, axis=0)), axis=0) + 0.02
    wrong = _Fit.of(inputs, ends, trust, penalty).left_out(inputs, ends) / spread
    return np.asarray(np.minimum(wrong**2, 400.0).mean(axis=1))


class _FittedEnding(FittedChannel):
    def __init__(self, models: dict[int, _TaskEnding]) -> None:
        self.models = models

    def measure(self, episode: Recording) -> Measurement:
        """The logarithm of the mean squared error in usual ones."""
        model = self.models.get(episode.task)
        if model is None:
            return Measurement(float("nan"))
        error = model.error(_start(episode), _end(episode))
        frames = np.zeros(episode.num_frames)
        frames[-_NUM_FRAMES:] = error
        return Measurement(float(np.log(error + 1e-3)), frames)
