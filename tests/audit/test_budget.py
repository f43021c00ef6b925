from __future__ import annotations

import pytest

from ptr_robot.audit.page.budget import FRAME_BYTES, MAX_CHUNKS, MAX_FRAMES, PICTURES_A_CHUNK, share_pictures


def verdicts(count: int, every: int) -> dict[int, str]:
    return {number: "drop" if number % every == 0 else "keep" for number in range(count)}


def nearest(found: dict[int, str]) -> dict[int, int]:
    return {number: number + 1 for number, verdict in found.items() if verdict == "drop" and number + 1 in found}


def test_a_small_dataset_has_every_picture():
    found = verdicts(20, 5)
    budget = share_pictures(found, nearest(found), 16.0)
    assert set(budget.frames.values()) == {MAX_FRAMES}
    assert budget.thumbnails == frozenset(found)
    assert budget.num_chunks == MAX_CHUNKS


@pytest.mark.parametrize("count", [500, 2000, 5000, 10_000])
@pytest.mark.parametrize("every", [1, 10, 100])
def test_pictures_stay_within_the_budget_and_go_first_to_what_is_looked_at(count, every):
    found = verdicts(count, every)
    budget = share_pictures(found, nearest(found), 16.0)
    suspects = [number for number, verdict in found.items() if verdict == "drop"]
    pictures = sum(budget.frames.values()) + PICTURES_A_CHUNK * budget.num_chunks * len(suspects)
    assert (pictures + 0.6 * len(budget.thumbnails)) * FRAME_BYTES <= 16e6
    kept = max((budget.frames[number] for number in found if number not in suspects), default=0)
    assert all(budget.frames[number] >= min(kept, 2) for number in suspects)
    if every > 1:
        assert budget.frames[0] == budget.frames[1] >= 2  # a suspect, and the one beside it
        assert budget.thumbnails >= {0, 1}


def test_no_budget_is_no_picture():
    found = verdicts(20, 5)
    budget = share_pictures(found, nearest(found), 0.0)
    assert set(budget.frames.values()) == {0}
    assert not budget.thumbnails
    assert budget.num_chunks == 0
