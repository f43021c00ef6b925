"""Screening inside a run: what is looked at, what is left out, and what the run records."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import signal
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from ptr_robot.audit.scoring import ScoreSettings, score_dataset
from ptr_robot.data.config import SourceConfig
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.method.scoring.quality import assess
from ptr_robot.method.scoring.screen import Screening, ScreeningConfig, screen
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.train.build import build_parts
from ptr_robot.train.config import DatasetConfig, resolve
from ptr_robot.train.episode_records import EPISODE_SCORES_FILE
from ptr_robot.train.loop import train
from ptr_robot.train.methods.screened import SCREENING_FILE, describe_screening
from ptr_robot.train.screening import _alike, _transitions

from . import worker
from .conftest import LENGTHS
from .datasets import record_dataset

QUICK = ScreeningConfig(scorer="heads", steps=3, batch_size=8, pool_size=8, hidden_dim=8, num_folds=2)


def screened(settings, **changes):
    return dataclasses.replace(settings(method="screened"), screening=QUICK, **changes)


def screening_of(parts) -> Screening:
    """What the method found before the first step."""
    return Screening(**parts.preparation.state)


WEIGHTS = [1.0, 0.0, 0.25, 1.0]


@pytest.fixture
def _judged(monkeypatch):
    """Four episodes are too few to be separated: here screening leaves one out and doubts another."""

    def found(transitions, config, report):
        return dataclasses.replace(screen(transitions, config, report), weights=torch.tensor(WEIGHTS))

    monkeypatch.setattr("ptr_robot.train.screening.screen", found)


@pytest.mark.usefixtures("_judged")
def test_every_episode_is_judged_and_kept_ones_are_trained_on(settings):
    parts = build_parts(resolve(screened(settings), datetime.now()))
    found = screening_of(parts)
    assert found.episode_ids.tolist() == list(range(len(LENGTHS)))
    (source,) = parts.loader.dataset.sources
    assert [episode.episode_index for episode in source.index.episodes] == [0, 2, 3]
    batch = next(iter(parts.loader))
    assert {0.25, 1.0} == set(found.weights[batch.episode_id].tolist())
    output, _ = parts.module(batch, 0)
    expected = found.weights[batch.episode_id].repeat_interleave(batch.num_chunks)
    expected[batch.chunk_is_pad.flatten()] = 0.0
    torch.testing.assert_close(output.weights, expected)


def test_corrected_instructions_reach_the_batches_and_the_record(settings, monkeypatch):
    """Whatever evidence says: the run trains on the instruction that was found, and says which."""

    def found(transitions, config, report):
        real = screen(transitions, config, report)
        other = (real.instructions + 1) % len(torch.unique(real.instructions))
        is_corrected = real.episode_ids == 1
        instructions = torch.where(is_corrected, other, real.instructions)
        return dataclasses.replace(
            real, weights=torch.ones(len(other)), instructions=instructions, is_corrected=is_corrected
        )

    monkeypatch.setattr("ptr_robot.train.screening.screen", found)
    parts = build_parts(resolve(screened(settings), datetime.now()))
    texts = {number: text for text, number in parts.everything.task_ids.items()}
    recorded, used = ({}, {})
    for dataset, seen in ((parts.everything, recorded), (parts.loader.dataset, used)):
        batch = dataset[range(len(dataset))]
        seen.update(zip(batch.episode_id.tolist(), batch.instructions, strict=True))
        assert [texts[task] for task in batch.task_id.tolist()] == list(batch.instructions)
    assert {number for number in used if used[number] != recorded[number]} == {1}
    rows = read_parquet(train(screened(settings)).output_dir / EPISODE_SCORES_FILE).to_pylist()
    assert [row["corrected_instruction"] for row in rows] == [
        used[1] if row["episode_index"] == 1 else None for row in rows
    ]


def test_a_policy_that_looks_is_screened_by_what_it_sees(settings, image_data):
    dataset = DatasetConfig(repo_id=str(image_data), num_chunks=2, cache_dir=str(image_data.parent / "cache"))
    policy = VLAChoice(preset="tiny", chunk_length=4, image_size=32, device="cpu")
    parts = build_parts(resolve(screened(settings, dataset=dataset, policy=policy, batch_size=2), datetime.now()))
    assert screening_of(parts).scores.isfinite().all()


@pytest.mark.usefixtures("_judged")
def test_the_run_records_scores_and_weights_of_all_episodes(settings):
    result = train(screened(settings))
    rows = read_parquet(result.output_dir / EPISODE_SCORES_FILE).to_pylist()
    assert [row["episode_index"] for row in rows] == list(range(len(LENGTHS)))
    assert all(row["mean_score"] is not None and row["num_scored"] > 0 for row in rows)
    assert [row["mean_weight"] for row in rows] == pytest.approx(WEIGHTS)
    assert [row["num_samples"] > 0 for row in rows] == [True, False, True, True]


@pytest.mark.usefixtures("_judged")
def test_a_run_on_other_data_is_not_resumed(settings):
    config = screened(settings)
    run = train(config).output_dir
    dataset = dataclasses.replace(config.dataset, episodes=[0, 1])
    with pytest.raises(ConfigError, match="cannot resume the data: screening judged 4 episodes"):
        train(dataclasses.replace(config, dataset=dataset, resume=True), checkpoint=run / "checkpoints" / "000003")


def test_screening_says_what_it_is_doing(settings, capsys):
    build_parts(resolve(screened(settings), datetime.now()))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "screening: reading"
    assert {"screening: consequences", "screening: actions"} <= set(lines)


@pytest.mark.usefixtures("_judged")
def test_a_resumed_run_goes_on_with_the_episodes_it_began_with(settings, monkeypatch):
    """Screening is part of the checkpoint: it is read, not repeated."""
    config = screened(settings)
    run = train(config).output_dir
    checkpoint = run / "checkpoints" / "000003"
    expected = screening_of(build_parts(resolve(config, datetime.now())))
    monkeypatch.setattr("ptr_robot.train.screening.screen", lambda *_: pytest.fail("screened again"))
    parts = build_parts(resolve(config, datetime.now()), checkpoint=checkpoint)
    for field in dataclasses.fields(Screening):
        assert torch.equal(getattr(screening_of(parts), field.name), getattr(expected, field.name)), field.name
    file = checkpoint / "training_state" / SCREENING_FILE
    file.write_bytes((checkpoint / "training_state" / "sums.safetensors").read_bytes())
    with pytest.raises(DataError, match="not a record of screening"):
        build_parts(resolve(config, datetime.now()), checkpoint=checkpoint)
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(DataError, match="cannot be read"):
        build_parts(resolve(config, datetime.now()), checkpoint=checkpoint)


def test_the_line_names_what_is_left_out(settings, state_data, tmp_path):
    def line_of(dataset, left_out, corrected):
        parts = build_parts(resolve(dataclasses.replace(settings(method="sft"), dataset=dataset), datetime.now()))
        count = len(LENGTHS) * len(parts.everything.sources)
        found = Screening(
            episode_ids=torch.arange(count),
            num_chunks=torch.ones(count, dtype=torch.int64),
            scores=torch.zeros(count, 3),
            z_scores=torch.zeros(count),
            weights=torch.ones(count).index_fill(0, torch.tensor(left_out), 0.0),
            instructions=torch.zeros(count, dtype=torch.int64),
            is_corrected=torch.zeros(count, dtype=torch.bool).index_fill(
                0, torch.tensor(corrected, dtype=torch.int64), True
            ),
        )
        return describe_screening(found, parts.everything)

    one = settings().dataset
    expected = (
        "screened 4 episodes: 2 are kept in full, 0 weigh less, 2 (0, 3) are out, 1 (2) given another instruction"
    )
    assert line_of(one, [0, 3], [2]) == expected
    twin = shutil.copytree(state_data, tmp_path / "twin")
    sources = [SourceConfig(repo_id=str(folder)) for folder in (state_data, twin, twin)]
    line = line_of(DatasetConfig(sources=sources[:2], cache_dir=one.cache_dir), [3, 4, 6], [7])
    assert line.endswith(f"3 ({state_data.name}:3, twin:0, twin:2) are out, 1 (twin:3) given another instruction")
    line = line_of(DatasetConfig(sources=sources, cache_dir=one.cache_dir), list(range(1, 12)), [])
    assert f"11 ({state_data}:1, {state_data}:2, {state_data}:3, {twin}:0, " in line  # short names would be ambiguous
    assert line.endswith(", ...) are out, 0 given another instruction")


def test_cameras_count_where_the_state_never_moves(settings, image_data, monkeypatch):
    """A dummy state must not silence what is seen."""
    seen = {}

    def found(transitions, config, report):
        seen["changes"] = transitions.changes
        return screen(transitions, config, report)

    def at_rest(batch, facts, encoder):
        states, looks, moved, *rest = _transitions(batch, facts, encoder)
        return torch.zeros_like(states), looks, torch.zeros_like(moved), *rest

    monkeypatch.setattr("ptr_robot.train.screening.screen", found)
    monkeypatch.setattr("ptr_robot.train.screening._transitions", at_rest)
    dataset = DatasetConfig(repo_id=str(image_data), num_chunks=2, cache_dir=str(image_data.parent / "cache"))
    policy = VLAChoice(preset="tiny", chunk_length=4, image_size=32, device="cpu")
    build_parts(resolve(screened(settings, dataset=dataset, policy=policy, batch_size=2), datetime.now()))
    assert seen["changes"].abs().max() > 0


def test_every_episode_is_looked_at_however_few_chunks_are(settings):
    config = screened(settings)
    config = dataclasses.replace(config, screening=dataclasses.replace(QUICK, max_chunks=2))
    found = screening_of(build_parts(resolve(config, datetime.now())))
    assert found.episode_ids.tolist() == list(range(len(LENGTHS)))


def test_of_many_episodes_each_has_several_chunks_judged(settings, tmp_path):
    data = record_dataset(tmp_path / "many", lengths=(60,) * 6)
    dataset = DatasetConfig(repo_id=str(data), num_chunks=2, cache_dir=str(tmp_path / "cache"))
    config = dataclasses.replace(
        screened(settings, dataset=dataset), screening=dataclasses.replace(QUICK, max_chunks=6)
    )
    assert screening_of(build_parts(resolve(config, datetime.now()))).num_chunks.min() >= 3


def test_what_moved_and_what_looks_different_count_alike():
    moved, looked = torch.randn(50, 3), 100 * torch.randn(50, 7)
    changes = _alike(moved, looked)
    assert torch.equal(changes[:, :3], moved)
    sizes = [part.square().sum(dim=1).mean().sqrt() for part in changes.split([3, 7], dim=1)]
    torch.testing.assert_close(*sizes)
    assert torch.equal(_alike(torch.zeros(50, 3), looked)[:, 3:], looked)


def test_every_episode_that_can_be_judged_is_where_offsets_are_drawn(settings, tmp_path):
    """An episode's first chunk may draw an offset beyond its end where a later one does not."""
    data = record_dataset(tmp_path / "short", lengths=(12,) * 12)
    dataset = DatasetConfig(
        repo_id=str(data), num_chunks=2, cache_dir=str(tmp_path / "cache"), offset_steps=4, offset_steps_max=16
    )
    parts = build_parts(resolve(screened(settings, dataset=dataset, batch_size=2), datetime.now()))
    segments = parts.everything
    firsts = [*segments.first_segments, len(segments)]
    can_be = [any(map(segments.has_target, range(*bounds))) for bounds in itertools.pairwise(firsts)]
    begin_well = [segments.has_target(first) for first in firsts[:-1]]
    assert sum(can_be) > sum(begin_well)
    assert screening_of(parts).episode_ids.tolist() == [number for number, can in enumerate(can_be) if can]


