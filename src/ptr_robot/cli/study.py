"""``ptr study NAME_OR_FILE``: compare methods over data conditions and seeds, and print the tables."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptr_robot.cli.flags import parse_flags
from ptr_robot.errors import ConfigError, require


@dataclass(frozen=True)
class DemonstrationChanges:
    """Changes to the study's demonstrations."""

    # Of each task.
    episodes: int | None = None
    # Share of faulty ones.
    fault_fraction: float | None = None
    # Whether good and faulty ones are equally long.
    match_lengths: bool | None = None
    # Pictures beside the states, for presets that look.
    images: bool | None = None
    # Pixels a side of what the cameras give.
    camera_size: int | None = None


@dataclass(frozen=True)
class PolicyChanges:
    """Changes to the study's policy."""

    # Preset (size) of the policy.
    preset: str | None = None
    # L: actions in a chunk.
    chunk_length: int | None = None
    # T: chunks in a segment.
    num_chunks: int | None = None
    # Pixels a side that the policy is given.
    image_size: int | None = None
    # Whether h_t, the context that PTR scores by, has read the state.
    context_sees_state: bool | None = None


@dataclass(frozen=True)
class TrainingChanges:
    """Changes to the study's training."""

    # Optimiser steps.
    steps: int | None = None
    # Segments in a step.
    batch_size: int | None = None
    # Peak learning rate.
    lr: float | None = None
    # Steps between two records.
    log_freq: int | None = None


@dataclass(frozen=True)
class ScreeningChanges:
    """Changes to how rows that screen do it."""

    # quality: as ptr score does; heads: as version 0.1 did.
    scorer: str | None = None


@dataclass(frozen=True)
class EvaluationChanges:
    """Changes to the study's evaluation."""

    # Of each task.
    episodes: int | None = None
    # When an episode counts as failed.
    max_steps: int | None = None
    # Actions of a chunk that are executed.
    n_action_steps: int | None = None


@dataclass(frozen=True)
class StudyFlags:
    """Compare methods over data conditions and seeds: ptr study corruption, or ptr study my_study.yaml."""

    # The name of a built-in study or a YAML file; may be given as a bare word.
    study: str = ""
    # One of the study's scales, where it has some; by default full.
    scale: str | None = None
    # By default outputs/study/<name>.
    output_dir: str | None = None
    # In place of the study's own.
    tasks: list[str] | None = None
    # Of data, initial weights and layouts; in place of the study's own.
    seeds: list[int] | None = None
    # Names of the study's settings to run; by default all.
    settings: list[str] | None = None
    # Names of the study's methods, or of the registry's, to run; by default the study's.
    methods: list[str] | None = None
    demonstrations: DemonstrationChanges = field(default_factory=DemonstrationChanges)
    policy: PolicyChanges = field(default_factory=PolicyChanges)
    training: TrainingChanges = field(default_factory=TrainingChanges)
    screening: ScreeningChanges = field(default_factory=ScreeningChanges)
    evaluation: EvaluationChanges = field(default_factory=EvaluationChanges)
    # Processes, each with a cell of its own; by default one a core.
    num_workers: int | None = None
    # Run folders of finished cells stay; they take some MB each.
    keep_checkpoints: bool = False
    # Run nothing: tables and figures of what is there.
    report_only: bool = False

    def __post_init__(self) -> None:
        if self.num_workers is not None and self.num_workers < 1:
            raise ConfigError(f"num_workers is {self.num_workers}; it must be at least 1")


NOT_OF_THE_STUDY = ("study", "scale", "output_dir", "num_workers", "keep_checkpoints", "report_only")


def main(arguments: Sequence[str]) -> int:
    """Run the verb; the exit code is 1 where a cell failed."""
    flags = parse_flags(StudyFlags, arguments, positional=["study"])
    from ptr_robot.study.spec.definition_file import built_in_studies, read_study

    if not flags.study:
        names = ", ".join(built_in_studies())
        raise ConfigError(f"which study? ptr study NAME, one of: {names}; or ptr study FILE.yaml")
    study = read_study(flags.study, overrides(flags), flags.scale)
    root = Path(flags.output_dir or f"outputs/study/{study.name}").expanduser()
    from ptr_robot.study.report.study_report import print_report, write_report
    from ptr_robot.study.run import read_study_records, run_study
    from ptr_robot.study.run_progress import StudyProgress

    rich = require("rich.console", "lerobot")
    if not flags.report_only:
        num_workers = flags.num_workers or len(os.sched_getaffinity(0))
        with StudyProgress(rich.Console(stderr=True), num_workers) as watch:
            run_study(study, root, num_workers, watch, keeps_checkpoints=flags.keep_checkpoints)
    records = read_study_records(study, root)
    report = write_report(records, root)
    print_report(report, rich.Console())
    return 1 if records.failed else 0


def overrides(flags: StudyFlags) -> dict[str, Any]:
    """What was given, nested as in a study's file."""
    given = {name: value for name, value in dataclasses.asdict(flags).items() if name not in NOT_OF_THE_STUDY}
    return _without_nones(given)


def _without_nones(values: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in values.items():
        inner = _without_nones(value) if isinstance(value, dict) else value
        if inner is not None and inner != {}:
            kept[name] = inner
    return kept
