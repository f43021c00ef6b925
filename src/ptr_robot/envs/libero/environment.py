"""A LIBERO task as a small typed environment: official initial states or drawn layouts, images on demand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.base import CameraConfig, Environment, Image, clip_action
from ptr_robot.envs.libero.goals import GOALS_DIM, OBJECTS_DIM, goal_numbers, object_ways
from ptr_robot.envs.libero.initial_states import initial_state as read_initial_state
from ptr_robot.envs.libero.installation import find_assets, import_libero
from ptr_robot.envs.libero.rendering import CAMERAS, LiberoCameras
from ptr_robot.envs.libero.substeps import Substeps
from ptr_robot.envs.libero.suites import LiberoTask, resolve_task
from ptr_robot.errors import ConfigError, DataError

TITLE = "LIBERO"
ACTION_DIM = 7  # relative position and rotation, then the gripper: -1 opens it, 1 closes it
STATE_DIM = 8
ENVIRONMENT_STATE_DIM = STATE_DIM + GOALS_DIM + OBJECTS_DIM
STATE_KEY, ENVIRONMENT_STATE_KEY = "observation.state", "observation.environment_state"
DEFAULT_CAMERAS = CameraConfig(tuple(CAMERAS))
FRAMES_PER_SECOND = 20
NUM_SETTLING_STEPS = 10
NO_OPERATION = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0])
_MOMENT = "ptr_moment"
_MAX_DRAWS = 100
# An asset is a SyntaxError where it is no XML; what it lacks otherwise, robosuite and MuJoCo look up in vain.
_OF_DAMAGED_ASSETS = (OSError, ValueError, AssertionError, SyntaxError, AttributeError, LookupError, TypeError)
_HORIZON = 100_000  # robosuite's own limit, which must never end an episode


class LiberoEnvironment(Environment):
    """One task; ``reset`` starts from one of the fifty official initial states, or from a layout drawn by the seed."""

    def __init__(self, task: str, cameras: CameraConfig = DEFAULT_CAMERAS) -> None:
        self._task = resolve_task(task)
        self.task = self._task.name
        self.instruction = self._task.instruction
        self._camera_config = cameras
        self._cameras: LiberoCameras | None = None
        self.simulator = _make_simulator(self._task)
        self._substeps = Substeps(self.simulator.sim)
        self._moment = _observe_moment(self.simulator)
        self._observed: dict[str, Any] | None = None

    def reset(self, seed: int, initial_state: int | None = None) -> None:
        """Start an episode and let the objects settle; the same seed and state give the same scene.

        Cabinets, stoves and the like are placed by the seed even where an initial state is given: the official files
        hold what moves, and leave to the task's random draw where its fixtures stand (by a few millimetres).
        """
        state = None if initial_state is None else read_initial_state(self._task, initial_state)
        with _seeded(seed):
            self._draw_layout()
        if state is not None:
            self._set_state(state)
        self.is_success = False
        self.num_steps = 0
        for _ in range(NUM_SETTLING_STEPS):
            self._advance(NO_OPERATION)

    def step(self, action: npt.NDArray[Any]) -> None:
        """Execute one action of the relative pose controller, each number clipped to [-1, 1]."""
        self.is_success = self._advance(clip_action(action, ACTION_DIM, TITLE))
        self.num_steps += 1

    @property
    def states(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """Proprioception as LeRobot has it, and the same with the goal's objects and places and all objects behind it.

        The first is the hand's position in metres, its rotation as axis times angle, and both fingers' positions.
        """
        observed = self._checked_observation()
        rotation = axis_angle(observed["robot0_eef_quat"])
        state = np.concatenate([observed["robot0_eef_pos"], rotation, observed["robot0_gripper_qpos"]])
        hand = observed["robot0_eef_pos"]
        everything = np.concatenate([state, goal_numbers(self.simulator, hand), object_ways(self.simulator, hand)])
        return {STATE_KEY: state.astype(np.float32), ENVIRONMENT_STATE_KEY: everything.astype(np.float32)}

    def render(self, camera: str) -> Image:
        """One of the two views at the moment of the observation; nothing is rendered unless this is called."""
        self._checked_observation()
        if self._cameras is None:
            model = self.simulator.sim.model._model
            self._cameras = LiberoCameras(model, self._camera_config.image_size, self._camera_config.full_light)
        return self._cameras.render(self._moment, camera)

    def close(self) -> None:
        """Give back the renderer's memory."""
        if self._cameras is not None:
            self._cameras.close()
            self._cameras = None

    def _advance(self, action: npt.NDArray[Any]) -> bool:
        with self._substeps.active():
            self._observed, _, is_success, _ = self.simulator.step(action)
        return bool(is_success)

    def _checked_observation(self) -> dict[str, Any]:
        if self._observed is None:
            raise ConfigError(f"{self.task}: reset() must come before the first observation")
        return self._observed

    def _draw_layout(self) -> None:
        randomization_error = import_libero("robosuite.utils.errors").RandomizationError
        for robot in self.simulator.robots:
            robot.gripper.current_action = np.zeros_like(robot.gripper.current_action)
        for _ in range(_MAX_DRAWS):
            with contextlib.suppress(randomization_error):
                self.simulator.reset()
                return
        raise DataError(f"{self.task}: no layout without overlaps in {_MAX_DRAWS} draws; use another seed")

    def _set_state(self, state: npt.NDArray[np.float64]) -> None:
        expected = len(self.simulator.sim.get_state().flatten())
        if len(state) != expected:
            raise DataError(
                f"{self._task.initial_states_file}: the initial states have {len(state)} numbers and the scene "
                f"{expected}; these assets are of another version than hf-libero"
            )
        self.simulator.sim.set_state_from_flattened(state)
        self.simulator.sim.forward()
        self.simulator._post_process()
        self.simulator._update_observables(force=True)


