"""Encoding video leaves the process as it was; small products take one thread."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from ptr_robot.scheduling import kept_scheduling, one_thread

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setscheduler"), reason="this system has no scheduling policies")

ENCODE = """
import os, av, numpy
from contextlib import nullcontext
from ptr_robot.scheduling import kept_scheduling
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # whatever the tests before this one left behind
with {block}():
    with av.open({path!r}, "w") as target:
        stream = target.add_stream("libsvtav1", rate=30)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        frame = av.VideoFrame.from_ndarray(numpy.zeros((64, 64, 3), numpy.uint8), format="rgb24")
        target.mux(stream.encode(frame))
        target.mux(stream.encode())
print(os.sched_getscheduler(0))
"""


def test_a_changed_policy_is_changed_back():
    before = os.sched_getscheduler(0)
    with kept_scheduling():
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == before


def test_it_is_changed_back_after_an_error():
    @kept_scheduling()
    def fail() -> None:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        raise ZeroDivisionError

    before = os.sched_getscheduler(0)
    with pytest.raises(ZeroDivisionError):
        fail()
    assert os.sched_getscheduler(0) == before


def test_svt_av1_leaves_no_real_time_process_behind(tmp_path):
    def policy_after(block: str) -> int:
        code = ENCODE.format(block=block, path=str(tmp_path / f"{block}.mp4"))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return int(done.stdout.split()[-1])

    assert policy_after("kept_scheduling") == os.SCHED_OTHER
    if policy_after("nullcontext") == os.SCHED_OTHER:
        pytest.skip("this encoder, or this user, changes no scheduling: nothing was undone")


def test_small_products_take_one_thread_and_others_theirs() -> None:
    assert np.ones((2, 2)) @ np.ones(2) == pytest.approx([2, 2])  # NumPy's library is loaded
    with threadpool_limits(limits=2):
        before = [pool["num_threads"] for pool in threadpool_info()]
        with one_thread():
            assert {pool["num_threads"] for pool in threadpool_info()} == {1}
        assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert before
