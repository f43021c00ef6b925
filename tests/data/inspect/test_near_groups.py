"""Near duplicates, against comparing every pair."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ptr_robot.data.inspect.near_groups import near_groups


@pytest.mark.parametrize("dimensions", [1, 2, 3, 40, 400])
@pytest.mark.parametrize("seed", range(3))
def test_the_groups_are_those_of_every_pair(dimensions, seed):
    """Each point joins the first earlier point near it that began a group."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(120, dimensions)) * 3 + 1e4
    copies = generator.integers(0, 120, 40)
    points = np.vstack([points, points[copies] + 1e-3 * generator.normal(size=(40, dimensions))])
    distance = 0.05 * np.sqrt(dimensions)
    groups, firsts = {}, []
    for number in range(len(points)):
        near = [first for first in firsts if np.linalg.norm(points[first] - points[number]) < distance]
        if near:
            groups.setdefault(near[0], []).append(number)
        else:
            firsts.append(number)
    assert groups
    assert near_groups(points, distance) == groups


@pytest.mark.parametrize("make", [lambda n: np.random.default_rng(0).normal(size=(n, 64)), lambda n: np.zeros((n, 64))])
def test_the_time_grows_with_the_number_of_points(make):
    """Ten times as many take far less than a hundred times as long, copies of one point too."""
    times = []
    for count in (1000, 10_000):
        points = make(count)
        started = time.process_time()
        near_groups(points, 0.02 * 8)
        times.append(time.process_time() - started)
    assert times[1] < 40 * max(times[0], 0.02)
