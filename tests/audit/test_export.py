from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ptr_robot.audit.export import export_dataset
from ptr_robot.cli.main import run
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.scorers.decisions import decide
from ptr_robot.scorers.marks import read_marks


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def marks(folder: Path, **verdicts: str) -> Path:
    file = folder / "marks.json"
    file.write_text(json.dumps({"format": 1, "verdicts": {name[1:]: mark for name, mark in verdicts.items()}}))
    return file


def test_stock_lerobot_reads_and_trains_on_what_is_exported(dataset, index, scores, tmp_path, capsys):
    """Score, export, and LeRobot's own dataset and policy on the result; the source stays as it was."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    before = content(dataset)
    done = export_dataset(index, scores, decide(scores.rows), tmp_path / "out")
    assert content(dataset) == before
    copy = LeRobotDataset("owner/copy", root=done.dataset, delta_timestamps={"action": [0.0, 0.1]})
    source = LeRobotDataset("owner/source", root=dataset)
    assert done.kept == (0, 1, 2, 4)
    assert copy.num_episodes == 4
    assert copy.num_frames == sum(index.episode(number).length for number in done.kept)
    first = sum(index.episode(number).length for number in (0, 1, 2))
    assert copy[first]["task"] == "open the drawer"  # episode 4's corrected instruction
    assert copy[0]["task"] == source[0]["task"]
    import torch

    torch.testing.assert_close(copy[first]["observation.state"], source[first + 26]["observation.state"])
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy

    config = ACTConfig(
        input_features={
            "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
            "observation.environment_state": PolicyFeature(FeatureType.ENV, (4,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
        chunk_size=2,
        n_action_steps=2,
        dim_model=16,
        n_heads=2,
        dim_feedforward=16,
        n_encoder_layers=1,
        n_vae_encoder_layers=1,
        device="cpu",
    )
    batch = next(iter(torch.utils.data.DataLoader(copy, batch_size=8)))
    batch["observation.environment_state"] = batch["observation.state"]
    loss, _ = ACTPolicy(config)(batch)
    loss.backward()
    assert torch.isfinite(loss)


def test_a_v21_dataset_becomes_a_v30_copy(tmp_path):
    from ptr_robot.data.lerobot.index import open_index
    from tests.audit.conftest import make_scores
    from tests.data.v21_writer import write_v21

    source = write_v21(tmp_path / "cubes")
    index = open_index(source)
    scores = make_scores(index, "kd")
    done = export_dataset(index, scores, decide(scores.rows), tmp_path / "out")
    copy = open_index(done.dataset)
    assert copy.version == "v3.0"
    assert [episode.length for episode in copy.episodes] == [index.episode(number).length for number in done.kept]


def test_marks_overrule_scores(index, scores, tmp_path):
    import pyarrow.parquet as parquet

    decisions = decide(scores.rows, read_marks(marks(tmp_path, _0="drop", _3="keep"), scores.rows))
    assert [number for number, decision in decisions.items() if decision.is_kept] == [1, 2, 3, 4]
    assert [number for number, decision in decisions.items() if decision.is_overruled] == [0, 3]
    done = export_dataset(index, scores, decisions, tmp_path / "out", copy_dataset=False)
    weights = parquet.read_table(done.folder / "ptr_weights.parquet").to_pandas().set_index("index").weight
    for episode in index.episodes:
        expected = 0.0 if episode.episode_index == 0 else 1.0
        rows = range(episode.first_index, episode.first_index + episode.length)
        assert set(weights.loc[list(rows)]) == {expected}


def test_frames_of_an_episode_that_is_not_there_take_no_memory_and_no_weight(index, scores, tmp_path):
    owners = scores.frames.episode_index.copy()
    owners[-1] = 2**62
    foreign = dataclasses.replace(scores, frames=dataclasses.replace(scores.frames, episode_index=owners))
    done = export_dataset(index, foreign, decide(scores.rows), tmp_path / "out", copy_dataset=False)
    weights = pq.read_table(done.folder / "ptr_weights.parquet")["weight"].to_pylist()
    assert len(weights) == len(owners)
    assert weights[-1] == 0


def test_an_episode_whose_instruction_is_mended_stays(scores):
    import dataclasses

    row = dataclasses.replace(scores.rows[3], corrected_instruction="push the puck", weight_if_corrected=0.9)
    decision = decide({**scores.rows, 3: row})[3]
    assert decision.is_kept
    assert decision.weight == 0.9
    assert not decide(scores.rows)[3].is_kept


def test_flagged_episodes_can_be_dropped_too(scores):
    assert decide(scores.rows)[2].is_kept
    assert not decide(scores.rows, flagged="drop")[2].is_kept
    with pytest.raises(ConfigError, match="flagged is 'maybe'"):
        decide(scores.rows, flagged="maybe")


def test_the_commands_are_lerobots_own(index, scores, tmp_path):
    """LeRobot's parser takes them as they are printed."""
    import shlex

    import draccus
    from lerobot.scripts.lerobot_edit_dataset import EditDatasetConfig

    done = export_dataset(index, scores, decide(scores.rows), tmp_path / "out", copy_dataset=False)
    edits = [shlex.split(line)[1:] for line in done.commands if line.startswith("lerobot-edit-dataset")]
    parsed = [draccus.parse(EditDatasetConfig, args=words) for words in edits]
    assert [config.operation.type for config in parsed] == ["delete_episodes", "modify_tasks"]
    assert parsed[0].operation.episode_indices == [3]
    assert parsed[1].operation.episode_tasks == {"4": "open the drawer"}
    assert json.loads((done.folder / "episodes.json").read_text()) == [0, 1, 2, 4]


