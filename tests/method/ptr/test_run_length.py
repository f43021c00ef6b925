"""Short runs keep the paper's proportions: of the warm-up, of the controller's moves and of the EMA's memory."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.errors import ConfigError
from ptr_robot.method import BeliefConfig, PTRConfig, in_proportion


@dataclasses.dataclass(frozen=True)
class WithMore(PTRConfig):
    """Settings of a user of PTR's."""

    colour: str = "blue"


@given(st.integers(1, 60_000))
def test_shares_of_the_run_are_the_papers(steps):
    config = in_proportion(PTRConfig(), steps)
    assert config.weights.warmup_steps == pytest.approx(steps * 3000 / 60_000, abs=0.5)
    assert (1 - config.targets.ema_decay) * steps == pytest.approx(min(steps, 60), rel=1e-4)
    moves = steps // config.controller.interval_steps
    assert moves == steps if steps < 900 else 450 <= moves <= 750  # one a step at most; intervals are whole steps


@pytest.mark.parametrize("steps", [60_000, 100_000])
def test_runs_as_long_as_the_papers_have_its_settings(steps):
    assert in_proportion(PTRConfig(), steps) == PTRConfig()


def test_settings_of_others_are_kept():
    config = WithMore(belief=BeliefConfig(enabled=False), colour="red")
    shorter = in_proportion(config, 600)
    assert isinstance(shorter, WithMore)
    assert (shorter.colour, shorter.belief.enabled) == ("red", False)


def test_a_run_without_steps_is_refused():
    with pytest.raises(ConfigError, match="at least 1"):
        in_proportion(PTRConfig(), 0)
