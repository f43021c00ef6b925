"""Where the checkpoints of a run lie, and which of them is the last."""

from __future__ import annotations

from pathlib import Path

FOLDER = "checkpoints"
LAST = "last"
PRETRAINED = "pretrained_model"
STATE = "training_state"


def latest_checkpoint(run: Path) -> Path | None:
    """The one saved last, which need not have the highest step: a run may have been resumed from an earlier one.

    A run that was killed between putting a checkpoint in place and pointing ``last`` at it has none of that name.
    """
    last = run / FOLDER / LAST
    if last.is_dir():
        return last.resolve()
    numbered = [folder for folder in (run / FOLDER).glob("[0-9]*") if folder.name.isdigit()]
    return max(numbered, key=lambda folder: int(folder.name), default=None)


def point_last(checkpoint: Path) -> None:
    """Have ``last`` name this checkpoint, in one move."""
    link = checkpoint.with_name(f".{LAST}.partial")
    link.unlink(missing_ok=True)
    link.symlink_to(checkpoint.name)
    link.replace(checkpoint.with_name(LAST))
