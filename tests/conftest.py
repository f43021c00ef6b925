"""Tests work on small tensors, where a second thread only waits; properties have no deadline on a loaded machine."""

from __future__ import annotations

import os
import signal

os.environ["OMP_NUM_THREADS"] = "1"  # before torch and NumPy are there, and for every process that a test starts

import pytest
import torch
from hypothesis import settings

from ptr_robot.scheduling import kept_scheduling
from ptr_robot.train.cpu_bf16 import avoid_broken_tiles

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
torch.set_num_threads(1)
avoid_broken_tiles()  # here, and not where bfloat16 is first used: by then oneDNN has looked
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by whoever started the tests, no test could send it


class OrdinaryScheduling:
    """Fixtures and tests encode videos by LeRobot's own calls: what starts after them runs as an ordinary process."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self):
        with kept_scheduling():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self):
        with kept_scheduling():
            return (yield)


def pytest_configure(config):
    """Registered, as hooks of a conftest do not see fixtures of the whole run."""
    config.pluginmanager.register(OrdinaryScheduling())


def pytest_collection_modifyitems(config, items):
    """With several workers, files with long tests come first: at the end none waits for the longest file of another."""
    if hasattr(config, "workerinput"):
        long_files = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in long_files)


def pytest_terminal_summary(terminalreporter):
    """How many inputs were tried and faults injected, by the tests that count them."""
    faults: dict[str, list[int]] = {}
    failed = {report.nodeid for report in terminalreporter.getreports("failed")}
    for report in terminalreporter.getreports(""):  # what passed before and after tests: fixtures count at the end
        for name, value in report.user_properties if report.when == "teardown" and report.nodeid not in failed else ():
            if name == "counted":
                terminalreporter.write_line(f"{report.nodeid}: {value}")
            if name == "faults":
                scenario, calls, *counts = value
                _, *others = faults.get(scenario, [calls, 0, 0])
                faults[scenario] = [calls, *(a + b for a, b in zip(others, counts, strict=True))]
    for scenario, (calls, struck, strikes) in faults.items():
        counts = f"{calls} file-system calls, {struck} of them struck, {strikes} faults"
        terminalreporter.write_line(f"{scenario}: {counts}, all recovered from")
