"""What libraries do to the process that calls them, kept in bounds.

SVT-AV1, with which LeRobot encodes, gives the calling thread real-time scheduling at the highest priority where it
may (as root, so in most containers) and never takes it back. All that the process starts later inherits it: on two
cores, two such processes that wait for a third one wait for ever.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ptr_robot.errors import require


@contextmanager
def kept_scheduling() -> Iterator[None]:
    """The calling thread leaves this block with the scheduling policy and priority that it entered with."""
    if not hasattr(os, "sched_getscheduler"):
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        if os.sched_getscheduler(0) != policy:
            os.sched_setscheduler(0, policy, parameters)


@contextmanager
def one_thread() -> Iterator[None]:
    """Products of small matrices by one thread.

    Threads that share so little work wait for each other longer than they work: beside another busy process, scoring
    twenty episodes took thirty times as long with two threads. And sums by one thread do not depend on how many there
    are, so equal data are scored alike on every machine of a kind.
    """
    with require("threadpoolctl", "lerobot").threadpool_limits(limits=1):
        yield
