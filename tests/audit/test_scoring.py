"""Scoring a dataset on disk: files, verdicts and unusable episodes; and the command."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptr_robot.audit.score_files import read_scores
from ptr_robot.audit.scoring import ScoreSettings, score_dataset, statements
from ptr_robot.cli.main import run
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.errors import ConfigError
from ptr_robot.method.scoring.check import CheckResult
from ptr_robot.method.scoring.quality import QualityConfig, assess
from ptr_robot.method.scoring.verdicts import decide
from tests.method.scoring.made_recordings import make_recordings
from tests.train.datasets import record_dataset

LENGTHS = (24, 30, 18, 26, 22, 25, 28, 21)
QUICK = ["--num_seeds=1", "--chunk_length=4"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Of a robot that nobody has a map for, with hands of more joints than any slot."""
    return record_dataset(tmp_path_factory.mktemp("sets") / "unknown", lengths=LENGTHS, robot="nobody_knows", size=9)


def test_the_files_hold_every_episode_and_frame(dataset, tmp_path, capsys) -> None:
    folder = tmp_path / "my scores"
    assert run(["score", str(dataset), f"--output_dir={folder}", *QUICK]) == 0
    printed = capsys.readouterr().out
    assert "kept in full" in printed
    assert printed.endswith(f"look at them: ptr report {dataset} --output_dir='{folder}'\n")
    scores = read_scores(folder)
    assert sorted(scores.rows) == list(range(len(LENGTHS)))
    frames = pq.read_table(folder / "ptr_frames.parquet").to_pydict()
    assert frames["index"] == list(range(sum(LENGTHS)))
    weights = {number: row.weight for number, row in scores.rows.items()}
    assert frames["weight"] == pytest.approx([weights[number] for number in frames["episode_index"]])
    summary = json.loads((folder / "ptr_score.json").read_text())
    assert summary["settings"]["max_false_exclusions"] == 0.05
    assert (folder / "ptr_score.log").read_text().endswith("done\n")
    for row in scores.rows.values():
        assert row.verdict in ("keep", "flag", "drop")
        assert all(0.0 <= value <= 1.0 for value in row.evidence.values() if not math.isnan(value))


def test_equal_runs_write_equal_bytes(dataset, tmp_path) -> None:
    for name in ("one", "other"):
        assert run(["score", str(dataset), f"--output_dir={tmp_path / name}", *QUICK]) == 0
    for file in ("ptr_episodes.parquet", "ptr_frames.parquet", "ptr_score.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_an_episode_that_cannot_be_read_is_out_and_says_why(tmp_path) -> None:
    root = record_dataset(tmp_path / "holes", lengths=LENGTHS)
    (path,) = root.glob("data/*/*.parquet")
    table = pq.read_table(path)
    states = np.stack(table["observation.state"].to_numpy()).copy()
    states[3, 0] = np.nan
    column = table.schema.get_field_index("observation.state")
    values = pa.array(states.tolist(), table.schema.field("observation.state").type)
    pq.write_table(table.set_column(column, table.schema.field(column), values), path)
    index = open_index(root, skip_bad_episodes=True)
    scores = score_dataset(index, ScoreSettings(num_seeds=1, chunk_length=4))
    assert scores.rows[0].verdict == "drop"
    assert scores.rows[0].weight == 0.0
    assert "cannot be read" in scores.rows[0].reason
    assert 0 not in scores.frames.episode_index


def test_bad_flags_are_one_line(dataset, tmp_path) -> None:
    with pytest.raises(ConfigError, match="the dataset is missing"):
        run(["score"])
    with pytest.raises(ConfigError, match="max_false_exclusions is 2"):
        run(["score", str(dataset), "--max_false_exclusions=2.0"])
    with pytest.raises(ConfigError, match="there is no vector 'actions'"):
        run(["score", str(dataset), "--action_key=actions", f"--output_dir={tmp_path}"])
    with pytest.raises(ConfigError, match=r"there is no vector 'observation.stat'"):
        run(["score", str(dataset), "--state_keys=observation.stat", f"--output_dir={tmp_path}"])


def test_faults_that_would_not_be_dropped_are_named() -> None:
    recordings = make_recordings(24)
    quality = assess(recordings, QualityConfig(num_seeds=1, chunk_length=8))
    found = [
        CheckResult(kind, kind, 20, auroc, auroc, auroc, recall, "ending", None)
        for kind, auroc, recall in (("missed", 0.6, 0.0), ("low", 0.99, 0.02), ("found", 0.99, 0.9))
    ]
    said = " ".join(statements(quality, decide(quality, ["one", "other"]), found))
    assert "mostly be missed here: missed." in said
    assert "rank low and mostly not be dropped: low." in said


def test_the_check_says_what_pictures_add(tmp_path, capsys) -> None:
    """What it finds without them is what scoring without them finds."""
    root = record_dataset(tmp_path / "seen", lengths=LENGTHS, pixels=16)
    found = {}
    for vision in ("thumbnails", "none"):
        flags = [f"--output_dir={tmp_path / vision}", f"--vision={vision}", f"--cache_dir={tmp_path / 'cache'}"]
        assert run(["score", str(root), *flags, *QUICK, "--check=true"]) == 0
        found[vision] = {row["kind"]: row for row in read_scores(tmp_path / vision).checks}
    printed = capsys.readouterr().out
    assert printed.count("Pictures change the AUROC of injected faults by") == 1
    for kind, row in found["none"].items():
        assert row["auroc_without_pictures"] is None
        assert found["thumbnails"][kind]["auroc_without_pictures"] == row["auroc"]
    assert found["thumbnails"]["dead_camera"]["auroc_without_pictures"] is None
