from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest

from ptr_robot.audit.page.contents import encode_trace, most_moving, thin, weak_stretches
from ptr_robot.audit.page.html import island
from ptr_robot.audit.page.pictures import chunk_starts
from ptr_robot.audit.report import write_report
from ptr_robot.errors import DataError
from tests.audit.conftest import NASTY, make_scores


@pytest.fixture(scope="session")
def page_text(index, scores, tmp_path_factory) -> str:
    return write_report(index, scores, tmp_path_factory.mktemp("page")).path.read_text()


def read_island(text: str, name: str) -> dict:
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.S)[1])


def test_the_page_holds_every_episode_and_its_details(page_text, index, scores):
    page = read_island(page_text, "page")
    assert [card["episode_index"] for card in page["episodes"]] == [e.episode_index for e in index.episodes]
    assert page["counts"] == {"keep": 3, "flag": 1, "drop": 1, "mislabelled": 1}
    for episode in index.episodes:
        detail = read_island(page_text, f"episode-{episode.episode_index}")
        assert detail["length"] == episode.length
        assert detail["sprite"].startswith("data:image/webp;base64,")
        assert detail["stretches"] == [{"first": 0, "last": 3, "channel": "outcome"}]


def test_a_suspected_episode_is_compared_with_a_kept_one(page_text):
    found = read_island(page_text, "episode-3")["likeness"]
    assert found[0]["other_episode"] in (0, 1, 4)
    assert [len(one["pictures"]) for one in found] == [4] * len(found)
    assert found[0]["frame"] == 0  # its evidence is weak in the first four frames
    assert read_island(page_text, "episode-0")["likeness"] == []


def test_a_table_file_is_read_once_for_all_its_episodes(index, scores, tmp_path, monkeypatch):
    from ptr_robot.audit.page import build

    read = []
    whole = build.read_parquet
    monkeypatch.setattr(build, "read_parquet", lambda path, keys: read.append(path) or whole(path, keys))
    write_report(index, scores, tmp_path)
    assert len(index.episodes) > 1
    assert read == [index.episodes[0].table]


def test_the_page_knows_who_recorded_what(page_text):
    page = read_island(page_text, "page")
    assert page["labels"] == ["operator"]
    assert [card["labels"] for card in page["episodes"]] == [["Ada"], ["Grace"], ["Ada"], ["Grace"], ["Ada"]]


def test_texts_of_the_dataset_cannot_end_their_island(page_text):
    assert NASTY not in page_text
    assert "<img src=x" not in page_text
    text = island("name", {"task": NASTY + "<!--"})
    assert text.count("<") == 2  # the block's own tags
    assert json.loads(re.search(r">(.*)<", text)[1]) == {"task": NASTY + "<!--"}


def test_the_page_asks_nothing_of_the_network(page_text):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page_text)[1]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http:" not in policy
    outside = re.findall(r"https?://[^\s\"'<)]+", page_text)
    assert set(outside) <= {"http://www.w3.org/2000/svg"}


def test_scores_of_another_dataset_are_refused(index, tmp_path):
    import dataclasses

    scores = make_scores(index)
    with pytest.raises(DataError, match="another dataset"):
        write_report(index, dataclasses.replace(scores, dataset={"total_frames": 1}), tmp_path)
    fewer = {number: row for number, row in scores.rows.items() if number != 2}
    with pytest.raises(DataError, match="another dataset"):
        write_report(index, dataclasses.replace(scores, rows=fewer), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_thinned_trace_keeps_its_mean():
    values = np.random.default_rng(0).normal(size=1600)
    assert thin(values).shape == (160,)
    np.testing.assert_allclose(thin(values), values.reshape(160, 10).mean(axis=1), atol=1e-6)
    np.testing.assert_array_equal(thin(values[:100]), values[:100].astype(np.float32))


def test_an_encoded_trace_is_drawn_where_it_was():
    values = np.array([3.0, np.nan, -1.0, 0.5], dtype=np.float32)
    trace = encode_trace(values)
    codes = np.frombuffer(base64.b64decode(trace["data"]), dtype=np.uint8)
    drawn = np.where(codes == 255, np.nan, trace["low"] + codes * (trace["high"] - trace["low"]) / 254)
    np.testing.assert_allclose(drawn, values, atol=4 / 254)
    assert encode_trace(np.full(3, np.nan, dtype=np.float32))["data"] == base64.b64encode(b"\xff" * 3).decode()


def test_a_thinned_trace_leaves_gaps_out_of_its_means():
    values = np.ones(320)
    values[::2] = np.nan
    np.testing.assert_array_equal(thin(values), np.ones(160))


def test_most_moving_dimensions_in_their_own_order():
    values = np.sin(np.arange(50))[:, None] * np.arange(12)
    assert most_moving(values) == list(range(4, 12))


def test_weak_stretches_are_the_runs_below_the_threshold():
    evidence = np.array([1, 0, 0, 1, np.nan, 0, 0, 0, 1], dtype=np.float32)
    found = weak_stretches({"a": evidence}, 0.05)
    assert [(stretch.first, stretch.last) for stretch in found] == [(5, 7), (1, 2)]
    both = weak_stretches({"a": evidence, "b": evidence}, 0.05, {"a": 0.4, "b": 0.01})
    assert [stretch.channel for stretch in both] == ["b", "b", "a", "a"]  # what cost the episode most comes first


@pytest.mark.parametrize(("length", "chunk", "at_most"), [(1, 16, 8), (17, 16, 8), (400, 16, 24), (400, 4, 24)])
def test_chunk_starts_begin_and_end_with_the_episode(length, chunk, at_most):
    starts = chunk_starts(length, chunk, at_most)
    assert starts[0] == 0
    assert starts[-1] == length - 1
    assert len(starts) <= at_most
    assert all(start % chunk == 0 for start in starts[:-1])
    assert starts == sorted(set(starts))
