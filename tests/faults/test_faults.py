"""Every file-system call may be the last: the same command again gives what an undisturbed run gives.

``make faults`` strikes at every call of every scenario, and prints how many there were; with ``PTR_ROBOT_FAULTS=some``
it is a few of each.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ..train.datasets import record_dataset
from .harness import Call, list_calls, run_forked, strike, warm
from .scenarios import SCENARIOS

STRIKES_OF_SOME = 4  # calls of a part
IS_THOROUGH = os.environ.get("PTR_ROBOT_FAULTS") == "all"
pytestmark = pytest.mark.skipif("PTR_ROBOT_FAULTS" not in os.environ, reason="takes minutes: run it with make faults")
# Of long scenarios each part strikes at its share of the calls, so that all cores have work.
PARTS = {"train": 6, "collect": 3, "study": 16}
ALL_PARTS = [(name, part) for name in SCENARIOS for part in range(PARTS.get(name, 1))]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return record_dataset(tmp_path_factory.mktemp("faults") / "arm", lengths=(14, 11, 9, 12), pixels=16)


def chosen(calls: tuple[Call, ...], name: str, part: int) -> list[Call]:
    """The part's share of all calls, or a few that are evenly spread."""
    share = calls[part :: PARTS.get(name, 1)]
    return list(share if IS_THOROUGH else share[:: max(1, len(share) // STRIKES_OF_SOME)])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "part"), ALL_PARTS)
def test_the_same_command_again_gives_what_an_undisturbed_run_gives(name, part, data, tmp_path, record_property):
    scenario = SCENARIOS[name](data)
    place = tmp_path / "place"  # always the same one: paths are part of some files
    warm(lambda: scenario.run(tmp_path / "warm"))
    calls = list_calls(lambda: scenario.run(place), place)
    undisturbed = scenario.result(place)
    struck, strikes = chosen(calls, name, part), 0
    for call in struck:
        for fault in call.faults:
            shutil.rmtree(place)
            ending = strike(lambda: scenario.run(place), place, call, fault)
            what = f"{name}, call {call.number} of {len(calls)} ({call.event} {call.path}), {fault}"
            assert ending.code in ((0, 1) if fault == "full" else (-9,)), f"{what}: {ending.report}"
            again = run_forked(lambda: scenario.run(place))
            assert again.code == 0, f"{what}: the second run says {again.report}"
            assert scenario.result(place) == undisturbed, what
            strikes += 1
    record_property("faults", (name, len(struck), strikes))
