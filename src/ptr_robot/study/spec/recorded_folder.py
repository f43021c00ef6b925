"""Where a dataset that a study names lies: a folder, or the variable that holds its path."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ptr_robot.errors import ConfigError, DataError

# No other variable is read: what a study's file names is shown in complaints.
_VARIABLE = re.compile(r"\$\{(PTR_ROBOT_\w+)\}")


def recorded_folder(dataset: str) -> Path:
    """The folder of a LeRobot dataset, which must be there."""
    variable = _VARIABLE.fullmatch(dataset)
    if variable is None and "$" in dataset:
        raise ConfigError(
            f"dataset is {dataset!r}; write a folder, or a variable alone such as ${{PTR_ROBOT_MY_DATASET}}"
        )
    named = dataset if variable is None else os.environ.get(variable[1], "")
    remedy = "give the folder of a LeRobot dataset, or choose settings without it (--settings)"
    if variable is not None and not named:
        raise DataError(f"dataset is {dataset!r}, and this variable is not set; {remedy}")
    folder = Path(named).expanduser().absolute()  # which no loader takes for the name of a hub
    if not (folder / "meta" / "info.json").is_file():
        raise DataError(f"dataset is {dataset!r}: {folder} has no meta/info.json; {remedy}")
    return folder
