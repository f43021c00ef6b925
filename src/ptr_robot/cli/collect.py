"""``ptr collect``: record scripted operators of stated skill in an environment as a LeRobot dataset."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ptr_robot.cli.flags import parse_flags, refuse_renamed
from ptr_robot.envs.choice import EnvironmentChoice
from ptr_robot.envs.collection import PlannedDemonstration, plan_episodes, resolve_mixture
from ptr_robot.envs.operators import OperatorConfig, read_operators
from ptr_robot.envs.recording import RecordedEpisode, RecordingConfig, record
from ptr_robot.errors import ConfigError
from ptr_robot.progress import counting

# What flags of version 0.1 are called now.
RENAMED = {
    "tasks": "env.task",
    "camera.name": "env.camera",
    "camera.image_size": "env.image_size",
}


@dataclass
class CollectConfig:
    """What to record, by whom, and where to."""

    # The dataset's folder, which must not exist yet; may be given as a bare word.
    output: str = ""
    # Which environment, tasks and cameras.
    env: EnvironmentChoice = field(default_factory=EnvironmentChoice)
    # Episodes of each task.
    episodes: int = 20
    # Shares by name: --operators='{steady: 2, fumbling: 1}'; none named: all but quitting, alike.
    operators: dict[str, float] = field(default_factory=dict)
    # What the faulty operators have together, 0 to 1; unset: as their shares say.
    fault_fraction: float | None = None
    # A YAML file with operators of your own.
    operators_path: str | None = None
    # Clean and faulty episodes have lengths of the same distribution; false: each takes the time it takes.
    match_lengths: bool = True
    # False: states and actions alone.
    images: bool = True
    # AV1 files in place of lossless images in the tables.
    video: bool = False
    # The images' feature where one camera records; unset: as the environment calls it, observation.images.<camera>.
    image_key: str | None = None
    # Processes that simulate; the dataset is the same for any number.
    num_workers: int = 2
    # Seed of everything that is drawn: layouts, manners and faults.
    seed: int = 0


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    refuse_renamed(arguments, RENAMED)
    config = parse_flags(CollectConfig, arguments, positional=["output"])
    if not config.output:
        raise ConfigError("where to? name a folder that does not exist yet: ptr collect FOLDER")
    kind = config.env.kind
    operators = kind.scripted.operators
    if config.operators_path is not None:
        operators = read_operators(Path(config.operators_path), operators)
    shares = config.operators or {name: 1.0 for name in operators if name != "quitting"}
    mixture = resolve_mixture(shares, operators, config.fault_fraction)
    planned = plan_episodes(config.env.tasks(kind.default_tasks), config.episodes, mixture, config.seed, operators)
    recorded = _record_with_progress(config, planned, operators)
    console = Console()
    console.print(summary(recorded))
    num_faulty = sum(episode.truth.is_faulty for episode in recorded)
    console.print(f"{escape(config.output)}: {len(recorded)} episodes, {num_faulty} of them with faults")
    return 0


def summary(recorded: Sequence[RecordedEpisode]) -> Table:
    """Episodes, success and mean length by task and operator."""
    table = Table("task", "operator", "episodes", "success", "mean length", box=None)
    groups: dict[tuple[str, str], list[RecordedEpisode]] = {}
    for episode in recorded:
        groups.setdefault((episode.planned.task, episode.planned.operator), []).append(episode)
    for (task, operator), episodes in sorted(groups.items()):
        num_successes = sum(bool(episode.truth.is_success) for episode in episodes)
        mean_length = sum(episode.num_frames for episode in episodes) / len(episodes)
        table.add_row(
            task, Text(operator), str(len(episodes)), f"{num_successes / len(episodes):.2f}", f"{mean_length:.0f}"
        )
    return table


def _record_with_progress(
    config: CollectConfig, planned: Sequence[PlannedDemonstration], operators: Mapping[str, OperatorConfig]
) -> list[RecordedEpisode]:
    recording = RecordingConfig(
        cameras=config.env.cameras(),
        has_images=config.images,
        has_videos=config.video,
        image_key=config.image_key,
        match_lengths=config.match_lengths,
        num_workers=config.num_workers,
    )
    started, num_frames = time.monotonic(), 0
    with counting("recording", len(planned), Console(stderr=True)) as advance:

        def note(episode: RecordedEpisode) -> None:
            nonlocal num_frames
            num_frames += episode.num_frames
            advance(f", {num_frames / (time.monotonic() - started):.0f} frames/s")

        return record(Path(config.output), planned, config.env.kind, recording, note, operators)
