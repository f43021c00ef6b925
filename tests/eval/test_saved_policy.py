"""A saved policy in the simulator does what it did before it was saved, whoever loads it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from ptr_robot.envs.base import CameraConfig
from ptr_robot.envs.libero.environment_type import Libero
from ptr_robot.envs.metaworld.environment import MetaWorldEnvironment
from ptr_robot.envs.metaworld.tasks import instructions
from ptr_robot.errors import ConfigError
from ptr_robot.eval.evaluation import EvaluationConfig, PolicyFlags
from ptr_robot.eval.rollout_policy import RolloutEpisode, RolloutObservation
from ptr_robot.eval.saved_policy import (
    CheckpointPolicy,
    cameras_by_key,
    cameras_of,
    checkpoint_folder,
    fed_sources,
    load_rollout_policy,
    same_checkpoint,
    tasks_by_source,
)
from ptr_robot.policy.deployed import DeployedPolicy
from tests.envs.conftest import METAWORLD, SMALL_CAMERA

EPISODES = [RolloutEpisode("reach-v3", 3), RolloutEpisode("reach-v3", 4)]


def two_chunks(policy: CheckpointPolicy) -> list[np.ndarray]:
    """What the policy does in two episodes side by side, each chunk executed before the next."""
    environments = [MetaWorldEnvironment(episode.task, SMALL_CAMERA) for episode in EPISODES]
    for slot, (environment, episode) in enumerate(zip(environments, EPISODES, strict=True)):
        environment.reset(episode.seed)
        policy.reset(slot, episode)
    chunks = []
    for _ in range(2):
        observations = [RolloutObservation(e, slot, EPISODES[slot]) for slot, e in enumerate(environments)]
        chunks.append(policy.act(observations))
        for environment, chunk in zip(environments, chunks[-1], strict=True):
            for action in chunk:
                environment.step(action)
    return chunks


def test_a_saved_policy_acts_as_it_did_before(trained, saved_run: Path) -> None:
    source = trained.sources[0]
    unsaved = CheckpointPolicy(
        DeployedPolicy(trained.policy, trained.belief, source),
        "observation.state",
        cameras_by_key("run", source, METAWORLD),
        seed=7,
    )
    loaded = load_rollout_policy(str(saved_run), 7, METAWORLD)
    for before, after in zip(two_chunks(unsaved), two_chunks(loaded), strict=True):
        assert np.array_equal(before, after)


def test_another_seed_samples_other_actions(saved_run: Path) -> None:
    first, second = (two_chunks(load_rollout_policy(str(saved_run), seed, METAWORLD)) for seed in (1, 2))
    assert not np.array_equal(first[0], second[0])


def test_a_run_stands_for_its_last_checkpoint(saved_run: Path) -> None:
    checkpoint = saved_run / "checkpoints" / "000001"
    assert checkpoint_folder(saved_run) == checkpoint.resolve()
    assert checkpoint_folder(checkpoint) == checkpoint


def test_another_robot_is_refused(trained, other_run) -> None:
    with pytest.raises(ConfigError, match=r"trained for unitree_g1 .*evaluate a policy that was trained on Meta-World"):
        load_rollout_policy(str(other_run(robot_name="unitree_g1")), 0, METAWORLD)
    assert fed_sources("run", trained.sources, METAWORLD) == [0]


def test_the_camera_comes_from_the_policy(trained) -> None:
    source = trained.sources[0]
    assert cameras_of("run", source, METAWORLD, 48) == CameraConfig(("corner2",), 48)
    assert cameras_of("run", source, METAWORLD, 48, ("topview",)) == CameraConfig(("topview",), 48)


def test_the_light_is_the_users_where_the_environment_has_two(trained) -> None:
    source = dataclasses.replace(trained.sources[0], cameras=("observation.images.image",))
    assert cameras_of("run", source, Libero(), 48, full_light=True) == CameraConfig(("image",), 48, full_light=True)
    with pytest.raises(ConfigError, match=r"Meta-World is rendered in one light alone; leave out --env\.full_light"):
        cameras_of("run", trained.sources[0], METAWORLD, 48, full_light=True)


@pytest.mark.parametrize(
    ("sizes", "pixels"), [(((224, 224),), 224), (((224, 224), None), 224), ((None,), 96), ((), 96)]
)
def test_the_camera_has_the_pixels_of_the_data(trained, sizes, pixels) -> None:
    source = dataclasses.replace(trained.sources[0], camera_sizes=sizes)
    assert cameras_of("run", source, METAWORLD) == CameraConfig(("corner2",), pixels)
    assert cameras_of("run", source, METAWORLD, 48) == CameraConfig(("corner2",), 48)


def test_images_that_are_not_square_need_a_stated_size(trained) -> None:
    source = dataclasses.replace(trained.sources[0], camera_sizes=((480, 640),))
    with pytest.raises(ConfigError, match=r"480 x 640 pixels; .*--env.image_size"):
        cameras_of("run", source, METAWORLD)


@pytest.mark.parametrize(
    ("key", "is_fed"), [("observation.state", True), (None, True), ("observation.environment_state", False)]
)
def test_a_state_of_the_right_length_and_another_name_is_refused(trained, key, is_fed) -> None:
    source = dataclasses.replace(trained.sources[0], state_key=key)  # four numbers
    if is_fed:
        assert fed_sources("run", [source], METAWORLD) == [0]
        return
    with pytest.raises(ConfigError, match=r"metaworld \(observation.environment_state 4, action 4\)"):
        fed_sources("run", [source], METAWORLD)


@pytest.mark.parametrize(
    ("cameras", "words"),
    [
        (("observation.images.wrist",), "wrist.*name one with --env.camera"),
        (("observation.images.corner", "observation.images.wrist"), "no camera 'wrist'"),
    ],
)
def test_a_camera_that_meta_world_lacks_is_named(trained, cameras, words) -> None:
    source = dataclasses.replace(trained.sources[0], cameras=cameras)
    with pytest.raises(ConfigError, match=words):
        cameras_of("run", source, METAWORLD, 48)


def test_several_cameras_are_found_by_their_keys_or_named(trained) -> None:
    keys = ("observation.images.corner", None, "observation.images.corner2")
    source = dataclasses.replace(trained.sources[0], cameras=keys)
    assert cameras_of("run", source, METAWORLD, 48) == CameraConfig(("corner", "corner2"), 48)
    named = cameras_by_key("run", source, METAWORLD, ("topview", "corner3"))
    assert named == {keys[0]: "topview", keys[2]: "corner3"}
    with pytest.raises(ConfigError, match=r"name as many cameras with --env\.camera"):
        cameras_of("run", source, METAWORLD, 48, ("topview",))


def test_each_task_is_met_with_a_source_that_shows_it(trained) -> None:
    words = instructions()
    reach, push = (
        dataclasses.replace(trained.sources[0], name=task, tasks=(words[task],)) for task in ("reach-v3", "push-v3")
    )
    other = dataclasses.replace(reach, state_key="observation.environment_state")  # of another length: cannot be fed
    tasks = ["push-v3", "reach-v3"]
    assert tasks_by_source("run", [other, reach, push], METAWORLD, tasks) == {2: ["push-v3"], 1: ["reach-v3"]}
    assert tasks_by_source("run", [reach], METAWORLD, tasks) == {0: tasks}  # there is no other
    with pytest.raises(ConfigError, match=r"run was trained on reach-v3, push-v3, none of which shows drawer-open-v3"):
        tasks_by_source("run", [reach, push], METAWORLD, ["drawer-open-v3"])


def test_results_are_named_after_the_run_however_it_is_given(saved_run: Path) -> None:
    paths = [saved_run, saved_run / "checkpoints" / "000001", saved_run / "checkpoints" / "last" / "pretrained_model"]
    outputs = {EvaluationConfig(policy=PolicyFlags(str(path))).output for path in paths}
    assert outputs == {Path("outputs/eval") / saved_run.name}


def test_a_checkpoint_is_the_same_however_it_is_named(saved_run: Path, other_run, monkeypatch) -> None:
    checkpoint = saved_run / "checkpoints" / "000001"
    monkeypatch.chdir(saved_run.parent)
    for path in (saved_run, checkpoint, checkpoint / "pretrained_model", Path(saved_run.name)):
        assert same_checkpoint(path, saved_run)
    assert not same_checkpoint(saved_run, other_run(cameras=(None,)))
