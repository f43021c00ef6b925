"""The demo's figures as PNG files, drawn without a display."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ptr_robot.data.ground_truth import EpisodeTruth
from ptr_robot.data.lerobot.frames import decode_episode
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.study.analysis.outcome import Comparison
from ptr_robot.study.cells.scored_episode import ScoredEpisode
from ptr_robot.study.report.drawing import new_figure, pyplot, write_figure

GOOD_COLOUR, MARKED_COLOUR = "#2a78b5", "#d1602b"
_BARS = ("#9aa3ab", "#7fb2d6", "#2a78b5", "#5a8f5a")
_SMOOTHING = 0.8
Curves = Mapping[str, Sequence[float | None]]  # what training recorded, by name


def draw_success(comparison: Comparison, path: Path) -> None:
    """Success of each method by task and over all, with Wilson intervals."""
    tasks = list(comparison.outcomes[0].success_by_task)
    figure, axes = new_figure(8, 3.6)
    width = 0.8 / len(comparison.outcomes)
    for number, outcome in enumerate(comparison.outcomes):
        rates = [*(outcome.success_by_task[task] for task in tasks), outcome.success]
        centres = np.arange(len(rates)) + (number - (len(comparison.outcomes) - 1) / 2) * width
        heights = np.array([rate.estimate for rate in rates])
        whiskers = np.abs([[rate.low for rate in rates], [rate.high for rate in rates]] - heights)
        colour = _BARS[number % len(_BARS)]
        axes.bar(centres, heights, width, yerr=whiskers, label=outcome.title, color=colour, capsize=2)
    axes.set_xticks(range(len(tasks) + 1), [*tasks, "all"])
    axes.set(ylim=(0, 1.05), ylabel="success", title="Success with 95% Wilson intervals")
    axes.legend(frameon=False, fontsize=8)
    write_figure(figure, path)


def draw_weights(episodes: Sequence[ScoredEpisode], title: str, auroc: float, path: Path) -> None:
    """Mean weights of good and of marked episodes as histograms over the same bins."""
    figure, axes = new_figure(5.2, 3)
    known = [(episode.is_faulty, episode.weight) for episode in episodes if episode.weight is not None]
    bins = np.histogram_bin_edges([weight for _, weight in known], bins=20) if known else 20
    for is_faulty, colour, label in ((False, GOOD_COLOUR, "good"), (True, MARKED_COLOUR, "marked faulty")):
        values = [weight for is_marked, weight in known if is_marked == is_faulty]
        axes.hist(values, bins, alpha=0.65, color=colour, label=f"{label} ({len(values)})")
    shown = "not defined" if math.isnan(auroc) else f"{auroc:.2f}"
    axes.set(xlabel="mean weight of the episode", ylabel="episodes", title=f"{title}: AUROC within tasks {shown}")
    axes.legend(frameon=False, fontsize=8)
    write_figure(figure, path)


def draw_scores(episodes: Sequence[ScoredEpisode], title: str, path: Path) -> None:
    """The mean score of every episode, task by task."""
    figure, axes = new_figure(8, 3)
    scored = [episode for episode in episodes if episode.score is not None]
    ordered = sorted(scored, key=lambda episode: (episode.task, episode.episode_index))
    for is_faulty, colour, label in ((False, GOOD_COLOUR, "good"), (True, MARKED_COLOUR, "marked faulty")):
        places = [place for place, episode in enumerate(ordered) if episode.is_faulty == is_faulty]
        axes.scatter(places, [ordered[place].score for place in places], s=14, color=colour, label=label)
    for place in range(1, len(ordered)):
        if ordered[place].task != ordered[place - 1].task:
            axes.axvline(place - 0.5, color="#cccccc", linewidth=1)
    axes.set(xlabel="episode, task by task", ylabel="mean score", title=f"{title}: score by episode")
    axes.legend(frameon=False, fontsize=8)
    write_figure(figure, path)


def draw_training(curves: Mapping[str, Curves], titles: dict[str, str], path: Path) -> None:
    """The action loss of every run, smoothed."""
    figure, axes = new_figure(8, 3)
    for number, (name, curve) in enumerate(curves.items()):
        losses = _smooth([math.nan if loss is None else loss for loss in curve["action_loss"]])
        axes.plot(curve["step"], losses, label=titles[name], color=_BARS[number % len(_BARS)], linewidth=1.6)
    axes.set(xlabel="step", ylabel="action loss", yscale="log", title="Training: the (weighted) action loss, smoothed")
    axes.legend(frameon=False, fontsize=8)
    write_figure(figure, path)


def draw_demonstrations(dataset: Path, truths: dict[int, EpisodeTruth], path: Path, num_frames: int = 6) -> None:
    """A few frames of a good episode and of faulty ones, one row each."""
    index = open_index(dataset)
    chosen = choose_examples(truths)
    camera = index.feature(index.camera_keys[0])
    plt = pyplot()
    size = (1.45 * num_frames + 0.2, 1.75 * len(chosen))
    figure, grid = plt.subplots(len(chosen), num_frames, figsize=size, squeeze=False, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.2)  # inches: room for the line above each row
    for row, truth in zip(grid, chosen, strict=True):
        episode = index.episode(truth.episode_index)
        frames = list(decode_episode(episode, camera, index.fps))
        moments = np.linspace(0, len(frames) - 1, num_frames).round().astype(int)
        for axes, moment in zip(row, moments, strict=True):
            axes.imshow(frames[moment])
            axes.set(xticks=[], yticks=[])
            axes.set_xlabel(f"frame {moment}", fontsize=8)
        text = f"{episode.tasks[0]}: {describe(truth)}"
        title = row[0].text(0, 1.05, text, fontsize=8, transform=row[0].transAxes, parse_math=False)
        title.set_in_layout(False)  # it runs over the whole row; the first picture is no wider for it
    write_figure(figure, path)


def choose_examples(truths: dict[int, EpisodeTruth], num_faulty: int = 3) -> list[EpisodeTruth]:
    """One good episode, then faulty ones of different kinds."""
    good = next((truth for truth in truths.values() if not truth.is_faulty), None)
    by_kind: dict[str, EpisodeTruth] = {}
    for truth in truths.values():
        if truth.is_faulty:
            by_kind.setdefault(truth.faults[0].kind, truth)
    return [*([good] if good else []), *list(by_kind.values())[:num_faulty]]


def describe(truth: EpisodeTruth) -> str:
    """What is known about an episode, in a few words."""
    named = [f"{fault.kind} in frames {fault.first_frame} to {fault.last_frame}" for fault in truth.faults]
    others = [f"{len(named) - 2} more"] if len(named) > 2 else []
    faults = ", ".join([*named[:2], *others])
    return f"episode {truth.episode_index} by {truth.operator or 'unknown'}: {faults or 'no fault'}"


def _smooth(values: Sequence[float]) -> list[float]:
    smoothed: list[float] = []
    for value in values:
        smoothed.append(value if not smoothed else _SMOOTHING * smoothed[-1] + (1 - _SMOOTHING) * value)
    return smoothed
