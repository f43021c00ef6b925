"""From a study to its cells: every setting, method and seed, with the data that each needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from ptr_robot.envs.collection import clean_operators
from ptr_robot.study.cells.cell import Cell
from ptr_robot.study.cells.data import CellSource
from ptr_robot.study.cells.data_jobs import CollectJob, CorruptJob, DatasetJob
from ptr_robot.study.cells.pretraining import PretrainJob
from ptr_robot.study.cells.recorded_job import USUAL_STATE, RecordedJob
from ptr_robot.study.cells.rule_job import RuleJob
from ptr_robot.study.engine.jobs import Job
from ptr_robot.study.spec.definition import Study
from ptr_robot.study.spec.method_row import MethodRow
from ptr_robot.study.spec.recorded_folder import recorded_folder
from ptr_robot.study.spec.setting import Setting


def plan_cells(study: Study, root: Path, *, keeps_checkpoints: bool = False) -> list[Cell]:
    """All cells, seed by seed, so that a study that is stopped early has whole seeds to compare."""
    return [
        _cell(study, root, name, row, seed, keeps_checkpoints)
        for seed in study.seeds
        for name in study.evaluated_settings
        for row in study.methods
    ]


def with_recorders(jobs: Sequence[Job], num_workers: int) -> list[Job]:
    """The same jobs; where fewer datasets are to be recorded than there are workers, each by several processes."""
    count = sum(isinstance(job, CollectJob) for job in jobs)
    num_recorders = max(1, num_workers // max(1, count))
    return [
        dataclasses.replace(job, num_recorders=num_recorders) if isinstance(job, CollectJob) else job for job in jobs
    ]


def dataset_job(study: Study, root: Path, setting: Setting, seed: int) -> DatasetJob:
    """The demonstrations of a setting, corrupted where it says so, or the dataset that was recorded elsewhere."""
    dataset: DatasetJob
    if setting.dataset is not None:
        env = study.env_of(setting) if setting.is_evaluated else None
        dataset = RecordedJob(root, recorded_folder(setting.dataset), setting.state_key or USUAL_STATE, env)
    else:
        wanted = study.demonstrations_of(setting)
        dataset = CollectJob(root, study.tasks_of(setting), wanted, seed, study.env_of(setting))
    return CorruptJob(root, dataset, setting.corruption, seed) if setting.corruption else dataset


def pretrain_job(study: Study, root: Path) -> PretrainJob | None:
    """The policy that all cells start from, where the study has one."""
    wanted = study.pretraining
    if wanted is None:
        return None
    tasks = study.environment_type.resolve_tasks(wanted.tasks)
    clean = dataclasses.replace(
        study.demonstrations,
        episodes=wanted.episodes,
        operators=clean_operators(study.environment_type.scripted.operators),
        fault_fraction=None,
    )
    return PretrainJob(root, CollectJob(root, tasks, clean, wanted.seed, study.env), study.policy, wanted)


def _cell(study: Study, root: Path, name: str, row: MethodRow, seed: int, keeps_checkpoints: bool) -> Cell:
    setting = study.settings[name]
    parts = [study.settings[part] for part in setting.pool] or [setting]
    shares: list[float] | list[None] = setting.shares or [None] * len(parts)
    steps = max(1, round(study.training.steps * setting.steps_factor))
    return Cell(
        root=root,
        setting=name,
        row=row,
        seed=seed,
        sources=tuple(
            dataclasses.replace(_source(study, root, part, row, seed), share=share)
            for part, share in zip(parts, shares, strict=True)
        ),
        policy=study.policy,
        training=dataclasses.replace(study.training, steps=steps),
        screening=study.screening,
        camera_size=study.demonstrations.camera_size,
        keeps_checkpoints=keeps_checkpoints,
        pretrained=pretrain_job(study, root),
    )


def _source(study: Study, root: Path, setting: Setting, row: MethodRow, seed: int) -> CellSource:
    dataset = dataset_job(study, root, setting, seed)
    rules = tuple(RuleJob(root, dataset, rule, study.policy.chunk_length, seed, setting.robot) for rule in row.rules)
    return CellSource(dataset, study.tasks_of(setting), study.evaluation_of(setting), rules, setting.robot)
