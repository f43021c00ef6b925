"""Each fault on its own, driven by a known intention."""

from __future__ import annotations

import numpy as np
import pytest

from ptr_robot.envs.arm import Arm
from ptr_robot.envs.fault_plans import PLANNERS, Severity, plan_faults
from ptr_robot.envs.faults import Detour, FailedAttempt, Hesitation, Jitter, LateActions, Moment

ARM = Arm(4, (-0.35, 0.45, 0.08), (0.35, 0.85, 0.40), metres_per_step=0.01, open_gripper=-1.0)
LAST_ACTION = np.array([0.6, 0.0, 0.8, 1.0], dtype=np.float32)


def drive(fault, intend=None, max_frames=200):
    """Let a fault move a point that goes exactly where its actions say; returns its actions and positions."""
    hand = np.array([0.0, 0.6, 0.2])
    intend = intend or (lambda hand: np.array([0.1, 0.2, 0.3, -1.0]))
    actions, positions = [], [hand]
    while not fault.is_over and len(actions) < max_frames:
        actions.append(np.asarray(fault.act(Moment(hand, intend, LAST_ACTION, ARM)), dtype=np.float64))
        hand = hand + 0.01 * actions[-1][:3]
        positions.append(hand)
    return np.stack(actions), np.stack(positions)


def test_jitter_adds_noise_of_its_size_to_the_movement_alone():
    actions, _ = drive(Jitter(5000, 0.5, np.random.default_rng(0)), max_frames=5000)
    noise = actions - [0.1, 0.2, 0.3, -1.0]
    assert noise[:, :3].std() == pytest.approx(0.5, rel=0.03)
    assert not noise[:, 3].any()
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 0.05


def test_hesitation_creeps_back_and_holds_the_gripper():
    actions, _ = drive(Hesitation(12, retreat_speed=0.2))
    assert len(actions) == 12
    np.testing.assert_allclose(actions, np.tile([-0.12, 0.0, -0.16, 1.0], (12, 1)), atol=1e-7)


def test_detour_goes_to_the_wrong_place_and_comes_back():
    displacement = np.array([0.1, 0.05, 0.05])
    actions, positions = drive(Detour(displacement, speed=1.0))
    distances = np.linalg.norm(positions - positions[0], axis=1)
    assert distances.max() > 0.8 * np.linalg.norm(displacement)
    assert distances[-1] < 0.025
    assert (actions[:, 3] == 1.0).all()


def test_a_detour_that_is_blocked_ends_all_the_same():
    fault = Detour(np.array([0.1, 0.0, 0.0]), speed=1.0)
    hand = np.zeros(3)
    num_frames = 0
    while not fault.is_over and num_frames < 100:
        fault.act(Moment(hand, lambda hand: np.zeros(4), LAST_ACTION, ARM))
        num_frames += 1
    assert fault.is_over


@pytest.mark.parametrize("is_retried", [True, False])
def test_failed_attempt_shows_the_expert_a_shifted_hand_and_then_lifts(is_retried):
    seen = []
    fault = FailedAttempt(10, np.array([0.06, 0.0, 0.0]), num_retreat_frames=4, is_retried=is_retried)
    actions, positions = drive(fault, lambda hand: seen.append(hand) or np.zeros(4))
    np.testing.assert_allclose(np.stack(seen), positions[:10] + np.array([0.06, 0.0, 0.0]))
    np.testing.assert_array_equal(actions[10:], np.tile([0.0, 0.0, 0.8, -1.0], (4, 1)))
    assert fault.ends_episode is (not is_retried)


def test_late_actions_are_the_intentions_of_earlier_frames():
    intentions = iter(np.random.default_rng(0).normal(size=(30, 4)))
    wanted = np.random.default_rng(0).normal(size=(30, 4))
    actions, _ = drive(LateActions(30, delay_frames=6), lambda hand: next(intentions))
    np.testing.assert_array_equal(actions[:6], np.tile(LAST_ACTION, (6, 1)))
    np.testing.assert_array_equal(actions[6:], wanted[:24])


@pytest.mark.parametrize("kind", PLANNERS)
def test_every_kind_begins_while_the_episode_lasts(kind):
    for seed in range(50):
        planned = plan_faults([kind], 40, Severity(), np.random.default_rng(seed))
        assert planned
        assert all(0 <= fault.first_frame < 40 for fault in planned)
        assert [fault.first_frame for fault in planned] == sorted(fault.first_frame for fault in planned)
        assert all(fault.fault.kind == kind for fault in planned)
