"""What is odd about a dataset: worth a look before training, though none of it makes an episode unusable."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.inspect.motion import EpisodeMotion, Motion
from ptr_robot.data.inspect.near_groups import near_groups
from ptr_robot.data.lerobot.contents import DatasetIndex
from ptr_robot.data.lerobot.metadata import read_episodes, read_info

DUPLICATE_DISTANCE = 0.02  # root mean square, in deviations
LENGTH_DEVIATIONS = 2.7  # robust ones, where Tukey's fences lie; and a quarter of the median at least
JERK_DEVIATIONS = 5.0  # robust ones
JERK_RATIO = 2.0  # times the median episode, at least
TIME_STEP_RATIO = 1.1  # times 1 / fps
MIN_EPISODES = 5  # fewer say nothing about what is usual


@dataclass(frozen=True)
class Oddity:
    """One odd thing, the episodes it concerns (none: the whole dataset) and a line that says it."""

    kind: str
    message: str
    episodes: tuple[int, ...] = ()


def find_oddities(index: DatasetIndex, motion: Motion) -> tuple[Oddity, ...]:
    """Everything odd, the gravest kinds first."""
    return (
        *_odd_totals(index),
        *_not_finite(motion),
        *find_duplicates(motion),
        *_odd_lengths(index),
        *_jerky(motion.episodes),
        *_idle(motion.episodes, index),
        *_time_jumps(motion.episodes, index.fps),
        *_constant_dimensions(motion),
        *_odd_instructions(index),
    )


def _odd_totals(index: DatasetIndex) -> Iterator[Oddity]:
    """A count that ``meta/info.json`` states and the list of episodes does not bear out: one of them is not whole."""
    info = read_info(index.root)
    records = read_episodes(index.root, info)
    totals = {"total_episodes": len(records), "total_frames": sum(record.length for record in records)}
    for field, found in totals.items():
        if field in info and info[field] != found:
            message = f"meta/info.json says {field} {info[field]}, the list of episodes has {found}; fetch it again?"
            yield Oddity("count that is not so", message)


def _not_finite(motion: Motion) -> Iterator[Oddity]:
    for key, numbers in motion.not_finite.items():
        message = f"{key!r} holds NaN or infinity in {name_episodes(numbers)}; training on it would be refused"
        yield Oddity("not finite", message, numbers)


def find_duplicates(motion: Motion) -> Iterator[Oddity]:
    """Episodes that pass the same places at the same shares of their time as an earlier one."""
    episodes = motion.episodes
    if not episodes or episodes[0].signature.size == 0:
        return
    signatures = np.stack([episode.signature for episode in episodes])  # (N, 16 * D)
    for first, others in near_groups(signatures, DUPLICATE_DISTANCE * np.sqrt(signatures.shape[1])).items():
        numbers = tuple(episodes[place].episode_index for place in others)
        earlier = episodes[first].episode_index
        yield Oddity("near duplicate", f"episode {earlier} moves like {name_episodes(numbers)}", (earlier, *numbers))


def _odd_lengths(index: DatasetIndex) -> Iterator[Oddity]:
    """Against the episodes of the same instruction where there are enough of them."""
    groups: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for record in index.episodes:
        groups[record.tasks].append((record.episode_index, record.length))
    for pairs in groups.values():
        if len(pairs) < MIN_EPISODES:
            continue
        lengths = np.array([length for _, length in pairs])
        median = float(np.median(lengths))
        limit = max(LENGTH_DEVIATIONS * _robust_deviation(lengths), 0.25 * median)
        for word, odd in (("short", lengths < median - limit), ("long", lengths > median + limit)):
            numbers = tuple(pairs[place][0] for place in np.flatnonzero(odd))
            if numbers:
                span = _span(lengths[odd])
                message = f"{name_episodes(numbers)}: {span} frames, the median is {median:.0f}"
                yield Oddity(f"{word} episode", message, numbers)


def _jerky(episodes: Sequence[EpisodeMotion]) -> Iterator[Oddity]:
    jerks = np.array([episode.jerk for episode in episodes])
    if len(episodes) < MIN_EPISODES or np.isnan(jerks).all():
        return
    median = float(np.nanmedian(jerks))
    limit = max(JERK_RATIO * median, median + JERK_DEVIATIONS * _robust_deviation(jerks[~np.isnan(jerks)]))
    numbers = tuple(episode.episode_index for episode in episodes if episode.jerk > limit)
    if numbers:
        ratio = float(np.nanmax(jerks)) / median if median > 0 else np.inf
        message = f"{name_episodes(numbers)}: actions change direction up to {ratio:.1f} times as sharply as usual"
        yield Oddity("jerky actions", message, numbers)


def _idle(episodes: Sequence[EpisodeMotion], index: DatasetIndex) -> Iterator[Oddity]:
    """Two seconds at a stretch: shorter pauses belong to grasping."""
    found = [episode for episode in episodes if episode.longest_idle >= 2 * index.fps]
    if found:
        numbers = tuple(episode.episode_index for episode in found)
        longest = max(found, key=lambda episode: episode.longest_idle)
        share = sum(episode.idle_frames for episode in episodes) / index.num_frames
        message = (
            f"{name_episodes(numbers)}: the robot stands still for two seconds or more, at most "
            f"{longest.longest_idle / index.fps:.1f} s (episode {longest.episode_index}); {share:.1%} of all frames"
        )
        yield Oddity("idle stretch", message, numbers)


def _time_jumps(episodes: Sequence[EpisodeMotion], fps: float) -> Iterator[Oddity]:
    found = [episode for episode in episodes if episode.largest_step > TIME_STEP_RATIO / fps]
    if found:
        numbers = tuple(episode.episode_index for episode in found)
        largest = max(episode.largest_step for episode in found)
        message = f"{name_episodes(numbers)}: up to {1000 * largest:.0f} ms between frames, not {1000 / fps:.0f}"
        yield Oddity("jump in time", message, numbers)


def _constant_dimensions(motion: Motion) -> Iterator[Oddity]:
    still = [
        name
        for scale in (motion.states, motion.actions)
        for name, moves in zip(scale.names, scale.moving, strict=True)
        if not moves
    ]
    if still:
        more = f" and {len(still) - 4} more" if len(still) > 4 else ""
        yield Oddity("constant dimension", f"{', '.join(still[:4])}{more}: one value in every frame")


def _odd_instructions(index: DatasetIndex) -> Iterator[Oddity]:
    spellings: dict[str, set[str]] = defaultdict(set)
    for record in index.episodes:
        for task in record.tasks:
            spellings[" ".join(re.findall(r"\w+", task.casefold()))].add(task)
    for plain, written in spellings.items():
        if not plain:
            yield Oddity("empty instruction", "some episodes have an instruction without words")
        elif len(written) > 1:
            variants = ", ".join(repr(text) for text in sorted(written))
            yield Oddity("one instruction, several spellings", f"{variants} count as different tasks")


def _robust_deviation(values: NDArray[np.floating] | NDArray[np.integer]) -> float:
    """The standard deviation that the median absolute deviation stands for under a normal distribution."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _span(values: NDArray[np.integer]) -> str:
    low, high = int(values.min()), int(values.max())
    return str(low) if low == high else f"{low} to {high}"


def name_episodes(numbers: Sequence[int], limit: int = 6) -> str:
    """``episode 3``, ``episodes 3, 4`` or the first few and a count."""
    shown = ", ".join(map(str, numbers[:limit]))
    more = f" and {len(numbers) - limit} more" if len(numbers) > limit else ""
    return f"episode{'s' if len(numbers) > 1 else ''} {shown}{more}"
