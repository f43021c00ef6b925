"""Keyed noise: its distributions, and what it depends on."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from ptr_robot.method.hashing import hash_integers
from ptr_robot.policy.noise import Noise, Purpose, places
from ptr_robot.policy.vla.heads.base import slot_noise

MANY = 200


@pytest.fixture(scope="module")
def normal() -> np.ndarray:
    return Noise.keyed(0, torch.arange(MANY)).normal(Purpose.ACTIONS, places(1000)).double().numpy()


@pytest.fixture(scope="module")
def uniform() -> np.ndarray:
    return Noise.keyed(0, torch.arange(MANY)).uniform(Purpose.IMAGES, places(1000)).double().numpy()


def test_normals_are_normal(normal) -> None:
    count = normal.size
    assert normal.dtype == np.float64
    assert abs(normal.mean()) < 4 / math.sqrt(count)
    assert abs(normal.var() - 1) < 4 * math.sqrt(2 / count)
    assert abs(stats.kurtosis(normal.ravel())) < 4 * math.sqrt(24 / count)
    assert stats.kstest(normal.ravel(), "norm").pvalue > 0.01
    beyond_four = (np.abs(normal) > 4).sum()  # the tail: 6.3e-5 of them
    assert stats.binomtest(int(beyond_four), count, 2 * stats.norm.sf(4)).pvalue > 0.01


def test_the_tail_goes_as_far_as_32_bits_reach(monkeypatch) -> None:
    monkeypatch.setattr(Noise, "_bits", lambda _, __, place: torch.zeros_like(place).unsqueeze(0))
    drawn = Noise.keyed(0, torch.arange(1)).normal(Purpose.ACTIONS, places(1))
    assert drawn.item() == pytest.approx(math.sqrt(2 * 32 * math.log(2)), rel=1e-5)


def test_uniforms_are_uniform(uniform) -> None:
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert stats.kstest(uniform.ravel(), "uniform").pvalue > 0.01
    assert stats.chisquare(np.bincount((uniform.ravel() * 64).astype(int))).pvalue > 0.01


@pytest.mark.parametrize("draws", ["normal", "uniform"])
def test_places_and_keys_are_independent(draws, request) -> None:
    """Correlations among keys, and among places, are as large as chance makes them; those of sizes too."""
    table = request.getfixturevalue(draws)
    sizes = stats.rankdata(np.abs(table - np.median(table))).reshape(table.shape)
    for values in (table, sizes):
        for rows in (values, values[:, :MANY].T):
            correlations = np.corrcoef(rows)[np.triu_indices(len(rows), 1)] * math.sqrt(rows.shape[1])
            assert stats.kstest(correlations, "norm").pvalue > 0.001
            assert np.abs(correlations).max() < 6


def test_neighbouring_keys_and_places_do_not_follow_each_other() -> None:
    keys = Noise(torch.arange(2000))  # not even hashed
    drawn = keys.normal(Purpose.ACTIONS, places(50)).double()
    for first, second in ((drawn[:-1], drawn[1:]), (drawn[:, :-1], drawn[:, 1:]), (drawn[1:, :-1], drawn[:-1, 1:])):
        correlation = np.corrcoef(first.ravel(), second.ravel())[0, 1]
        assert abs(correlation) * math.sqrt(first.numel()) < 4


def test_streams_that_meet_do_not_go_on_together() -> None:
    """Two keys whose first words lie a few places apart would otherwise draw the same numbers, shifted."""
    keys = torch.arange(60_000)
    order = hash_integers(keys, Purpose.ACTIONS, 0).mul(31).bitwise_and(0xFFFFFFFF).sort()
    gaps = order.values.diff()
    place = int(gaps.argmin())
    gap = int(gaps[place])
    assert gap < 100
    later, earlier = Noise(keys[order.indices[place : place + 1]]), Noise(keys[order.indices[place + 1 : place + 2]])
    first = later.uniform(Purpose.ACTIONS, places(1000) + gap)
    second = earlier.uniform(Purpose.ACTIONS, places(1000))
    assert abs(np.corrcoef(first.numpy(), second.numpy())[0, 1]) < 0.15


def test_purposes_differ() -> None:
    noise = Noise.keyed(1, torch.arange(50))
    tables = [noise.normal(purpose, places(200)).flatten().numpy() for purpose in Purpose]
    assert np.abs(np.corrcoef(tables) - np.eye(len(tables))).max() < 0.04


def test_a_draw_depends_on_its_key_and_place_alone() -> None:
    noise = Noise.keyed(5, torch.arange(6))
    whole = noise.normal(Purpose.ACTIONS, places(4, 10))
    rows, columns = [4, 1], torch.tensor([7, 2])
    part = Noise(noise.keys[rows]).normal(Purpose.ACTIONS, places(4, 10)[1:3, columns])
    assert torch.equal(part, whole[rows][:, 1:3][..., columns])
    assert noise.normal(Purpose.TIME, places()).shape == (6,)


def test_slots_have_their_noise_whichever_robots_are_in_the_batch() -> None:
    noise, mask = Noise.keyed(5, torch.arange(3)), torch.zeros(3, 200, dtype=torch.bool)
    mask[0, [0, 18]], mask[1, [0, 57, 199]] = True, True  # the third robot has no slot at all
    drawn = slot_noise(noise, 4, mask)
    everywhere = noise.normal(Purpose.ACTIONS, places(4, 200))
    assert torch.equal(drawn, torch.where(mask.unsqueeze(1), everywhere, 0.0))
    assert not slot_noise(noise, 4, torch.zeros_like(mask)).any()


@pytest.mark.parametrize("part", range(3))
def test_keys_depend_on_every_part(part) -> None:
    parts = [torch.tensor([seed]) for seed in (3, 1000, 2**40)]
    first = Noise.keyed(*parts).keys
    parts[part] = parts[part] + 1
    assert Noise.keyed(*parts).keys != first
