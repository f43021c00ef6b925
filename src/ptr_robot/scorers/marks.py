"""A person's word over the tool's: the small JSON file that the report saves, read with care."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from ptr_robot.errors import DataError
from ptr_robot.text_files import is_episode_number, read_json

FORMAT = 1
MARKS = ("keep", "drop")


def read_marks(file: Path, known: Container[int], total_frames: int | None = None) -> dict[int, str]:
    """``{"format": 1, "verdicts": {"12": "drop"}}`` as marks by episode index, each of an episode that is ``known``.

    Where the file says how many frames its dataset has, as the report's does, they must be ``total_frames``.
    """
    try:
        entries = read_json(file, "save the marks again from the report")
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file}: not a readable JSON file ({error}); save the marks again from the report") from error
    if (
        not isinstance(entries, dict)
        or entries.get("format") != FORMAT
        or not isinstance(entries.get("verdicts"), dict)
    ):
        raise DataError(
            f'{file} is no file of marks; it looks like {{"format": {FORMAT}, "verdicts": {{"12": "drop"}}}}'
        )
    if total_frames is not None and entries.get("total_frames", total_frames) != total_frames:
        raise DataError(
            f"{file} marks a dataset of {str(entries['total_frames'])[:20]} frames, and this one has {total_frames}; "
            "is it another's file, or from before this one changed?"
        )
    marks = {}
    for name, mark in entries["verdicts"].items():
        if not isinstance(mark, str) or mark not in MARKS:
            raise DataError(
                f"{file}: episode {name[:60]} is marked {str(mark)[:60]!r}; a mark is one of: {', '.join(MARKS)}"
            )
        if not is_episode_number(name) or int(name) not in known:
            raise DataError(
                f"{file} marks episode {name[:60]!r}, which the dataset does not have; is it another's file?"
            )
        marks[int(name)] = str(mark)
    return marks
