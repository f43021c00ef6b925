"""The loader: workers, ranks, resuming and mixtures give the batches they should."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys

import av
import pandas as pd
import pytest
import torch

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.segments.loader import make_loader
from ptr_robot.errors import ConfigError, DataError
from tests.data.conftest import RECORDED_LENGTHS, WRIST
from tests.data.v21_writer import CAMERA, LENGTHS, TASKS, video_path


@pytest.fixture
def config(v21, tmp_path) -> DataConfig:
    return DataConfig([SourceConfig(str(v21))], chunk_length=5, num_chunks=2, image_size=16, cache_dir=str(tmp_path))


def assert_same(one, other):
    for field in dataclasses.fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right, field.name


def test_workers_and_the_main_process_give_the_same_batches(config):
    plain, workers = make_loader(config, 16), make_loader(config, 16, num_workers=2)
    for _ in range(2):
        for one, other in zip(plain, workers, strict=True):
            assert_same(one, other)


def test_epochs_differ_and_cover_all(config):
    loader = make_loader(config, 16, drop_last=False)
    epochs = [[batch.sample_id[:, 0].tolist() for batch in loader] for _ in range(2)]
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        assert sorted(number for batch in epoch for number in batch) == list(range(sum(LENGTHS)))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_resuming_gives_the_very_next_batch(config, num_workers):
    whole = make_loader(config, 16, seed=3, num_workers=num_workers)
    expected = [batch for _ in range(2) for batch in whole]
    first = make_loader(config, 16, seed=3, num_workers=num_workers)
    steps = iter(first)
    for _ in range(4):
        next(steps)
    state = first.state_dict()
    resumed = make_loader(config, 16, seed=3)
    resumed.load_state_dict(state)
    rest = [batch for _ in range(2) for batch in resumed]
    assert len(rest) == len(expected) - 4
    for one, other in zip(expected[4:], rest, strict=True):
        assert_same(one, other)


def test_a_state_at_the_end_of_an_epoch_starts_the_next(config):
    loader = make_loader(config, 16)
    seen = [batch for batch in loader]  # noqa: C416
    assert loader.state_dict()["epoch"] == 1
    assert loader.state_dict()["batches_done"] == 0
    assert len(seen) == len(loader) == sum(LENGTHS) // 16


def test_resuming_other_data_is_refused(config):
    state = make_loader(config, 16).state_dict()
    with pytest.raises(ConfigError, match="global_batch_size was 16 and is now 8"):
        make_loader(config, 8).load_state_dict(state)
    make_loader(config, 8, world_size=2).load_state_dict(state)
    with pytest.raises(ConfigError, match="seed was 0 and is now 1"):
        make_loader(config, 16, seed=1).load_state_dict(state)


def test_resuming_with_other_segments_or_episodes_is_refused(config, v21, tmp_path):
    state = make_loader(config, 16).state_dict()
    for name, value, line in (
        ("chunk_length", 6, "chunk_length was 5 and is now 6"),
        ("offset_steps", 3, r"offset_steps was \[5, 5\] and is now \[3, 3\]"),
    ):
        with pytest.raises(ConfigError, match=line):
            make_loader(dataclasses.replace(config, **{name: value}), 16).load_state_dict(state)
    swapped = dataclasses.replace(config, sources=[SourceConfig(str(v21), state_key="action")])
    with pytest.raises(ConfigError, match=r"sources was \['4 episodes, 111 frames .* and is now \['4 episodes"):
        make_loader(swapped, 16).load_state_dict(state)
    moved = dataclasses.replace(config, sources=[SourceConfig(shutil.copytree(v21, tmp_path / "elsewhere").as_posix())])
    make_loader(moved, 16).load_state_dict(json.loads(json.dumps(state)))


def cut_in_the_middle(path):
    """A video whose index is sound and whose pictures end early: it passes the checks, and decoding finds out."""
    whole = path.with_name("whole.mp4")
    with av.open(str(path)) as source, av.open(str(whole), "w", options={"movflags": "faststart"}) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    content = whole.read_bytes()
    path.write_bytes(content[: int(0.7 * len(content))])
    whole.unlink()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_broken_video_is_one_line_whatever_the_workers(own_v21, tmp_path, num_workers):
    cut_in_the_middle(video_path(own_v21, 1))
    config = DataConfig([SourceConfig(str(own_v21))], chunk_length=5, image_size=16, cache_dir=str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"^\S+episode_000001.mp4: episode 1: ") as caught:
        list(make_loader(config, 8, num_workers=num_workers))
    assert "\n" not in str(caught.value)


TERMINATED = """
import os, signal, sys
from ptr_robot.data.cache import frames as frame_cache
from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.segments.loader import make_loader
decode = frame_cache.decode_episode
def decode_and_wait(*arguments):
    yield next(decode(*arguments))
    os.kill(os.getppid(), signal.SIGUSR1)
    while True:
        signal.pause()
