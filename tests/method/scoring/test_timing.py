"""Actions that lie too late in the record are called late, and early ones early."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptr_robot.method.scoring.channels.dynamics import Timing

from .made_recordings import make_recordings


@pytest.mark.parametrize(("shift", "word"), [(4, "late"), (-4, "early")])
def test_the_direction_is_named(shift: int, word: str) -> None:
    recordings = make_recordings(24, 1).with_folds(0)
    fitted = Timing().fit(recordings, seed=0)
    assert fitted is not None
    episode = recordings.episodes[3]
    places = np.clip(np.arange(episode.num_frames) - shift, 0, episode.num_frames - 1)  # recorded[t] = true[t - shift]
    found = fitted.measure(replace(episode, actions=episode.actions[places]))
    assert word in found.note
