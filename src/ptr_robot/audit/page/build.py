"""From a dataset and its scores to the page: cards for all episodes, details one at a time."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ptr_robot.audit.page.budget import FRAME_WIDTH, share_pictures
from ptr_robot.audit.page.contents import (
    EpisodeCard,
    EpisodeDetail,
    Likeness,
    Page,
    most_moving,
    thin,
    weak_stretches,
)
from ptr_robot.audit.page.likeness import most_similar_frame, picture_pairs, weakest_chunks
from ptr_robot.audit.page.pictures import Filmstrip, chunk_starts, make_filmstrip
from ptr_robot.audit.page.similarity import Similarity
from ptr_robot.audit.score_files import Scores
from ptr_robot.data.ground_truth import read_ground_truth
from ptr_robot.data.lerobot.contents import DatasetIndex, EpisodeRecord
from ptr_robot.data.lerobot.labels import read_labels
from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.data.lerobot.tables import Columns, slice_episode
from ptr_robot.errors import DataError

WEAK = 0.05  # evidence below it is a weak stretch
FEW_EPISODES = 10


@dataclass(frozen=True)
class PageSettings:
    """What the page shows."""

    state_key: str = "observation.state"
    action_key: str = "action"
    camera_key: str | None = None  # default: the dataset's first
    chunk_length: int = 16
    max_megabytes: float = 16.0  # of pictures


class PageBuilder:
    """Makes the cards first, then the details in the same order; pictures are decoded once for both."""

    def __init__(self, index: DatasetIndex, scores: Scores, similarity: Similarity, settings: PageSettings) -> None:
        self.index, self.scores, self.similarity, self.settings = index, scores, similarity, settings
        self.camera = settings.camera_key or next(iter(index.camera_keys), None)
        verdicts = {episode.episode_index: scores.row(episode.episode_index).verdict for episode in index.episodes}
        self.budget = share_pictures(verdicts, similarity.nearest_kept, settings.max_megabytes if self.camera else 0)
        self.labels = episode_labels(index.root)
        self._records = {episode.episode_index: episode for episode in index.episodes}
        keys = [key for key in (settings.state_key, settings.action_key) if key in index.features]
        # A v3.0 file holds thousands of episodes: it is read once for all of them, and one more for a kept neighbour's.
        self._table = lru_cache(maxsize=2)(lambda path: read_parquet(path, keys))

    def cards(self, films: Mapping[int, Filmstrip]) -> list[EpisodeCard]:
        """One an episode, in the order of recording."""
        return [self._card(episode, films.get(episode.episode_index)) for episode in self.index.episodes]

    def _card(self, episode: EpisodeRecord, film: Filmstrip | None) -> EpisodeCard:
        number, row = episode.episode_index, self.scores.row(episode.episode_index)
        return EpisodeCard(
            episode_index=number,
            task=" / ".join(episode.tasks),
            length=episode.length,
            score=row.score,
            low=row.low,
            high=row.high,
            weight=row.weight,
            verdict=row.verdict,
            reason=row.reason,
            corrected_instruction=row.corrected_instruction,
            evidence=tuple(row.evidence.get(name, float("nan")) for name in self.scores.channels),
            labels=tuple(texts.get(number, "") for texts in self.labels.values()),
            duplicate_of=self.similarity.duplicate_of.get(number),
            neighbour=self.similarity.nearest_kept.get(number),
            start=self.similarity.starts[number],
            end=self.similarity.ends[number],
            thumbnail=film.thumbnail if film else "",
        )

    def film(self, episode: EpisodeRecord) -> Filmstrip | None:
        """Its frames at chunk starts; None without a camera or where the page has no room for them."""
        number = episode.episode_index
        at_most, has_thumbnail = self.budget.frames[number], number in self.budget.thumbnails
        if self.camera is None or not (at_most or has_thumbnail):
            return None
        frames = chunk_starts(episode.length, self.settings.chunk_length, at_most) if at_most else []
        feature = self.index.feature(self.camera)
        return make_filmstrip(episode, feature, self.index.fps, frames, width=FRAME_WIDTH)

    def details(self, films: Mapping[int, Filmstrip], notes: Mapping[int, str]) -> Iterator[EpisodeDetail]:
        """One an episode, read when it is asked for."""
        for episode in self.index.episodes:
            number = episode.episode_index
            yield self._detail(episode, films.get(number), notes.get(number, ""))

    def _detail(self, episode: EpisodeRecord, film: Filmstrip | None, note: str) -> EpisodeDetail:
        values = self._values(episode)
        evidence = self.scores.timelines(episode.episode_index, episode.length)
        return EpisodeDetail(
            episode_index=episode.episode_index,
            length=episode.length,
            timelines={name: thin(trace) for name, trace in evidence.items()},
            states=self._traces(values.get(self.settings.state_key), self.settings.state_key),
            actions=self._traces(values.get(self.settings.action_key), self.settings.action_key),
            stretches=weak_stretches(evidence, WEAK, self.scores.row(episode.episode_index).evidence),
            frames=film.frames if film else (),
            sprite=film.sprite if film else "",
            frame_size=(film.width, film.height) if film else (0, 0),
            likeness=self._likeness(episode, evidence),
            note=note or ("" if film and film.frames else self._why_no_pictures()),
        )

    def _why_no_pictures(self) -> str:
        if self.camera is None:
            return "No pictures: the dataset has no camera."
        return "No pictures: the page has no room for more (ptr report --max_megabytes)."

    def _traces(self, values: NDArray[np.generic] | None, key: str) -> dict[str, NDArray[np.float32]]:
        if values is None:
            return {}
        values = values.reshape(len(values), -1)
        names = self.index.features[key].names
        named = len(names) == values.shape[1]
        return {(names[place] if named else f"{key}[{place}]"): thin(values[:, place]) for place in most_moving(values)}

    def _likeness(self, episode: EpisodeRecord, evidence: Mapping[str, NDArray[np.float32]]) -> tuple[Likeness, ...]:
        """For the weakest chunks of a suspected episode: the most similar situations of its nearest kept episode."""
        other = self.similarity.nearest_kept.get(episode.episode_index)
        if self.scores.row(episode.episode_index).verdict == "keep" or other is None:
            return ()
        offset, record = self.settings.chunk_length, self._records[other]
        starts = weakest_chunks(evidence, chunk_length=offset, threshold=WEAK, at_most=max(1, self.budget.num_chunks))
        own, others = self._states(episode), self._states(record)
        scale = np.nanstd(np.concatenate([own, others]), axis=0) + 1e-6  # of both: a joint that rests must not decide
        found = []
        for frame in starts:
            place = most_similar_frame(own[frame], frame / max(1, episode.length - 1), others, scale, offset=offset)
            pictures: tuple[str, ...] = ()
            if self.camera is not None and self.budget.num_chunks:
                feature = self.index.feature(self.camera)
                pictures = picture_pairs(episode, frame, record, place, offset, feature, self.index.fps)
            found.append(Likeness(frame, other, place, offset, pictures))
        return tuple(found)

    def _states(self, episode: EpisodeRecord) -> NDArray[np.floating]:  # (length, D)
        return self._values(episode)[self.settings.state_key].reshape(episode.length, -1).astype(np.float64)

    def _values(self, episode: EpisodeRecord) -> Columns:
        table = self._table(episode.table)
        return slice_episode(table, episode, table.column_names)


def build_page(
    index: DatasetIndex,
    scores: Scores,
    similarity: Similarity,
    settings: PageSettings,
    *,
    on_episode: Callable[[], None] = lambda: None,
) -> tuple[Page, Iterator[EpisodeDetail]]:
    """The page, and the details to follow it."""
    builder = PageBuilder(index, scores, similarity, settings)
    films: dict[int, Filmstrip] = {}
    notes: dict[int, str] = {}
    for episode in index.episodes:
        try:
            film = builder.film(episode)
        except DataError as error:
            notes[episode.episode_index] = f"No pictures: {error}"
            film = None
        if film is not None:
            films[episode.episode_index] = film
        on_episode()
    cards = builder.cards(films)
    page = Page(
        title=index.root.name,
        total_frames=index.total_frames,
        facts=_facts(index),
        counts=_counts(cards),
        statements=[*_warnings(index), *scores.statements],
        channels=scores.channels,
        episodes=cards,
        checks=scores.checks,
        confusions=_confusions(cards),
        labels=list(builder.labels),
        weak=WEAK,
        fps=index.fps,
    )
    return page, builder.details(films, notes)


def episode_labels(root: Path) -> dict[str, dict[int, str]]:
    """What the dataset says of its episodes: texts of its metadata, and the operators of a recorded ground truth."""
    labels = read_labels(root)
    truths = read_ground_truth(root) or {}
    operators = {number: truth.operator for number, truth in truths.items() if truth.operator is not None}
    return labels if len(set(operators.values())) < 2 else {"operator": operators, **labels}


def _facts(index: DatasetIndex) -> dict[str, str]:
    return {
        "robot": index.robot_type or "unknown",
        "episodes": str(len(index.episodes)),
        "frames": str(index.num_frames),
        "rate": f"{index.fps:g} Hz",
        "tasks": str(len({episode.tasks for episode in index.episodes})),
        "cameras": str(len(index.camera_keys)),
        "format": f"LeRobot {index.version}",
    }


def _counts(cards: list[EpisodeCard]) -> dict[str, int]:
    counts = Counter(card.verdict for card in cards)
    return {**counts, "mislabelled": sum(card.corrected_instruction is not None for card in cards)}


def few_episodes(count: int) -> list[str]:
    """What cannot be known of so few; nothing where they are enough."""
    if count >= FEW_EPISODES:
        return []
    return [
        f"{count} episodes are too few to know what is usual: verdicts are weak, and a fault that most of them share "
        "cannot be seen."
    ]


def _warnings(index: DatasetIndex) -> list[str]:
    found = few_episodes(len(index.episodes))
    if index.left_out:
        first = index.left_out[0].message
        found.append(f"{len(index.left_out)} episodes could not be read and are not shown; the first: {first}")
    return found


def _confusions(cards: list[EpisodeCard]) -> list[tuple[str, str, int]]:
    pairs = Counter((card.task, card.corrected_instruction) for card in cards if card.corrected_instruction is not None)
    return [(given, fits, count) for (given, fits), count in pairs.most_common(50)]


def with_commands(page: Page, commands: list[tuple[str, str]]) -> Page:
    """The page with what to type next."""
    return dataclasses.replace(page, commands=commands)
