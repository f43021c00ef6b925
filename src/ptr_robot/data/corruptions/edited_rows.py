"""One episode's rows under an edit: other actions, another task, fewer rows; the rest stays bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ptr_robot.data.corruptions.kinds import ActionNoise
from ptr_robot.data.corruptions.plan import EpisodeEdit, noise_generator
from ptr_robot.data.lerobot.tables import column_to_numpy


@dataclass(frozen=True)
class EditContext:
    """What an edit needs besides the rows: it is the same for every episode of the dataset."""

    seed: int
    action_key: str
    action_deviations: NDArray[np.float64]  # (dimensions,) over the whole dataset; empty where no noise is added
    task_indices: dict[str, int]


def edit_rows(rows: pa.Table, edit: EpisodeEdit, context: EditContext, first_index: int) -> pa.Table:
    """The rows of one episode after ``edit``; its first frame gets the global index ``first_index``."""
    episode_index = rows["episode_index"][0].as_py()
    if edit.noise is not None:
        noisy = _add_noise(column_to_numpy(rows[context.action_key]), edit.noise, context, episode_index)
        rows = _replace(rows, context.action_key, noisy)
    if edit.instruction is not None:
        task = np.full(len(rows), context.task_indices[edit.instruction])
        rows = _replace(rows, "task_index", task)
    if edit.kept_frames is not None:
        rows = rows.slice(0, edit.kept_frames)
    return _replace(rows, "index", np.arange(first_index, first_index + len(rows)))


def _add_noise(
    actions: NDArray[Any], noise: ActionNoise, context: EditContext, episode_index: int
) -> NDArray[Any]:  # as actions
    scale = noise.sigma * (context.action_deviations if noise.unit == "std" else 1.0)
    drawn = noise_generator(context.seed, episode_index).standard_normal(actions.shape)
    noisy: NDArray[Any] = (actions + drawn * scale).astype(actions.dtype)
    return noisy


def _replace(rows: pa.Table, key: str, values: NDArray[Any]) -> pa.Table:
    """``rows`` with another column in place of ``key``, of the same type and with the same metadata."""
    field = rows.schema.field(key)
    if values.ndim == 1:
        column = pa.array(values)
    elif pa.types.is_fixed_size_list(field.type):
        column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), field.type.list_size)
    else:
        offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
        column = pa.ListArray.from_arrays(offsets, pa.array(values.ravel()))
    return rows.set_column(rows.schema.get_field_index(key), field, column.cast(field.type))