@pytest.mark.usefixtures("_judged")
def test_weights_that_leave_nothing_of_what_is_kept_are_refused(settings, tmp_path):
    file = tmp_path / "weights.json"
    file.write_text('{"0": 0, "1": 1, "2": 0, "3": 0}')
    config = screened(settings)
    config = dataclasses.replace(config, dataset=dataclasses.replace(config.dataset, episode_weights=str(file)))
    with pytest.raises(DataError, match="the episodes that screening keeps all weigh nothing"):
        build_parts(resolve(config, datetime.now()))


def test_episodes_too_short_to_be_judged_are_named(settings, tmp_path):
    data = record_dataset(tmp_path / "short", lengths=(14, 4, 12))
    dataset = DatasetConfig(repo_id=str(data), num_chunks=2, cache_dir=str(tmp_path / "cache"))
    parts = build_parts(resolve(screened(settings, dataset=dataset, batch_size=2), datetime.now()))
    assert screening_of(parts).episode_ids.tolist() == [0, 2]
    line = describe_screening(screening_of(parts), parts.everything)
    assert line.endswith("; too short or too few to be judged, and kept: 1 (1)")


def test_a_source_is_never_left_out_whole(settings, state_data, tmp_path, monkeypatch):
    """Its share of every batch would be samples that weigh nothing."""

    def found(transitions, config, report):
        real = screen(transitions, config, report)
        z_scores = torch.tensor([0.0, 0, 0, 0, -3, -1, -2, -4])
        return dataclasses.replace(real, weights=(real.episode_ids < 4).float(), z_scores=z_scores)

    monkeypatch.setattr("ptr_robot.train.screening.screen", found)
    twin = shutil.copytree(state_data, tmp_path / "twin")
    sources = [SourceConfig(repo_id=str(state_data), weight=1), SourceConfig(repo_id=str(twin), weight=3)]
    dataset = DatasetConfig(sources=sources, num_chunks=2, cache_dir=str(tmp_path / "cache"))
    parts = build_parts(resolve(screened(settings, dataset=dataset), datetime.now()))
    assert screening_of(parts).weights.tolist() == [1, 1, 1, 1, 0, 0.25, 0, 0]
    for _ in range(3):
        for batch in parts.loader:
            assert (screening_of(parts).weights[batch.episode_id] > 0).all()


