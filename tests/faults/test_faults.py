"""Every file-system call may be the last: the same command again gives what an undisturbed run gives.

``make faults`` strikes at the calls of every scenario and prints how many there were. Arrow writes a table in hundreds
of pieces: of consecutive writes to one file the first, the middle one and the last are struck, unless
``PTR_ROBOT_FAULTS`` is ``every``; with ``some`` it is a few calls of each scenario.
"""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import pytest

from ..train.datasets import record_dataset
from .harness import list_calls, run_forked, strike, warm
from .scenarios import SCENARIOS, Scenario
from .system_calls import Call

STRIKES_OF_SOME = 4  # calls of a part
EXTENT = os.environ.get("PTR_ROBOT_FAULTS", "")
pytestmark = pytest.mark.skipif("PTR_ROBOT_FAULTS" not in os.environ, reason="takes minutes: run it with make faults")
# Of long scenarios each part strikes at its share of the calls, so that all cores have work.
PARTS = {"train": 6, "collect": 3, "study": 16}
ALL_PARTS = [(name, part) for name in SCENARIOS for part in range(PARTS.get(name, 1))]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return record_dataset(tmp_path_factory.mktemp("faults") / "arm", lengths=(14, 11, 9, 12), pixels=16)


def chosen(calls: list[Call], name: str, part: int) -> list[tuple[int, Call]]:
    """The part's share of the calls, each with its number."""
    numbered = list(enumerate(calls))
    if EXTENT != "every":
        runs = itertools.groupby(numbered, key=lambda entry: (entry[1].path, entry[1].event))
        numbered = [entry for _, run in runs for entry in _ends_and_middle(list(run))]
    share = numbered[part :: PARTS.get(name, 1)]
    return share[:: max(1, len(share) // STRIKES_OF_SOME)] if EXTENT == "some" else share


def _ends_and_middle(run: list[tuple[int, Call]]) -> list[tuple[int, Call]]:
    if run[0][1].event != "write":
        return run
    return [run[place] for place in sorted({0, len(run) // 2, len(run) - 1})]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "part"), ALL_PARTS)
def test_the_same_command_again_gives_what_an_undisturbed_run_gives(name, part, data, tmp_path, record_property):
    scenario = SCENARIOS[name](data)
    place = tmp_path / "place"  # always the same one: paths are part of some files
    warm(lambda: scenario.run(tmp_path / "warm"))
    calls = list_calls(lambda: scenario.run(place), place)
    undisturbed = scenario.result(place)
    struck, strikes, losses = chosen(calls, name, part), 0, []
    for number, call in struck:
        for fault in call.faults:
            shutil.rmtree(place, ignore_errors=True)
            loss = _loss(scenario, place, number, fault, undisturbed)
            strikes += 1
            if loss:
                losses.append(f"call {number} of {len(calls)} ({call.event} {call.path}), {fault}: {loss}")
    record_property("faults", (name, len(calls), len(struck), strikes))
    assert not losses, "\n".join((f"{len(losses)} of {strikes} faults lost something:", *losses))


def _loss(scenario: Scenario, place: Path, number: int, fault: str, undisturbed: object) -> str:
    """What one fault cost; nothing, if the second run gives what an undisturbed one gives."""
    ending = strike(lambda: scenario.run(place), place, number, fault)
    if ending.code not in ((0, 1) if fault == "full" else (-9,)):
        return f"it ended with {ending.code}: {ending.report}"
    again = run_forked(lambda: scenario.run(place))
    if again.code:
        return f"the second run says {again.report}"
    return "" if scenario.result(place) == undisturbed else "the result is another one"
