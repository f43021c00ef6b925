"""What becomes of each episode once scores and a person's marks are put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptr_robot.errors import ConfigError
from ptr_robot.scorers.episode_rows import EpisodeRow

FLAGGED = ("keep", "drop")


@dataclass(frozen=True)
class Decision:
    """One episode: whether it stays, with which weight and which instruction."""

    episode_index: int
    is_kept: bool
    weight: float  # 0 where it is dropped
    verdict: str  # keep, flag or drop: the tool's, or the person's where it was overruled
    is_overruled: bool
    reason: str
    corrected_instruction: str | None


def decide(
    rows: Mapping[int, EpisodeRow], marks: Mapping[int, str] | None = None, flagged: str = "keep"
) -> dict[int, Decision]:
    """The person's marks over the tool's verdicts; ``flagged`` says what becomes of episodes to look at.

    An episode whose only fault is its instruction stays, with the instruction that its motion follows.
    """
    if flagged not in FLAGGED:
        raise ConfigError(f"flagged is {flagged!r}; it must be one of: {', '.join(FLAGGED)}")
    marks = marks or {}
    decisions = {}
    for number, row in sorted(rows.items()):
        is_mended = row.corrected_instruction is not None and bool(row.weight_if_corrected)
        verdict = marks.get(number, "keep" if is_mended and row.verdict == "drop" else row.verdict)
        is_kept = verdict == "keep" or (verdict == "flag" and flagged == "keep")
        scored = row.weight_if_corrected if is_mended and row.weight_if_corrected is not None else row.weight
        weight = scored if number not in marks else 1.0
        decisions[number] = Decision(
            episode_index=number,
            is_kept=is_kept,
            weight=weight if is_kept else 0.0,
            verdict=verdict,
            is_overruled=number in marks and marks[number] != row.verdict,
            reason=row.reason,
            corrected_instruction=row.corrected_instruction,
        )
    return decisions
