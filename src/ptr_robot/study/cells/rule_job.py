"""What a rule thinks of a dataset's episodes, as a job."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.errors import DataError
from ptr_robot.files import atomic_file
from ptr_robot.scorers import get_scorer
from ptr_robot.scorers.tracks import read_episode_set
from ptr_robot.study.cells.data_jobs import CACHE_FOLDER, DatasetJob
from ptr_robot.study.cells.judgement import Suspicion
from ptr_robot.study.cells.stage_job import StageJob
from ptr_robot.study.engine.jobs import Job
from ptr_robot.text_files import read_json

SUSPICIONS_FILE = "suspicions.json"


@dataclass(frozen=True)
class RuleJob(StageJob):
    """What one rule thinks of every episode of a dataset."""

    dataset: DatasetJob
    rule: str
    chunk_length: int
    seed: int
    robot: str | None = None

    folder: ClassVar[str] = "rules"

    @property
    def after(self) -> tuple[Job, ...]:
        """The dataset."""
        return (self.dataset,)

    @property
    def title(self) -> str:
        """For the terminal."""
        return f"rule {self.rule} on {self.dataset.title}"

    @property
    def settings(self) -> dict[str, Any]:
        """What the scores depend on beside the dataset."""
        robot = self.dataset.robot_identity(self.robot)
        settings = {"rule": self.rule, "chunk_length": self.chunk_length, "seed": self.seed, "robot": robot}
        version = get_scorer(self.rule).version
        return settings if version == "1" else {**settings, "version": version}

    def make(self, output: Path) -> None:
        """Score the episodes."""
        source = SourceConfig(**self.dataset.source_fields(self.robot))
        cache = str(self.root / CACHE_FOLDER)
        data = DataConfig(chunk_length=self.chunk_length, image_size=0, cache_dir=cache)
        scores = get_scorer(self.rule).score(read_episode_set(source, data, self.seed))
        rows = [Suspicion(row.episode_index, row.task, -row.score) for row in scores]
        with atomic_file(output / SUSPICIONS_FILE) as file:
            file.write((json.dumps([asdict(row) for row in rows]) + "\n").encode())

    def suspicions(self) -> list[Suspicion]:
        """What it found."""
        path = self.output / SUSPICIONS_FILE
        try:
            return [Suspicion(**row) for row in read_json(path, "remove its folder and run again")]
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{path}: not a file of suspicions ({error}); remove its folder and run again") from error
