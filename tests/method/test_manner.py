"""Pace and roughness, recomputed by plain loops."""

from __future__ import annotations

import math
import statistics

import pytest
import torch

from ptr_robot.method.manner import manners


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_pace_and_roughness_by_loops():
    changes, chunks = random(9, 5), random(9, 6, 2, seed=1)
    paces, jumps = [], []
    for change, chunk in zip(changes.tolist(), chunks.tolist(), strict=True):
        paces.append(math.sqrt(sum(value**2 for value in change)))
        steps = range(1, len(chunk) - 1)
        second = [chunk[s + 1][d] - 2 * chunk[s][d] + chunk[s - 1][d] for s in steps for d in range(2)]
        jumps.append(math.sqrt(sum(value**2 for value in second)))
    for got, pace, jump in zip(manners(changes, chunks).tolist(), paces, jumps, strict=True):
        assert got[0] == pytest.approx(math.log(pace / statistics.median(paces) + 0.05), abs=1e-5)
        assert got[1] == pytest.approx(math.log(jump / statistics.median(jumps) + 0.05), abs=1e-5)


def test_units_do_not_matter():
    changes, chunks = random(40, 5), random(40, 6, 2, seed=1)
    torch.testing.assert_close(manners(7 * changes, 0.01 * chunks), manners(changes, chunks), atol=1e-5, rtol=0)


def test_rest_is_far_below_usual_and_finite():
    changes, chunks = random(9, 5), random(9, 6, 2, seed=1)
    changes[0], chunks[0] = 0.0, 1.0
    got = manners(changes, chunks)
    assert got[0].tolist() == pytest.approx([math.log(0.05)] * 2)
    assert (got[1:] > got[0]).all()


@pytest.mark.parametrize("num_resting", [6, 9])
def test_where_most_or_all_rest(num_resting):
    changes, chunks = random(9, 5), random(9, 6, 2, seed=1)
    changes[:num_resting] = 0.0
    assert manners(changes, chunks).isfinite().all()


def test_chunks_too_short_to_be_rough_are_all_alike():
    assert manners(random(9, 5), random(9, 2, 3))[:, 1].std() == 0