def by_quality(settings, **changes):
    return dataclasses.replace(settings(method="screened"), screening=ScreeningConfig(), **changes)


@pytest.fixture(scope="module")
def faulty_data(tmp_path_factory):
    """Two tasks; episode 5 never moves."""
    root = record_dataset(tmp_path_factory.mktemp("faulty") / "arm", lengths=(24, 30, 18, 26, 22, 25, 28, 21, 27, 23))
    (path,) = root.glob("data/*/*.parquet")
    table = parquet.read_table(path)
    is_still = table["episode_index"].to_numpy() == 5
    for name in ("observation.state", "action"):
        values = np.stack(table[name].to_numpy()).copy()
        values[is_still] = values[is_still][0] if name == "observation.state" else 0.0
        column = table.schema.get_field_index(name)
        table = table.set_column(
            column, table.schema.field(column), pa.array(values.tolist(), table.schema.types[column])
        )
    parquet.write_table(table, path)
    return root


def test_a_run_is_scored_as_ptr_score_scores(settings, faulty_data, tmp_path):
    dataset = DatasetConfig(repo_id=str(faulty_data), num_chunks=2, cache_dir=str(tmp_path / "cache"))
    found = screening_of(build_parts(resolve(by_quality(settings, dataset=dataset), datetime.now())))
    scores = score_dataset(open_index(faulty_data), ScoreSettings(vision="none", chunk_length=4))
    rows = [scores.rows[number] for number in found.episode_ids.tolist()]
    expected = [row.weight if row.corrected_instruction is None else row.weight_if_corrected for row in rows]
    assert len(rows) == len(scores.rows)
    assert found.weights.tolist() == pytest.approx(expected)
    assert found.weights[5] == 0.0
    assert found.is_corrected.tolist() == [row.corrected_instruction is not None for row in rows]
    order = [row.score for row in sorted(rows, key=lambda row: float(found.z_scores[row.episode_index]))]
    assert order == sorted(order)  # evidence and the share of good episodes with as much of it rank alike