def axis_angle(quaternion: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:  # (4,) x, y, z, w -> (3,)
    """The rotation as axis times angle; the angle lies in [0, 2π), as in LeRobot's processor."""
    real = np.clip(quaternion[3], -1.0, 1.0)
    sine = np.sqrt(1.0 - real * real)
    if sine <= 1e-10:
        return np.zeros(3)
    rotation: npt.NDArray[np.float64] = quaternion[:3] / sine * 2.0 * np.arccos(real)
    return rotation


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """LIBERO draws from NumPy's global generator, which is seeded for the draw and then put back."""
    before = np.random.get_state()
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        np.random.set_state(before)


def _make_simulator(task: LiberoTask) -> Any:
    """LIBERO's own environment, without its renderer."""
    wrapper = import_libero("libero.libero.envs.env_wrapper")
    xml_error = import_libero("robosuite.utils.errors").XMLError
    try:
        return wrapper.ControlEnv(
            bddl_file_name=str(task.problem_file),
            use_camera_obs=False,
            has_offscreen_renderer=False,
            hard_reset=False,
            ignore_done=True,
            horizon=_HORIZON,
        ).env
    except (*_OF_DAMAGED_ASSETS, xml_error) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise DataError(
            f"{task.name}: LIBERO could not build the scene from the assets in {find_assets()} "
            f"({type(error).__name__}: {reason}); if a file there is damaged, copy it again"
        ) from error


def _observe_moment(simulator: Any) -> Any:
    """MuJoCo data that always holds the moment of the last observation.

    robosuite samples its observations a little before the end of a step. Whoever renders on demand has to render that
    very moment, or pictures would not belong to the states beside them; so a sensor of ours is sampled with the rest.
    """
    import mujoco

    observables = import_libero("robosuite.utils.observables")
    model = simulator.sim.model._model
    moment = mujoco.MjData(model)

    @observables.sensor(modality="object")  # type: ignore[untyped-decorator]
    def copy_moment(_: dict[str, Any]) -> npt.NDArray[np.float64]:
        mujoco.mj_copyData(moment, model, simulator.sim.data._data)
        return np.array([moment.time])

    simulator.add_observable(observables.Observable(_MOMENT, copy_moment, sampling_rate=FRAMES_PER_SECOND))
    return moment
