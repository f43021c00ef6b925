"""The paper's four corruptions: ANI, TT, LN and Combined, on any LeRobot dataset."""

from ptr_robot.data.corruptions.kinds import (
    KINDS,
    ActionNoise,
    Corruption,
    LabelNoise,
    Truncation,
    paper_corruptions,
)
from ptr_robot.errors import require

require("pyarrow", "lerobot")

from ptr_robot.data.corruptions.write import CorruptionResult, corrupt_dataset  # noqa: E402

__all__ = [
    "KINDS",
    "ActionNoise",
    "Corruption",
    "CorruptionResult",
    "LabelNoise",
    "Truncation",
    "corrupt_dataset",
    "paper_corruptions",
]