def test_each_source_is_scored_by_itself(settings, faulty_data, state_data, tmp_path):
    """Another robot's episodes beside them change nothing."""
    alone, beside = (
        DatasetConfig(
            sources=[SourceConfig(repo_id=str(folder)) for folder in folders],
            num_chunks=2,
            cache_dir=str(tmp_path / "cache"),
        )
        for folders in ([faulty_data], [state_data, faulty_data])
    )
    one, both = (
        screening_of(build_parts(resolve(by_quality(settings, dataset=dataset), datetime.now())))
        for dataset in (alone, beside)
    )
    assert both.episode_ids.tolist() == list(range(len(LENGTHS) + len(one.episode_ids)))
    for name in ("weights", "z_scores", "scores", "num_chunks"):
        assert torch.equal(getattr(both, name)[len(LENGTHS) :], getattr(one, name)), name


def test_too_few_episodes_to_compare_are_kept_and_said(settings, tmp_path):
    data = record_dataset(tmp_path / "few", lengths=(14, 12, 13))
    dataset = DatasetConfig(repo_id=str(data), num_chunks=2, cache_dir=str(tmp_path / "cache"))
    parts = build_parts(resolve(by_quality(settings, dataset=dataset, batch_size=2), datetime.now()))
    assert parts.preparation.episode_weights.tolist() == [1.0, 1.0, 1.0]
    assert parts.preparation.summary == (
        "screened 0 episodes: 0 are kept in full, 0 weigh less, 0 are out, 0 given another instruction; too short or "
        "too few to be judged, and kept: 3 (0, 1, 2)"
    )


