"""The official initial states of a task, read without running what a pickle might hold."""

from __future__ import annotations

import codecs
import functools
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.libero.suites import LiberoTask
from ptr_robot.errors import ConfigError, DataError

SimulatorState = npt.NDArray[np.float64]  # time, positions and velocities of everything that moves


@functools.lru_cache(maxsize=4)
def initial_states(task: LiberoTask) -> SimulatorState:  # (50, D)
    """Every official initial state of a task."""
    import torch

    # The files are NumPy arrays in torch's container, written by an older NumPy; nothing else may be made from them.
    reconstruct: Any = np.empty(0).__reduce__()[0]
    renamed = (reconstruct, "numpy.core.multiarray._reconstruct")
    allowed: list[Any] = [renamed, np.ndarray, np.dtype, type(np.dtype(np.float64)), codecs.encode]
    path = task.initial_states_file
    try:
        with torch.serialization.safe_globals(allowed):
            states = np.asarray(torch.load(path, weights_only=True), dtype=np.float64)
    except (OSError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not a readable file of initial states ({reason}); reinstall: make libero") from error
    if states.ndim != 2:
        raise DataError(f"{path}: initial states must be a table, got shape {states.shape}; reinstall: make libero")
    states.setflags(write=False)
    return states


def initial_state(task: LiberoTask, index: int) -> SimulatorState:  # (D,)
    """One official initial state."""
    states = initial_states(task)
    if not 0 <= index < len(states):
        raise ConfigError(f"{task.name} has initial states 0 to {len(states) - 1}, got {index}")
    state: SimulatorState = states[index]
    return state
