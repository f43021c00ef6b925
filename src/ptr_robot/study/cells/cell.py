"""A cell: one method trained on one setting's data with one seed, evaluated, and recorded."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import time
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from ptr_robot import __version__
from ptr_robot.files import fingerprint
from ptr_robot.method.scoring.config import ScreeningConfig
from ptr_robot.study.analysis.detection import auroc_by_fault, mean_weights
from ptr_robot.study.cells.cell_rollouts import evaluate_cell
from ptr_robot.study.cells.data import CellData, CellSource
from ptr_robot.study.cells.pretraining import PretrainJob
from ptr_robot.study.cells.record import FAILED, CellRecord, read_record, record_path, write_record
from ptr_robot.study.cells.stage_training import train_stage
from ptr_robot.study.cells.training import curves_of, non_default_settings, train_config
from ptr_robot.study.engine.jobs import Job
from ptr_robot.study.engine.stages import Stage
from ptr_robot.study.spec.definition import PolicySettings, TrainingSettings, by_value
from ptr_robot.study.spec.method_row import MethodRow

RUNS_FOLDER = "runs"
WEIGHTS_FOLDER = "weights"


@dataclass(frozen=True)
class Cell(Job):
    """Everything that decides a cell's result, and where it goes."""

    root: Path
    setting: str
    row: MethodRow
    seed: int
    sources: tuple[CellSource, ...]
    policy: PolicySettings
    training: TrainingSettings
    screening: ScreeningConfig
    camera_size: int
    keeps_checkpoints: bool = False
    pretrained: PretrainJob | None = None

    @property
    def key(self) -> str:
        """Setting, method and seed."""
        return f"{self.setting}/{self.row.name}/{self.seed}"

    @property
    def title(self) -> str:
        """The same, for the terminal."""
        return self.key

    @property
    def after(self) -> tuple[Job, ...]:
        """The policy it starts from, the datasets, and what the method's rules think of them."""
        start = () if self.pretrained is None else (self.pretrained,)
        return (*start, *(job for source in self.sources for job in (source.dataset, *source.rules)))

    @property
    def settings(self) -> dict[str, Any]:
        """What the result depends on beside the data."""
        shares = [source.share for source in self.sources]
        return {
            **({} if None in shares else {"shares": shares}),
            "seed": self.seed,
            "tasks": [source.tasks for source in self.sources],
            "camera_size": self.camera_size,
            "method": non_default_settings(self.row, self.training, self.screening),
            "filter": _plain(self.row.filter),
            "weighting": _plain(self.row.weighting),
            "policy": by_value(self.policy),
            "training": dataclasses.asdict(self.training),
            "evaluation": self._evaluation,
        }

    @property
    def _evaluation(self) -> Any:
        """One for all sources, as version 0.1 had it, or one for each that is evaluated."""
        own = [by_value(source.evaluation) for source in self.sources if source.tasks]
        return own[0] if all(settings == own[0] for settings in own) else own

    @property
    def identity(self) -> str:
        """A name for the settings and for the data; titles are no part of it."""
        data = [
            (job.stage.identity, source.dataset.robot_identity(source.robot))
            for source in self.sources
            for job in (source.dataset, *source.rules)
        ]
        start = [] if self.pretrained is None else [self.pretrained.stage.identity]
        return fingerprint(__version__, self.settings, data, *start)

    @property
    def run_stage(self) -> Stage:
        """Its training, which an interrupted run goes on with while the settings are the same."""
        name = f"{RUNS_FOLDER}/{self.setting}/{self.row.name}/{self.seed}"
        return Stage(self.root, name, {"cell": self.identity})

    @property
    def run_folder(self) -> Path:
        """Where it trains."""
        return self.run_stage.output

    def read(self) -> CellRecord | None:
        """Its record, if there is one of these settings."""
        record = read_record(record_path(self.root, self.setting, self.row.name, self.seed))
        return record if record is not None and record.identity == self.identity else None

    def is_done(self) -> bool:
        """Whether it has results of these settings."""
        record = self.read()
        return record is not None and record.is_done

    def fail(self, reason: str) -> None:
        """Record why there is no result."""
        write_record(self.root, self._record(status=FAILED, reason=reason))

    def run(self) -> None:
        """Train, evaluate, record, and remove the checkpoint unless it is to be kept."""
        started = time.monotonic()
        data = CellData.prepare(
            self.sources, self.row, self.root / WEIGHTS_FOLDER / self.setting / self.row.name / str(self.seed)
        )
        prepared = time.monotonic()
        train_stage(self.run_stage, train_config(self, data))
        trained = time.monotonic()
        episodes = evaluate_cell(self.run_folder, self.sources, self.seed)
        evaluated = time.monotonic()
        scored = data.scored_episodes(self.run_folder, self.row)
        record = self._record(
            episodes=episodes,
            scored_episodes=scored,
            auroc={name: auroc_by_fault(scored, attrgetter(name)) for name in ("score", "weight")},
            mean_weight=mean_weights(scored),
            num_training_episodes=data.num_training_episodes(scored, self.row),
            curves=curves_of(self.run_folder),
        )
        seconds = {
            "prepare": prepared - started,
            "train": trained - prepared,
            "evaluate": evaluated - trained,
            "record": time.monotonic() - evaluated,
        }
        if not self.keeps_checkpoints:
            self.run_stage.spend()
        write_record(self.root, dataclasses.replace(record, seconds=seconds))
        self.run_stage.discard_if_spent()

    def _record(self, **results: Any) -> CellRecord:
        environments = [kind for source in self.sources if (kind := source.dataset.environment_type) is not None]
        own = dict.fromkeys(library for kind in environments for library in kind.libraries)
        libraries = ("torch", "lerobot", *own, "numpy")
        return CellRecord(
            setting=self.setting,
            method=self.row.name,
            seed=self.seed,
            identity=self.identity,
            settings=self.settings,
            versions={"ptr-robot": __version__} | {name: importlib.metadata.version(name) for name in libraries},
            **results,
        )


def _plain(value: Any) -> dict[str, Any] | None:
    return None if value is None else dataclasses.asdict(value)