def test_what_was_decided_is_on_disk_before_the_first_step(settings, monkeypatch):
    seen = {}

    def stopped(self, stop, records, progress):
        file = self.plan.output_dir / EPISODE_SCORES_FILE
        seen["rows"] = read_parquet(file).to_pylist()
        raise KeyboardInterrupt

    monkeypatch.setattr("ptr_robot.train.loop.Trainer._steps", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(by_quality(settings))
    assert [row["episode_index"] for row in seen["rows"]] == list(range(len(LENGTHS)))
    assert all(row["mean_score"] is not None and row["mean_weight"] is not None for row in seen["rows"])


def test_pictures_are_looked_at_by_the_policys_tower(settings, tmp_path, monkeypatch):
    """What the tower sees reaches the recordings that are scored, the views' mean of every second frame."""
    seen = {}

    def assessed(recordings, *rest):
        seen["recordings"] = recordings
        return assess(recordings, *rest)

    monkeypatch.setattr("ptr_robot.train.scored_episodes.assess", assessed)
    data = record_dataset(tmp_path / "seen", lengths=LENGTHS, pixels=32)
    dataset = DatasetConfig(repo_id=str(data), num_chunks=2, cache_dir=str(tmp_path / "cache"))
    policy = VLAChoice(preset="tiny", chunk_length=4, image_size=32, device="cpu")
    parts = build_parts(resolve(by_quality(settings, dataset=dataset, policy=policy, batch_size=2), datetime.now()))
    assert screening_of(parts).weights.isfinite().all()
    for episode, length in zip(seen["recordings"].episodes, LENGTHS, strict=True):
        assert episode.look_stride == 2
        assert len(episode.looks) == -(-length // 2)
        assert np.abs(episode.looks).max() > 0


@pytest.mark.parametrize("scorer", ["quality", "heads"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_screening_ends_in_one_line(state_data, tmp_path, processes, scorer, number):
    """To the whole process group, as a terminal and a scheduler send it."""
    words = {
        "dataset.repo_id": state_data,
        "dataset.num_chunks": 2,
        "dataset.cache_dir": tmp_path / "cache",
        "policy.preset": "micro-state",
        "policy.chunk_length": 4,
        "screening.scorer": scorer,
        "num_workers": 2,
        "output_dir": tmp_path / "run",
    }
    arguments = [f"--{name}={value}" for name, value in words.items()]
    printed = tmp_path / "stderr"
    stage = {"quality": "scoring, draw 2 of 3", "heads": "screening: consequences"}[scorer]
    process = processes.Process(target=worker.screen_and_signal_group, args=(arguments, stage, number, printed))
    process.start()
    process.join()
    lines = printed.read_text().splitlines()
    assert process.exitcode == 130, lines
    assert lines[-2:] == [stage, "ptr: interrupted"]
    assert not any("Traceback" in line for line in lines)
    assert not (tmp_path / "run").exists()


def test_an_unknown_scorer_is_refused():
    with pytest.raises(ConfigError, match="is 'qualty'; did you mean 'quality'"):
        ScreeningConfig(scorer="qualty")
