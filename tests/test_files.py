"""Names from elsewhere stay inside their folder, and files appear whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.errors import DataError
from ptr_robot.files import (
    atomic_file,
    open_own,
    path_inside,
    plain_name,
    process_lock,
    refuse_foreign_files,
    workspace_beside,
)

OUTSIDE = ["", ".", "/", "/etc/passwd", "//etc/passwd", "..", "../a", "a/../../b", "a/..", "a\0b", "n" * 256]


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_that_lead_out_are_refused(tmp_path, name):
    with pytest.raises(DataError):
        path_inside(tmp_path, name)


@given(st.text(max_size=40) | st.from_regex(r"(\.\./|/|[a-z.]){0,12}", fullmatch=True))
def test_whatever_the_name_the_path_is_below_the_root(name):
    root = Path("/nowhere/root")
    try:
        path = path_inside(root, name)
    except DataError:
        return
    normal = Path(os.path.normpath(path))
    assert normal.is_relative_to(root)
    assert normal != root


@given(st.text(max_size=300))
def test_a_plain_name_is_one_visible_component(text):
    name = plain_name(text)
    assert path_inside(Path("/root"), name).parent == Path("/root")
    assert not name.startswith(".")
    assert len(os.fsencode(name)) <= 255 or name == text


def test_plain_names_differ_where_texts_do():
    texts = ["a/b", "a_b", "a\\b", "../a_b", "", "é"]
    assert len({plain_name(text) for text in texts}) == len(texts)
    assert plain_name("observation.images.top") == "observation.images.top"


def test_links_inside_are_followed_and_links_outside_are_not(tmp_path):
    root = tmp_path / "data"
    (root / "videos").mkdir(parents=True)
    (root / "videos/a.mp4").write_bytes(b"a")
    (root / "again").symlink_to("videos")
    refuse_foreign_files(root)
    (root / "videos/b.mp4").symlink_to("/etc/hostname")
    with pytest.raises(DataError, match=r"b\.mp4: a link that leads out"):
        refuse_foreign_files(root)


def test_a_loop_of_links_is_one_line(tmp_path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(DataError, match="link"):
        refuse_foreign_files(tmp_path)


def test_the_hubs_own_cache_keeps_its_files_elsewhere(tmp_path):
    commit = tmp_path / "snapshots/0123"
    (tmp_path / "blobs").mkdir()
    commit.mkdir(parents=True)
    (tmp_path / "blobs/ab").write_text("{}")
    (commit / "info.json").symlink_to("../../blobs/ab")
    refuse_foreign_files(commit)
    (commit / "pretrained_model").mkdir()
    (commit / "pretrained_model/config.json").symlink_to("../../../blobs/ab")
    refuse_foreign_files(commit / "pretrained_model")
    (commit / "other").symlink_to("../../refs")
    with pytest.raises(DataError, match="leads out"):
        refuse_foreign_files(commit)


def test_a_lock_changes_neither_a_file_nor_what_a_link_points_at(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "run.lock").symlink_to(precious)
    with pytest.raises(DataError, match="cannot be written"), process_lock(tmp_path / "run"):
        pass
    assert precious.read_text() == "kept"


def test_a_link_in_the_place_of_a_partial_file_is_not_written_through(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "file.partial").symlink_to(precious)
    with atomic_file(tmp_path / "file") as file:
        file.write(b"new")
    assert precious.read_text() == "kept"
    assert (tmp_path / "file").read_text() == "new"


def test_workspaces_of_the_dead_are_removed_and_those_of_the_living_kept(tmp_path):
    (tmp_path / ".out.partial-dead").mkdir()
    (tmp_path / ".out.partial-dead/file").write_text("left")
    with workspace_beside(tmp_path / "out") as mine:
        assert [path.name for path in tmp_path.iterdir()] == [mine.name]
        with workspace_beside(tmp_path / "out") as second:
            assert mine.is_dir()
            assert second != mine
    assert not list(tmp_path.iterdir())


def test_pipes_and_devices_are_refused_before_anybody_waits_for_them(tmp_path):
    (tmp_path / "meta").mkdir()
    os.mkfifo(tmp_path / "meta" / "stats.json")
    with pytest.raises(DataError, match=r"stats\.json: neither a file nor a folder"):
        refuse_foreign_files(tmp_path)


def test_links_may_lead_out_of_what_is_only_read_but_not_to_a_pipe(tmp_path):
    root = tmp_path / "policy"
    root.mkdir()
    (tmp_path / "weights").write_bytes(b"")
    (root / "model.safetensors").symlink_to("../weights")
    (root / "loop").symlink_to("loop")
    refuse_foreign_files(root, may_link_out=True)
    os.mkfifo(tmp_path / "pipe")
    (root / "tokenizer.json").symlink_to("../pipe")
    with pytest.raises(DataError, match=r"tokenizer\.json: neither a file nor a folder"):
        refuse_foreign_files(root, may_link_out=True)


def test_a_folder_that_is_left_alone_is_not_looked_into_but_is_no_way_out_itself(tmp_path):
    root = tmp_path / "run"
    (root / "wandb").mkdir(parents=True)
    (root / "wandb/debug.log").symlink_to("/etc/hostname")
    refuse_foreign_files(root, left_alone="wandb")
    (root / "wandb/debug.log").unlink()
    (root / "wandb").rmdir()
    (root / "wandb").symlink_to("/etc")
    with pytest.raises(DataError, match="wandb: a link that leads out"):
        refuse_foreign_files(root, left_alone="wandb")


@pytest.mark.parametrize("mode", ["a", "w"])
def test_a_link_in_the_place_of_an_own_file_is_not_written_through(tmp_path, mode):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "records.jsonl").symlink_to("precious")
    with pytest.raises(DataError, match=r"records\.jsonl: a link or a pipe"):
        open_own(tmp_path / "records.jsonl", mode)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_pipe_in_the_place_of_an_own_file_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "records.jsonl")
    with pytest.raises(DataError, match="a link or a pipe"):
        open_own(tmp_path / "records.jsonl", "a")


def test_an_own_file_is_made_and_gone_on_with(tmp_path):
    for line in ("one", "two"):
        with open_own(tmp_path / "records.jsonl", "a") as file:
            file.write(f"{line}\n")
    assert (tmp_path / "records.jsonl").read_text() == "one\ntwo\n"
