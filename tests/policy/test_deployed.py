"""A deployed policy: its units, its memory and its random numbers, each recomputed by another route."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from ptr_robot.data.robots import load_robot
from ptr_robot.data.robots.normalisers import Normaliser
from ptr_robot.data.segments.source import UnifiedMap
from ptr_robot.errors import ConfigError, ShapeError
from ptr_robot.method.ptr.belief import BeliefTokenizer
from ptr_robot.method.ptr.config import BeliefConfig
from ptr_robot.policy.carried_belief import CarriedBelief
from ptr_robot.policy.deployed import DeployedPolicy, RobotObservation
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import Observation
from ptr_robot.policy.vla.policy import build_policy
from tests.policy.conftest import LENGTH, small_config

CAMERA = "observation.images.corner2"


@dataclasses.dataclass(frozen=True)
class Side:
    """What a checkpoint knows of Meta-World, with normalisers whose numbers are known here."""

    robot: str
    state_map: UnifiedMap
    action_map: UnifiedMap
    cameras: tuple[str | None, ...] = (CAMERA,)
    image_size: int = 32
    resize: str = "pad"


OFFSET, SCALE = np.array([0.5, -1.0, 2.0, 0.0]), np.array([2.0, 0.5, 1.0, 4.0])


@pytest.fixture(scope="module")
def side() -> Side:
    robot = load_robot("metaworld")
    normaliser = Normaliser(OFFSET, SCALE, np.zeros(4, dtype=bool))
    return Side("metaworld", UnifiedMap(robot.state, normaliser), UnifiedMap(robot.action, normaliser))


@pytest.fixture(scope="module")
def tokenizer(flow_policy) -> BeliefTokenizer:
    width = flow_policy.config.trunk.action.width
    torch.manual_seed(3)
    return BeliefTokenizer(BeliefConfig(num_tokens=3), state_dim=width, action_dim=width)


@pytest.fixture
def deployed(flow_policy, tokenizer, side) -> DeployedPolicy:
    return DeployedPolicy(flow_policy, tokenizer, side)


def observe(seed: int = 0, size: int = 32) -> RobotObservation:
    generator = np.random.default_rng(seed)
    image = generator.integers(0, 256, (size, size, 3), dtype=np.uint8)
    return RobotObservation(generator.normal(size=4).astype(np.float32), {CAMERA: image}, "push the puck")


def by_hand(policy, tokenizer, seen: RobotObservation, belief, noise):
    """One chunk through the policy's own ``predict``, with units converted number by number."""
    slots = [0, 1, 2, 18]
    states, mask = torch.zeros(1, 200), torch.zeros(1, 200, dtype=torch.bool)
    for dimension, slot in enumerate(slots):
        states[0, slot] = (float(seen.state[dimension]) - OFFSET[dimension]) / SCALE[dimension]
        mask[0, slot] = True
    images = torch.from_numpy(seen.images[CAMERA].copy()).permute(2, 0, 1)[None, None]
    observation = Observation(images, torch.ones(1, 1, dtype=torch.bool), states, mask, mask, (seen.instruction,))
    prediction = policy.predict(observation, belief, noise=noise)
    actions = np.zeros((LENGTH, 4))
    for step in range(LENGTH):
        for dimension, slot in enumerate(slots):
            actions[step, dimension] = float(prediction.actions[0, step, slot]) * SCALE[dimension] + OFFSET[dimension]
    return actions, tokenizer(prediction.action_states, prediction.action_tokens).next_tokens


def test_two_chunks_equal_the_recursion_by_hand(deployed, flow_policy, tokenizer) -> None:
    deployed.reset(0, seed=11)
    acted = [deployed.act([0], [observe(number)])[0] for number in (1, 2)]
    belief = tokenizer.initial(1)
    for number, chunk in enumerate(acted):
        noise = Noise.keyed(torch.tensor([11]), number)  # the episode's seed, the chunk's number
        expected, belief = by_hand(flow_policy, tokenizer, observe(number + 1), belief, noise)
        np.testing.assert_allclose(chunk, expected, rtol=1e-4, atol=1e-5)


