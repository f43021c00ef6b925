"""JSON and YAML from elsewhere: read, or refused in one line that names the file."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.errors import ConfigError, DataError, PTRError
from ptr_robot.text_files import (
    is_episode_number,
    parse_json,
    printable,
    read_json,
    read_json_object,
    read_json_objects,
    read_yaml,
)

LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefghijklmnopqrst", "bcdefghijklmnopqrstu", strict=True)
)


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"1" * 5000])
def test_what_is_not_json_is_one_line_that_names_the_file(tmp_path, content):
    file = tmp_path / "info.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"info\.json: .*mend it") as caught:
        read_json(file, "mend it")
    assert "\n" not in str(caught.value)


def test_an_object_is_asked_for_and_a_list_is_refused(tmp_path):
    file = tmp_path / "info.json"
    file.write_text("[1]")
    with pytest.raises(DataError, match="holds a list"):
        read_json_object(file, "mend it")


def test_lines_are_counted_in_complaints(tmp_path):
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"task": "a\\u2028b"}\n\n3\n')
    with pytest.raises(DataError, match="line 3: holds a int"):
        list(read_json_objects(file, "mend it"))


def test_folders_and_missing_files_are_named(tmp_path):
    for path in (tmp_path, tmp_path / "none", tmp_path / ("n" * 300)):
        with pytest.raises(DataError, match="mend it"):
            read_json(path, "mend it")


@pytest.mark.parametrize("content", ["[" * 50_000, "a: [", "a: !!python/object:os.system x", "\0", "2001-99-99"])
def test_what_is_not_yaml_is_one_line_that_names_the_file(tmp_path, content):
    file = tmp_path / "robot.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"robot\.yaml.*: not valid YAML") as caught:
        read_yaml(file)
    assert "\n" not in str(caught.value)


def test_aliases_that_multiply_are_refused_at_once(tmp_path):
    file = tmp_path / "robot.yaml"
    for content in (LAUGHS, "a: &a [*a]"):
        file.write_text(content)
        started = time.perf_counter()
        with pytest.raises(ConfigError, match="aliases"):
            read_yaml(file)
        assert time.perf_counter() - started < 5


def test_a_few_aliases_are_read(tmp_path):
    file = tmp_path / "robot.yaml"
    file.write_text("state: &joints [1, 2]\naction: *joints\n")
    assert read_yaml(file) == {"state": [1, 2], "action": [1, 2]}
    file.write_text("")
    assert read_yaml(file) is None


@given(st.text(max_size=60))
def test_any_text_is_a_value_or_an_error_of_this_package(text):
    with contextlib.suppress(PTRError):
        parse_json(text, "here", "mend it")


@pytest.mark.parametrize("content", ['{"fps": 10, "fps": 20}', '[{"a": {"b": 1, "b": 1}}]'])
def test_a_field_of_json_that_stands_twice_is_refused(tmp_path, content):
    file = tmp_path / "info.json"
    file.write_text(content)
    with pytest.raises(DataError, match=r"info\.json: .*stands there twice"):
        read_json(file, "mend it")


def test_a_key_of_yaml_that_stands_twice_is_refused_with_its_line(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text("training:\n  steps: 10\n  seed: 1\n  steps: 20\n")
    with pytest.raises(ConfigError, match=r"study\.yaml, line 4: 'steps' stands there twice"):
        read_yaml(file)


def test_equal_keys_of_different_mappings_and_merges_are_no_doubles(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text("a: &a {x: 1}\nb: &b {y: 2}\nc:\n  <<: *a\n  <<: *b\n  x: 3\n")
    assert read_yaml(file) == {"a": {"x": 1}, "b": {"y": 2}, "c": {"x": 3, "y": 2}}


@pytest.mark.parametrize(("name", "expected"), [("7", True), ("0", True), ("07", False), ("+7", False), ("٧", False)])
def test_an_episode_has_one_spelling(name, expected):
    assert is_episode_number(name) is expected


def test_what_is_shown_steers_no_terminal():
    assert printable("a\nb\x1b]0;title\x07\u2028é[red]") == "a\\nb\\x1b]0;title\\x07\\u2028é[red]"


def test_an_error_is_one_line_whatever_a_library_said():
    assert str(DataError("file: broken (\nfor a reason\n)")) == "file: broken ( for a reason )"
