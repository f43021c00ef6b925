"""Where the numbers of a run go, in a run folder that somebody prepared."""

from __future__ import annotations

import pytest

from ptr_robot.errors import DataError
from ptr_robot.train.config import TrainConfig
from ptr_robot.train.records import RunRecords, read_records


def test_records_replace_a_link_and_leave_what_it_points_at(tmp_path):
    (tmp_path / "precious").write_text('{"step": 1}\n')
    (tmp_path / "records.jsonl").symlink_to("precious")
    records = RunRecords(tmp_path, TrainConfig(), first_step=1)
    records.add(2, {"loss": 0.5})
    records.close()
    assert (tmp_path / "precious").read_text() == '{"step": 1}\n'
    assert read_records(tmp_path) == [{"step": 1}, {"step": 2, "loss": 0.5}]


def test_a_folder_that_tensorboard_cannot_make_is_one_line(tmp_path):
    (tmp_path / "tensorboard").write_text("a file in its place")
    with pytest.raises(DataError, match=r"tensorboard: cannot be written"):
        RunRecords(tmp_path, TrainConfig(), first_step=0)


@pytest.mark.parametrize(
    "line",
    ['{"step": Infinity}', '{"step": "1"}', '{"step": true}', '{"loss": 1}', "[1]", '{"step": 1, "loss": "low"}'],
)
def test_a_line_that_no_run_wrote_is_named(tmp_path, line):
    (tmp_path / "records.jsonl").write_text(f'{{"step": 1, "loss": 0.5}}\n{line}\n')
    with pytest.raises(DataError, match=r"records\.jsonl: line 2 is damaged"):
        read_records(tmp_path)