def leave(*_):
    sys.exit("met an error")
signal.signal(signal.SIGUSR1, leave)
frame_cache.decode_episode = decode_and_wait
config = DataConfig([SourceConfig(sys.argv[1])], chunk_length=5, image_size=16, cache_dir=sys.argv[2])
loader = make_loader(config, 8, num_workers=1)
list(loader)
"""


def test_a_worker_that_is_ended_in_the_middle_leaves_nothing(v21, tmp_path):
    command = [sys.executable, "-c", TERMINATED, str(v21), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.stderr == "met an error\n"
    assert list(tmp_path.rglob("*.lock"))
    assert list(tmp_path.rglob("*.partial")) == []


FULL_DISK = """
import resource, signal, sys
from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.segments.loader import make_loader
from ptr_robot.errors import DataError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
config = DataConfig([SourceConfig(sys.argv[1])], chunk_length=5, image_size=64, cache_dir=sys.argv[2])
loader = make_loader(config, 8, num_workers=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    list(loader)
except DataError as error:
    print(error)
"""


def test_a_full_disk_in_a_worker_is_one_line(v21, tmp_path):
    command = [sys.executable, "-c", FULL_DISK, str(v21), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.count("\n") == 1
    assert run.stdout.startswith(str(tmp_path))
    assert "cannot be written" in run.stdout


def test_two_ranks_see_what_one_process_sees(config):
    one = make_loader(config, 16)
    ranks = [make_loader(config, 8, rank=rank, world_size=2) for rank in range(2)]
    for whole, left, right in zip(one, *ranks, strict=True):
        assert torch.equal(whole.sample_id, torch.cat([left.sample_id, right.sample_id]))
        assert torch.equal(whole.frames, torch.cat([left.frames, right.frames]))


@pytest.fixture
def mixture(v21, v30, recorded, tmp_path) -> DataConfig:
    sources = [
        SourceConfig(str(v21), weight=1.0, image_keys=["none", CAMERA]),
        SourceConfig(str(recorded), weight=2.0, image_keys=[WRIST], normaliser="min_max"),
        SourceConfig(str(v30), weight=1.0, image_keys=[CAMERA, "none"], episodes=[1]),
    ]
    return DataConfig(sources, chunk_length=5, num_chunks=2, image_size=16, cache_dir=str(tmp_path))


def test_a_mixture_keeps_shares_identities_masks_and_views_apart(mixture):
    loader = make_loader(mixture, 8, drop_last=False)
    batches = list(loader)
    sources = torch.cat([batch.source_id for batch in batches])
    total = sum(LENGTHS) + sum(RECORDED_LENGTHS) + LENGTHS[1]
    assert len(sources) == total
    assert torch.bincount(sources).tolist() == loader.plan.order.shares()
    owners: dict[int, int] = {}
    for batch in batches:
        for row in range(batch.batch_size):
            source = int(batch.source_id[row])
            for number in batch.sample_id[row][~batch.chunk_is_pad[row]].tolist():
                assert owners.setdefault(number, source) == source
            assert batch.view_mask[row].tolist() == [[False, True], [True, False], [True, False]][source]
            assert not batch.frames[row][:, ~batch.view_mask[row]].any()
            active = {0: 4, 1: 13, 2: 4}[source]
            assert batch.action_mask[row].sum() == active
            assert not batch.actions[row][..., ~batch.action_mask[row]].any()
    assert {source for number, source in owners.items() if number < sum(LENGTHS)} == {0}


def test_a_batch_is_its_segments_side_by_side(mixture):
    """However sources, episodes and starts are mixed in it."""
    dataset = make_loader(mixture, 8).dataset
    numbers = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))[:24].tolist()
    batch, single = dataset[numbers], [dataset[[number]] for number in numbers]
    assert len(set(batch.source_id.tolist())) == len(mixture.sources)
    for field in dataclasses.fields(batch):
        together = getattr(batch, field.name)
        if isinstance(together, torch.Tensor):
            assert torch.equal(together, torch.cat([getattr(one, field.name) for one in single])), field.name
        else:
            assert together == tuple(one.instructions[0] for one in single)
    for number, one in zip(numbers, single, strict=True):
        source, episode, start = dataset.locate(number)
        assert (source, start + episode.first_index) == (
            one.source_id,
            one.sample_id[0, 0] - first_sample(dataset, source),
        )
    for outside in (-1, len(dataset)):
        with pytest.raises(IndexError, match=f"segment {outside} of {len(dataset)}"):
            dataset[[0, outside]]


def first_sample(dataset, source: int) -> int:
    return sum(one.index.total_frames for one in dataset.sources[:source])


def test_equal_instructions_share_a_task_id_and_episodes_do_not_meet(mixture):
    loader = make_loader(mixture, 8, drop_last=False)
    tasks, episodes = {}, {}
    for batch in loader:
        for row, text in enumerate(batch.instructions):
            assert tasks.setdefault(text, int(batch.task_id[row])) == batch.task_id[row]
            episodes.setdefault(int(batch.episode_id[row]), set()).add(int(batch.source_id[row]))
    assert set(tasks) == {*TASKS, "turn the knob"}
    assert sorted(tasks.values()) == [0, 1, 2]
    assert all(len(owners) == 1 for owners in episodes.values())


def test_each_source_is_normalised_by_its_own_statistics(mixture):
    loader = make_loader(mixture, 8, drop_last=False)
    source = loader.dataset.sources[1]
    actions = torch.cat([b.actions[b.source_id == 1][~b.action_is_pad[b.source_id == 1]] for b in loader])
    active = actions[:, source.action_map.slots.mask]
    assert torch.allclose(active.amax(0), torch.ones(13))
    assert torch.allclose(active.amin(0), -torch.ones(13))
    restored = source.action_map.from_unified(actions.numpy())
    assert restored.min() == pytest.approx(source.tables.actions.min(), rel=1e-5)


def test_settings_come_from_yaml_and_flags(tmp_path):
    """Through draccus, as LeRobot's own settings do."""
    import draccus

    path = tmp_path / "data.yaml"
    path.write_text(
        "chunk_length: 8\nsources:\n  - {repo_id: a/b, weight: 2, episodes: [0, 3]}\n  - {repo_id: c/d, weight: 1}\n"
    )
    config = draccus.parse(DataConfig, config_path=str(path), args=["--num_chunks=2"])
    assert config.sources[0] == SourceConfig("a/b", weight=2.0, episodes=[0, 3])
    assert (config.chunk_length, config.num_chunks, config.offset_range) == (8, 2, (8, 8))


def test_no_sources():
    with pytest.raises(ConfigError, match="the data has no sources"):
        make_loader(DataConfig(), 4)


def test_resuming_other_actions_is_refused(v21, tmp_path):
    state = make_loader(DataConfig(sources=[SourceConfig(repo_id=str(v21))], cache_dir=str(tmp_path)), 4).state_dict()
    other = shutil.copytree(v21, tmp_path / "other")
    for file in sorted((other / "data").rglob("*.parquet")):
        frame = pd.read_parquet(file)
        frame["action"] = [2 * action for action in frame["action"]]
        frame.to_parquet(file)
    changed = make_loader(DataConfig(sources=[SourceConfig(repo_id=str(other))], cache_dir=str(tmp_path)), 4)
    with pytest.raises(ConfigError, match="cannot resume the data: sources"):
        changed.load_state_dict(state)
