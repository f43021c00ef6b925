"""Where a number lies: a sign that was changed is seen in its own dimension, though all others agree with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptr_robot.method.scoring.channels.placement import Placement
from ptr_robot.method.scoring.recordings import Recording

from .made_recordings import make_recordings, reach, replace_episodes


@pytest.mark.parametrize("num_tasks", [1, 2])
def test_a_changed_sign_lies_elsewhere(num_tasks: int) -> None:
    """Also within a task whose mirror image is another task: starts and goals are on both sides of zero."""
    recordings = make_recordings(30, num_tasks)
    good = recordings.episodes[4]
    states = good.states * np.array([-1.0, 1.0, 1.0], dtype=np.float32)
    changed = replace_episodes(recordings, {4: replace(good, states=states)})
    fitted = Placement().fit(changed, seed=0)
    values = np.array([fitted.measure(episode).value for episode in changed.episodes])
    assert values.argmax() == 4
    assert values[4] > 1.5 * np.delete(values, 4).max()


def test_a_visit_is_no_place() -> None:
    """A tenth of the frames far away move two of the five quantiles at most."""
    recordings = make_recordings(30, 1)
    good = recordings.episodes[4]
    states = good.states.copy()
    states[: len(states) // 10] += 5.0
    fitted = Placement().fit(recordings, seed=0)
    away = fitted.measure(replace(good, states=states)).value
    assert away < 1.5 * fitted.measure(good).value + 0.3


def test_tasks_of_few_episodes_are_compared_with_all() -> None:
    recordings = replace_episodes(make_recordings(12, 1), {0: Recording(reach(0, 0).states, reach(0, 0).actions, 1)})
    fitted = Placement().fit(recordings, seed=0)
    assert np.isfinite([fitted.measure(episode).value for episode in recordings.episodes]).all()
