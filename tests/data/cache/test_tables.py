"""A cache of tables that was damaged is made again, and holds what it held."""

from __future__ import annotations

import numpy as np
import pytest

from ptr_robot.data.cache.tables import SUMMARY_FILE, open_tables
from ptr_robot.data.lerobot.index import open_index

KEYS = ("observation.state", "action")


def truncate(file):
    file.write_bytes(file.read_bytes()[:-7])


def scramble(file):
    """As many bytes as before, of which some are others."""
    content = bytearray(file.read_bytes())
    content[-40:] = bytes(range(40))
    file.write_bytes(content)


def overwrite(file):
    file.write_bytes(b"\x93NUMPY what?")


@pytest.mark.parametrize("damage", [truncate, scramble, overwrite, lambda file: file.unlink()])
@pytest.mark.parametrize("name", ["states.npy", "actions.npy", "tasks.npy", SUMMARY_FILE])
def test_a_damaged_cache_is_made_again(v21, tmp_path, name, damage):
    index = open_index(v21)
    tables = open_tables(index, *KEYS, tmp_path)
    whole = {file.name: file.read_bytes() for file in tables.folder.iterdir()}
    states = np.array(tables.states)
    damage(tables.folder / name)
    again = open_tables(index, *KEYS, tmp_path)
    assert {file.name: file.read_bytes() for file in again.folder.iterdir()} == whole
    np.testing.assert_array_equal(again.states, states)
    assert again.statistics("actions").count == index.num_frames


def test_a_whole_cache_is_not_made_again(v21, tmp_path):
    index = open_index(v21)
    file = open_tables(index, *KEYS, tmp_path).folder / "states.npy"
    before = file.stat().st_mtime_ns, file.stat().st_ino
    open_tables(index, *KEYS, tmp_path)
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before
