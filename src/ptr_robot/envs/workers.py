"""Worker processes for simulation whose end, whatever ends them, is one clear error."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ptr_robot.errors import PTRError


@contextlib.contextmanager
def worker_processes(
    num_processes: int, start: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """Processes that each call ``start(*arguments)`` first, and end with the block, or at once where it is left early.

    They are spawned, as a forked process would share the renderer's context. ``start`` must not fail: an error there
    reaches the parent without its message, while one in the work itself arrives whole. A parent that is killed takes
    them with it.
    """
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(num_processes, context, _start, (start, arguments))
    try:
        yield executor
    except BaseException as error:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()  # nobody waits for what they are at
        if not isinstance(error, BrokenProcessPool):
            raise
        raise PTRError(
            f"one of {num_processes} simulation processes was ended from outside, most often because the machine "
            f"ran out of memory; use fewer: --num_workers={max(1, num_processes // 2)}"
        ) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _start(start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends the workers in order
    end_with_parent()
    if start is not None:
        start(*arguments)


def end_with_parent() -> None:
    """Watch the parent from a thread: one that is killed cannot dismiss its workers, which would go on without it."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
