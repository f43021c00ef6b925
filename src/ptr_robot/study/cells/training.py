"""A cell's training in the words of ``ptr train``, and what is kept of its records."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.method.scoring.config import ScreeningConfig
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.study.cells.data import CellData
from ptr_robot.study.cells.data_jobs import CACHE_FOLDER
from ptr_robot.study.cells.stage_training import SAVE_FREQ
from ptr_robot.study.spec.definition import TrainingSettings
from ptr_robot.study.spec.method_row import MethodRow
from ptr_robot.train.config import DatasetConfig, OptimizerConfig, TrainConfig, WeightsConfig
from ptr_robot.train.config_file import flattened
from ptr_robot.train.methods.registry import training_method
from ptr_robot.train.records import read_records

if TYPE_CHECKING:
    from ptr_robot.study.cells.cell import Cell

# What the paper's figures of training follow.
CURVES = (
    "step",
    "action_loss",
    "plain_action_loss",
    "identification_loss",
    "accuracy",
    "margin",
    "score_mean",
    "score_std",
    "weight_mean",
    "weight_std",
    "effective_sample_size",
    "num_samples",
    "kl",
    "token_entropy",
    "temperature",
    "beta",
    "hard_ratio",
)


def train_config(cell: Cell, data: CellData) -> TrainConfig:
    """The same for every method but for the method itself, its episodes and their weights."""
    policy, training = cell.policy, cell.training
    return TrainConfig(
        dataset=DatasetConfig(
            **data.dataset_fields(),
            num_chunks=policy.num_chunks,
            cache_dir=str(cell.root / CACHE_FOLDER),
        ),
        policy=_starting_policy(cell),
        method=cell.row.method,
        ptr=cell.row.ptr_config(steps=training.steps, log_freq=training.log_freq),
        output_dir=str(cell.run_folder),
        weights=WeightsConfig(apply=cell.row.apply),
        seed=cell.seed,
        steps=training.steps,
        batch_size=training.batch_size * cell.row.batch_factor,
        num_workers=0,
        log_freq=training.log_freq,
        save_freq=SAVE_FREQ,
        optimizer=OptimizerConfig(lr=training.lr),
        screening=cell.screening if cell.row.screens else ScreeningConfig(),
    )


def _starting_policy(cell: Cell) -> VLAChoice:
    """New, or the study's pretrained one, which keeps its own shape."""
    if cell.pretrained is not None:
        return VLAChoice(path=str(cell.pretrained.output), device="cpu")
    policy = cell.policy
    return VLAChoice(
        preset=policy.preset,
        chunk_length=policy.chunk_length,
        image_size=policy.image_size,
        context_sees_state=policy.context_sees_state,
        device="cpu",
    )


def non_default_settings(
    row: MethodRow, training: TrainingSettings, screening: ScreeningConfig | None = None
) -> dict[str, Any]:
    """What of PTR's settings differs from its defaults.

    A cell is known by these: what a method is called, and settings that a later version adds, do not repeat it.
    """
    usual = flattened(dataclasses.asdict(PTRConfig()))
    changed = {name: value for name, value in all_settings(row, training).items() if usual[name] != value}
    if row.apply != "loss":
        changed["weights.apply"] = row.apply
    if row.batch_factor != 1:
        changed["batch_factor"] = row.batch_factor
    method = training_method(row.method)
    if row.screens:
        changed["screening"] = dataclasses.asdict(screening or ScreeningConfig())
    return changed | method.versions(row.ptr_config(steps=training.steps, log_freq=training.log_freq))


def all_settings(row: MethodRow, training: TrainingSettings) -> dict[str, Any]:
    """PTR's settings for the row, by their dotted names."""
    return flattened(dataclasses.asdict(row.ptr_config(steps=training.steps, log_freq=training.log_freq)))


def curves_of(run: Path) -> dict[str, list[float | None]]:
    """The recorded numbers that figures follow; None where a record lacks one."""
    records = read_records(run)
    shares = [name for name in (records[-1] if records else ()) if name.startswith("weight_share/")]
    present = [name for name in (*CURVES, *shares) if any(name in record for record in records)]
    return {name: [record.get(name) for record in records] for name in present}
