"""What ``ptr score`` or a person has decided about the episodes, over what the method would decide."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ptr_robot.data.lerobot.contents import DatasetIndex
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.scorers.decisions import Decision, decide
from ptr_robot.scorers.episode_rows import EpisodeRow, read_episode_table
from ptr_robot.scorers.marks import read_marks
from ptr_robot.train.methods.base import EpisodeFinding, Preparation

SCORES, MARKS = ".parquet", ".json"


@dataclass(frozen=True)
class GivenVerdicts:
    """The decisions of the files that ``--verdicts`` names, by episode index."""

    decisions: Mapping[int, Decision]  # of all episodes where there are scores, otherwise of the marked ones
    findings: Mapping[int, EpisodeFinding]  # the scores; empty where there are only marks

    @property
    def has_scores(self) -> bool:
        """Whether nothing is left for a method to score."""
        return bool(self.findings)

    def applied_to(self, preparation: Preparation, index: DatasetIndex, given: Tensor | None) -> Preparation:
        """Over what a method has decided; ``given`` are the user's own factors (episodes,)."""
        weights = preparation.episode_weights
        weights = torch.ones(index.total_episodes) if weights is None else weights.clone()
        for number, decision in self.decisions.items():
            weights[number] = decision.weight * (1.0 if given is None else float(given[number]))
        numbers = [episode.episode_index for episode in index.episodes]
        before = set(numbers if preparation.kept is None else preparation.kept[0])
        kept = [number for number in numbers if (weights[number] > 0 if number in self.decisions else number in before)]
        if not kept:
            raise DataError(f"{index.root}: the verdicts leave no episode to train on; keep at least one")
        corrected = {number: one.corrected_instruction for number, one in self.decisions.items()}
        instructions = {**preparation.instructions, **{n: text for n, text in corrected.items() if text is not None}}
        findings = {
            number: dataclasses.replace(found, weight=float(weights[number]))
            for number, found in preparation.findings.items()
        }
        return dataclasses.replace(
            preparation,
            episode_weights=weights,
            kept=[kept],
            instructions={number: text for number, text in instructions.items() if number in kept},
            findings=findings,
            summary="\n".join(filter(None, [preparation.summary, self._describe(index)])),
        )

    def _describe(self, index: DatasetIndex) -> str:
        used = [self.decisions[e.episode_index] for e in index.episodes if e.episode_index in self.decisions]
        lighter = sum(0 < one.weight < 1 for one in used)
        out = [str(one.episode_index) for one in used if one.weight == 0]
        shown = f" ({', '.join(out[:8])}{', ...' if len(out) > 8 else ''})" if out else ""
        corrected = sum(one.is_kept and one.corrected_instruction is not None for one in used)
        return (
            f"verdicts on {len(used)} episodes: {len(used) - lighter - len(out)} are kept in full, {lighter} weigh "
            f"less, {len(out)}{shown} are out, {corrected} given another instruction"
        )


def read_given_verdicts(files: Sequence[str], dataset: SegmentDataset) -> GivenVerdicts | None:
    """Scores (``ptr_episodes.parquet``), marks (JSON), or both, in which marks overrule; None: no file is named."""
    if not files:
        return None
    if len(dataset.sources) != 1:
        raise ConfigError(
            f"verdicts name the episodes of one dataset, and this run reads {len(dataset.sources)}; choose the "
            "sources' episodes instead (dataset.sources: [{repo_id, episodes}])"
        )
    index = dataset.sources[0].index
    paths = {Path(file).suffix.lower(): Path(file).expanduser() for file in files}
    if len(paths) < len(files) or not paths.keys() <= {SCORES, MARKS}:
        raise ConfigError(
            f"verdicts is {', '.join(files)}; give a {SCORES} file of ptr score, a {MARKS} file of marks, or one of "
            "each"
        )
    rows = _scores(paths[SCORES], index) if SCORES in paths else {}
    known = range(index.total_episodes)
    marks = read_marks(paths[MARKS], known, index.total_frames) if MARKS in paths else {}
    decisions = decide(rows, marks) if rows else {number: _marked(number, mark) for number, mark in marks.items()}
    return GivenVerdicts(decisions, _findings(rows, index))


def _scores(file: Path, index: DatasetIndex) -> dict[int, EpisodeRow]:
    """Every row that the run needs, each of an episode and an instruction of this dataset."""
    table = read_episode_table(file)
    foreign = "is it the file of another dataset, or from before this one changed? ptr score DATASET scores it again"
    if table.total_frames is not None and table.total_frames != index.total_frames:
        raise DataError(
            f"{file} scores {table.total_frames} frames, and {index.root} has {index.total_frames}; {foreign}"
        )
    if unknown := [number for number in table.rows if not 0 <= number < index.total_episodes]:
        raise DataError(f"{file} has episode {unknown[0]}, and {index.root} has {index.total_episodes}; {foreign}")
    texts = set(index.tasks.values())
    rows = {}
    for episode in index.episodes:
        row = table.rows.get(episode.episode_index)
        if row is None:
            raise DataError(f"{file} has no episode {episode.episode_index}, which {index.root} has; {foreign}")
        corrected = row.corrected_instruction
        if corrected is not None and corrected not in texts:
            raise DataError(
                f"{file} gives episode {episode.episode_index} the instruction {corrected[:80]!r}, "
                f"which {index.root} does not have; {foreign}"
            )
        has_one = len(episode.tasks) == 1  # an episode with several instructions keeps them
        rows[episode.episode_index] = row if has_one else dataclasses.replace(row, corrected_instruction=None)
    return rows


def _marked(number: int, mark: str) -> Decision:
    is_kept = mark == "keep"
    return Decision(
        episode_index=number,
        is_kept=is_kept,
        weight=float(is_kept),
        verdict=mark,
        is_overruled=True,
        reason="",
        corrected_instruction=None,
    )


def _findings(rows: Mapping[int, EpisodeRow], index: DatasetIndex) -> dict[int, EpisodeFinding]:
    """What ``episode_scores.parquet`` says of the scores."""
    return {
        episode.episode_index: EpisodeFinding(
            num_chunks=episode.length,
            score=None if math.isnan(rows[episode.episode_index].score) else rows[episode.episode_index].score,
            weight=rows[episode.episode_index].weight,
        )
        for episode in index.episodes
        if rows
    }
