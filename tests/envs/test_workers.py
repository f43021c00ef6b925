"""Worker processes do not outlive the process that started them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from ptr_robot.envs.workers import worker_processes

PARENT = """
import multiprocessing, os, time
from ptr_robot.envs.workers import worker_processes

with worker_processes(2) as executor:
    executor.submit(time.sleep, 600)
    executor.submit(os.getpid).result()
    print(*(process.pid for process in multiprocessing.active_children()), flush=True)
    time.sleep(600)
"""


def test_workers_end_when_their_parent_is_killed():
    """One of them is at work and one is idle; all of them hold the pipe, which ends with the last one."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    parent.kill()
    try:
        assert len(workers) == 2
        parent.communicate(timeout=60)
    finally:
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_block_that_is_left_early_waits_for_nobody():
    before = multiprocessing.active_children()  # of loaders that other tests have not let go of yet
    with pytest.raises(KeyboardInterrupt), worker_processes(1) as executor:  # noqa: PT012
        executor.submit(os.getpid).result()
        executor.submit(time.sleep, 600)
        raise KeyboardInterrupt
    assert set(multiprocessing.active_children()) <= set(before)
