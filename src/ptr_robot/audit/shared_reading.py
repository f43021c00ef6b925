"""Several processes read a dataset's pictures together, as ``accelerate launch`` starts them; the first one scores."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from ptr_robot.audit.scoring import Report, ScoreSettings, open_eyes
from ptr_robot.data.lerobot.contents import DatasetIndex
from ptr_robot.errors import PTRError, require
from ptr_robot.scorers.looks import read_looks
from ptr_robot.train.processes import trains_on_cpu

_LONGEST_WAIT = timedelta(hours=4)  # of one process for the others


def read_together(index: DatasetIndex, settings: ScoreSettings, report: Report | None = None) -> None:
    """Read this process's share into the cache, and wait until the others have read theirs."""
    state = require("accelerate", "lerobot").PartialState(cpu=trains_on_cpu(None), timeout=_LONGEST_WAIT)
    try:
        with contextlib.suppress(PTRError):  # the first process meets it again, and is the one that complains
            read_share(index, settings, state.process_index, state.num_processes, report)
        state.wait_for_everyone()
    finally:
        state.destroy_process_group()


def read_share(
    index: DatasetIndex, settings: ScoreSettings, rank: int, num_processes: int, report: Report | None = None
) -> None:
    """Every ``num_processes``-th episode."""
    eyes = open_eyes(index, settings)
    if eyes is not None:
        read_looks(index.episodes[rank::num_processes], index, eyes.tower, eyes.cameras, eyes.cache_dir, report)