def test_a_policy_that_looks_twice_a_chunk_moves_its_belief_once(flow_policy, tokenizer, side) -> None:
    deployed = DeployedPolicy(flow_policy, tokenizer, side, n_action_steps=LENGTH // 2)
    deployed.reset(0, seed=11)
    acted = [deployed.act([0], [observe(number)])[0] for number in range(5)]
    belief, found = tokenizer.initial(1), []
    for number, chunk in enumerate(acted):
        if number in (2, 4):
            belief = found[number - 2]  # of the look with which the last chunk began
        expected, following = by_hand(
            flow_policy, tokenizer, observe(number), belief, Noise.keyed(torch.tensor([11]), number)
        )
        found.append(following)
        np.testing.assert_allclose(chunk, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("num_actions", "period", "given"),
    [
        (16, 16, [None, 0, 1, 2, 3]),  # each look begins a chunk
        (8, 16, [None, None, 0, 0, 2]),
        (5, 16, [None, None, None, None, 0]),  # 20 steps later
        (20, 16, [None, 0, 1, 2, 3]),
    ],
)
def test_belief_moves_on_as_often_as_in_training(num_actions, period, given) -> None:
    belief, seen = CarriedBelief(), []
    for number in range(5):
        belief = belief.at_look(period)
        seen.append(belief.now)
        belief = belief.after_look(number, num_actions)
    assert seen == given


def test_belief_is_carried_and_reset_forgets_it(deployed) -> None:
    deployed.reset(0, seed=5)
    first = deployed.act([0], [observe(1)])
    second = deployed.act([0], [observe(1)])
    deployed.reset(0, seed=5)
    assert np.array_equal(deployed.act([0], [observe(1)]), first)
    assert not np.array_equal(second, first)


def test_an_episode_does_not_depend_on_its_neighbours(deployed) -> None:
    """Three chunks of three episodes, of which the first ends early; then each of them by itself, in another slot."""
    lengths = {0: 1, 1: 3, 2: 3}
    together: dict[int, list[np.ndarray]] = {episode: [] for episode in lengths}
    for episode in lengths:
        deployed.reset(episode, seed=100 + episode)
    for number in range(3):
        running = [episode for episode, length in lengths.items() if number < length]
        acted = deployed.act(running, [observe(10 * number + episode) for episode in running])
        for episode, chunk in zip(running, acted, strict=True):
            together[episode].append(chunk)
    for episode, chunks in together.items():
        deployed.reset(7, seed=100 + episode)
        alone = [deployed.act([7], [observe(10 * number + episode)])[0] for number in range(len(chunks))]
        np.testing.assert_allclose(chunks, alone, rtol=1e-4, atol=1e-5)


def test_the_seed_decides_the_noise(deployed) -> None:
    deployed.reset(0, seed=1)
    deployed.reset(1, seed=2)
    first, second = deployed.act([0, 1], [observe(0), observe(0)])
    assert not np.array_equal(first, second)


def test_without_a_tokenizer_no_belief_enters(flow_policy, side) -> None:
    plain = DeployedPolicy(flow_policy, None, side)
    plain.reset(0, seed=4)
    assert plain.act([0], [observe(0)]).shape == (1, LENGTH, 4)


def test_a_view_that_the_robot_lacks_is_not_looked_at(flow_policy, tokenizer, side) -> None:
    half_blind = DeployedPolicy(flow_policy, tokenizer, dataclasses.replace(side, cameras=(CAMERA, None)))
    two_eyes = DeployedPolicy(flow_policy, tokenizer, side)
    chunks = []
    for policy in (half_blind, two_eyes):
        policy.reset(0, seed=4)
        chunks.append(policy.act([0], [observe(0)]))
    np.testing.assert_allclose(chunks[0], chunks[1], rtol=1e-3, atol=1e-4)


def test_images_of_another_size_are_resized_as_in_training(deployed) -> None:
    deployed.reset(0, seed=4)
    assert deployed.act([0], [observe(0, size=48)]).shape == (1, LENGTH, 4)


def test_a_state_only_policy_needs_no_image(side) -> None:
    policy = build_policy(small_config(vision=False), seed=0)
    blind = DeployedPolicy(policy, None, dataclasses.replace(side, cameras=(), image_size=0))
    blind.reset(0, seed=0)
    assert blind.act([0], [dataclasses.replace(observe(0), images={})]).shape == (1, LENGTH, 4)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"state": np.zeros(7, dtype=np.float32)}, ShapeError, r"shape \(7,\).*'metaworld'.*\(4,\)"),
        ({"state": np.array([0, 1, np.nan, 0], dtype=np.float32)}, ShapeError, "not finite"),
        ({"images": {}}, ConfigError, "looks through 'observation.images.corner2'"),
        ({"images": {CAMERA: np.zeros((32, 32), dtype=np.uint8)}}, ShapeError, r"\(32, 32\).*\(height, width, 3\)"),
        ({"images": {CAMERA: np.zeros((32, 32, 3))}}, ShapeError, "float64"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(deployed, change, kind, words) -> None:
    deployed.reset(0, seed=0)
    with pytest.raises(kind, match=words) as error:
        deployed.act([0], [dataclasses.replace(observe(0), **change)])
    assert "\n" not in str(error.value)


def test_an_episode_must_begin_before_it_acts(deployed) -> None:
    with pytest.raises(ConfigError, match="slot 9"):
        deployed.act([9], [observe(0)])
