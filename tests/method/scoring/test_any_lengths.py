"""Whatever the episodes' lengths and widths, and whatever does not move in them, every one gets a verdict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptr_robot.method.scoring.quality import QualityConfig, assess
from ptr_robot.method.scoring.recordings import Recording, Recordings
from ptr_robot.method.scoring.verdicts import DROP, FLAG, KEEP, decide

EPISODES = st.lists(
    st.tuples(st.integers(1, 70), st.integers(0, 2), st.sampled_from(["moves", "stands", "jumps"])),
    min_size=4,
    max_size=24,
)


def made(length: int, task: int, kind: str, widths: tuple[int, int], generator: np.random.Generator) -> Recording:
    states = 0.05 * np.cumsum(generator.standard_normal((length, widths[0])), axis=0) + task
    if kind == "stands":
        states[:] = states[0]
    if kind == "jumps":
        states[length // 2 :] += 100.0
    actions = generator.standard_normal((length, widths[1])) * (kind != "stands")
    return Recording(states.astype(np.float32), actions.astype(np.float32), task)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@settings(max_examples=25)
@given(EPISODES, st.tuples(st.integers(1, 9), st.integers(1, 9)), st.integers(0, 99))
def test_every_episode_gets_a_verdict(episodes, widths, seed):
    generator = np.random.default_rng(seed)
    recordings = Recordings(tuple(made(*one, widths, generator) for one in episodes), 20.0)
    quality = assess(recordings, QualityConfig(num_seeds=1))
    verdicts = decide(quality, ["zero", "one", "two"])
    assert len(verdicts) == len(episodes)
    assert all(one.verdict in (KEEP, FLAG, DROP) and 0 <= one.weight <= 1 for one in verdicts)
