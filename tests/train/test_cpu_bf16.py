"""Processors that list instructions they cannot run."""

from __future__ import annotations

import signal
import types

import pytest

from ptr_robot.train import cpu_bf16 as processor


@pytest.fixture
def machine(monkeypatch):
    """A processor that lists what it is said to, and a trial that ends as it is said to."""

    def make(listed: str, code: int) -> list[list[str]]:
        trials: list[list[str]] = []

        def run(command: list[str], **_named: object) -> types.SimpleNamespace:
            trials.append(command)
            return types.SimpleNamespace(returncode=code)

        processor._has_broken_tiles.cache_clear()
        monkeypatch.setenv(processor.ISA_VARIABLE, "")  # so that whatever is set below goes again
        monkeypatch.delenv(processor.ISA_VARIABLE)
        monkeypatch.setattr(processor.Path, "read_text", lambda _path: listed)
        monkeypatch.setattr(processor.subprocess, "run", run)
        return trials

    yield make
    processor._has_broken_tiles.cache_clear()


def test_tiles_that_end_the_trial_are_avoided(machine):
    trials = machine("flags: avx512_bf16 amx_bf16 amx_tile", -signal.SIGILL)
    assert processor.avoid_broken_tiles()
    assert processor.os.environ[processor.ISA_VARIABLE] == processor.WITHOUT_TILES
    assert not processor.avoid_broken_tiles()  # told once
    assert len(trials) == 1


@pytest.mark.parametrize(
    ("listed", "code", "num_trials"),
    [("flags: avx512_bf16", -signal.SIGILL, 0), ("flags: amx_bf16", 0, 1), ("flags: amx_bf16", 1, 1)],
)
def test_processors_that_work_are_left_alone(machine, listed, code, num_trials):
    trials = machine(listed, code)
    assert not processor.avoid_broken_tiles()
    assert processor.ISA_VARIABLE not in processor.os.environ
    assert len(trials) == num_trials


def test_what_the_user_has_set_stays(machine, monkeypatch):
    trials = machine("flags: amx_bf16", -signal.SIGILL)
    monkeypatch.setenv(processor.ISA_VARIABLE, "AVX2")
    assert not processor.avoid_broken_tiles()
    assert processor.os.environ[processor.ISA_VARIABLE] == "AVX2"
    assert not trials