def test_a_table_has_no_formulas(index, scores, tmp_path):
    import dataclasses

    row = dataclasses.replace(scores.rows[3], reason="=cmd|'/c calc'!A1")
    nasty = dataclasses.replace(scores, rows={**scores.rows, 3: row})
    done = export_dataset(index, nasty, decide(nasty.rows), tmp_path / "out", copy_dataset=False)
    with (done.folder / "episodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["episode_index"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert rows[3]["reason"].startswith("'=")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a readable JSON"),
        ("[1]", "no file of marks"),
        ('{"format": 1, "verdicts": {"0": "burn"}}', "marked 'burn'"),
        ('{"format": 1, "verdicts": {"99": "drop"}}', "does not have"),
        ('{"format": 1, "verdicts": {"../0": "drop"}}', "does not have"),
        ("[" * 100_000, "not a readable JSON"),
    ],
)
def test_a_bad_file_of_marks_is_one_line(scores, tmp_path, text, message):
    file = tmp_path / "marks.json"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        read_marks(file, scores.rows)


def test_dropping_everything_or_writing_over_something_is_refused(index, scores, dataset, tmp_path):
    all_dropped = decide(scores.rows, dict.fromkeys((0, 1, 2, 4), "drop"))
    with pytest.raises(DataError, match="every episode would be dropped"):
        export_dataset(index, scores, all_dropped, tmp_path / "out")
    with pytest.raises(ConfigError, match="exists already"):
        export_dataset(index, scores, decide(scores.rows), tmp_path)
    with pytest.raises(ConfigError, match="inside the dataset"):
        export_dataset(index, scores, decide(scores.rows), dataset / "out")


def test_the_command(dataset, score_folder, tmp_path, capsys):
    flags = [f"--scores={score_folder}", f"--output_dir={tmp_path / 'out'}", "--copy_dataset=false"]
    assert run(["export", str(dataset), *flags]) == 0
    assert "4 episodes kept, 1 dropped, 1 with a corrected instruction" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="name what to export"):
        run(["export", f"--output_dir={tmp_path / 'other'}"])
