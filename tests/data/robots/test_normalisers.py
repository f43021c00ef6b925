"""Normalisers: inverse pairs on any data, closed forms, and statistics against plain NumPy over all frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ptr_robot.data.cache.tables import open_tables
from ptr_robot.data.lerobot.feature_statistics import compute_statistics
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.robots.normalisers import KINDS, SMALLEST_RANGE, VectorStatistics, make_normaliser
from ptr_robot.errors import ConfigError
from tests.data.v21_writer import LENGTHS, episode_values, write_table

floats = st.floats(-1e4, 1e4, width=32)
datasets = arrays(np.float32, st.tuples(st.integers(2, 30), st.just(3)), elements=floats)


def statistics_of(values: np.ndarray) -> VectorStatistics:
    values = values.astype("f8")
    q01, q99 = np.quantile(values, [0.01, 0.99], axis=0)
    return VectorStatistics(len(values), values.min(0), values.max(0), values.mean(0), values.std(0), q01, q99)


@given(datasets, st.sampled_from(["q99", "mean_std", "min_max", "identity"]))
def test_round_trip(values, kind):
    statistics = statistics_of(values)
    normaliser = make_normaliser(statistics, [kind] * 3)
    restored = normaliser.denormalise(normaliser.normalise(values))
    magnitude = np.abs(values).max(axis=0)
    assert (np.abs(restored - values) <= np.maximum(2e-6 * magnitude, SMALLEST_RANGE)).all()


@given(datasets)
def test_values_outside_the_data_come_back_too(values):
    """Nothing is clipped: an unseen value is not lost."""
    normaliser = make_normaliser(statistics_of(values), ["q99"] * 3)
    moving = normaliser.scale != 0
    unseen = values + 3 * np.float32(np.ptp(values, axis=0))
    restored = normaliser.denormalise(normaliser.normalise(unseen))
    np.testing.assert_allclose(restored[:, moving], unseen[:, moving], rtol=1e-4, atol=1e-6 * np.abs(unseen).max())


@given(floats, st.sampled_from([kind for kind in KINDS if kind != "identity"]))
def test_a_dimension_that_never_moves_maps_to_zero_and_comes_back(value, kind):
    values = np.full((9, 1), value, dtype=np.float32)
    normaliser = make_normaliser(statistics_of(values), [kind])
    assert (normaliser.normalise(values) == 0).all()
    np.testing.assert_array_equal(normaliser.denormalise(np.array([[0.0], [0.7], [-3.0]])), values[:3])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "identity"])
def test_rounding_is_not_motion(kind):
    """A joint that stands still up to the last bits must not be blown up to the full range."""
    values = np.full((50, 1), 0.7) + np.random.default_rng(0).uniform(-1e-8, 1e-8, (50, 1))
    normaliser = make_normaliser(statistics_of(values), [kind])
    assert (normaliser.normalise(values) == 0).all()
    np.testing.assert_allclose(normaliser.denormalise(np.zeros((1, 1))), 0.7, rtol=1e-6)


def test_closed_forms():
    values = np.linspace(0, 100, 101)[:, None].repeat(4, axis=1)
    normaliser = make_normaliser(statistics_of(values), ["q99", "min_max", "mean_std", "identity"])
    row = normaliser.normalise(np.full((1, 4), 75.0))[0]
    np.testing.assert_allclose(row, [25 / 49, 0.5, 25 / np.std(np.arange(101)), 75.0], rtol=1e-6)


def test_binary_snaps_to_the_two_values():
    values = np.array([[0.0], [1.0], [1.0], [0.0]])
    normaliser = make_normaliser(statistics_of(values), ["binary"])
    assert normaliser.normalise(values).ravel().tolist() == [-1, 1, 1, -1]
    assert normaliser.denormalise(np.array([[-0.2], [0.3]])).ravel().tolist() == [0, 1]


def test_a_dimension_that_hardly_ever_moves_is_not_taken_for_a_constant():
    values = np.zeros((1000, 1))
    values[3] = 5.0
    normaliser = make_normaliser(statistics_of(values), ["q99"])
    assert normaliser.normalise(np.array([[0.0], [5.0]])).ravel().tolist() == [-1, 1]


@pytest.mark.parametrize(("rest", "expected"), [(0.01, 1.0), (2.0, 10 / 2.0)])
def test_rare_motion_is_not_blown_up(rest, expected):
    """A hand that trembles by ``rest`` and once opens to 10: below 5% of the range the extremes set the scale."""
    values = np.tile([[-rest], [rest]], (1000, 1))
    values[[5, 6]] = [[-10.0], [10.0]]
    normaliser = make_normaliser(statistics_of(values), ["q99"])
    assert np.abs(normaliser.normalise(values)).max() == pytest.approx(expected)


def test_unknown_kind():
    with pytest.raises(ConfigError, match="did you mean 'min_max'"):
        make_normaliser(statistics_of(np.eye(2)), ["minmax", "q99"])


@pytest.mark.parametrize("version", ["v21", "v30"])
def test_statistics_are_those_of_all_frames(version, request, tmp_path):
    index = open_index(request.getfixturevalue(version))
    frames = np.concatenate([episode_values(e, n)[1] for e, n in enumerate(LENGTHS)])
    expected = statistics_of(frames)
    ours = open_tables(index, "observation.state", "action", tmp_path).statistics("actions")
    assert ours.count == sum(LENGTHS)
    for field in ("minimum", "maximum", "mean", "std", "q01", "q99"):
        np.testing.assert_allclose(getattr(ours, field), getattr(expected, field), rtol=1e-9, atol=1e-12)


def test_quantiles_of_many_frames_look_at_evenly_spaced_ones(v21, monkeypatch):
    monkeypatch.setattr("ptr_robot.data.lerobot.feature_statistics.QUANTILE_FRAMES", 40)
    frames = np.concatenate([episode_values(e, n)[0] for e, n in enumerate(LENGTHS)])
    ours = compute_statistics(open_index(v21), "observation.state")
    np.testing.assert_allclose(ours.q99, np.quantile(frames[::3].astype("f8"), 0.99, axis=0), rtol=1e-9)


def test_tables_are_made_once_and_again_when_a_file_changes(own_v21, tmp_path, monkeypatch):
    import ptr_robot.data.cache.tables as module

    fills = []
    fill = module._fill
    monkeypatch.setattr(module, "_fill", lambda *a: fills.append(1) or fill(*a))
    for _ in range(2):
        tables = open_tables(open_index(own_v21), "observation.state", "action", tmp_path)
    assert len(fills) == 1
    path = own_v21 / "data/chunk-000/episode_000002.parquet"
    states, actions = episode_values(2, LENGTHS[2])
    write_table(path, 2, states + 1, actions, 63)
    tables = open_tables(open_index(own_v21), "observation.state", "action", tmp_path)
    assert len(fills) == 2
    np.testing.assert_array_equal(tables.states[63:80], states + 1)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "identity"])
def test_noise_around_zero_is_not_motion(kind):
    values = np.random.default_rng(0).normal(0, 1e-12, (50, 1))
    assert (make_normaliser(statistics_of(values), [kind]).normalise(values) == 0).all()
