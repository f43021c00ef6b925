"""What the instruction channel knows: nothing where two instructions look alike, whatever their shares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptr_robot.method.scoring.channels.instruction import _skill
from ptr_robot.method.scoring.quality import CHANNEL_NAMES, QualityConfig, assess

from .made_recordings import make_recordings

CHANNEL = CHANNEL_NAMES.index("instruction")


def test_naming_the_commonest_instruction_is_no_skill() -> None:
    columns = np.repeat([0, 1], [40, 10])
    together = np.tile([1.0, 0.0], (50, 1))  # always the first
    assert _skill(together, columns) < 0.0
    assert _skill(np.eye(2)[columns], columns) > 0.4


def test_guessing_is_no_skill() -> None:
    skills = []
    for seed in range(50):
        generator = np.random.default_rng(seed)
        skills.append(_skill(generator.standard_normal((60, 3)), generator.integers(0, 3, 60)))
    assert np.mean(np.array(skills) > 0.05) <= 0.02


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_instructions_that_look_alike_are_not_told_apart(share: float) -> None:
    """Red and blue brick: the same motions under two names."""
    recordings = make_recordings(40, num_tasks=1)
    tasks = (np.random.default_rng(5).uniform(size=40) < share).astype(np.int64)
    episodes = tuple(replace(e, task=int(task)) for e, task in zip(recordings.episodes, tasks, strict=True))
    found = assess(replace(recordings, episodes=episodes), QualityConfig(num_seeds=1, chunk_length=8))
    assert (found.labels == found.given).all()
    assert np.isnan(found.scores[:, CHANNEL]).all()


@pytest.mark.parametrize(("num", "share"), [(40, 0.2), (80, 0.3)])
def test_wrong_instructions_do_not_silence_the_channel(num: int, share: float) -> None:
    """What the channel is for lowers the rate by which it is judged."""
    recordings = make_recordings(num)
    is_wrong = np.arange(num) < share * num
    tasks = np.where(is_wrong, 1 - recordings.tasks, recordings.tasks)
    episodes = tuple(replace(e, task=int(task)) for e, task in zip(recordings.episodes, tasks, strict=True))
    found = assess(replace(recordings, episodes=episodes), QualityConfig(num_seeds=1, chunk_length=8))
    np.testing.assert_array_equal(found.labels, recordings.tasks)
