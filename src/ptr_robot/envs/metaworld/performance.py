"""One attempt of one operator at a task: rehearsed, planned, then performed, with the frames of every fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptr_robot.data.ground_truth import Fault
from ptr_robot.envs.metaworld.environment import ACTION_DIM, Action, EnvironmentState, MetaWorldEnvironment, clip_action
from ptr_robot.envs.metaworld.fault_plans import PlannedFault, Severity, plan_faults
from ptr_robot.envs.metaworld.faults import Moment
from ptr_robot.envs.metaworld.operators import Operator, OperatorConfig
from ptr_robot.envs.metaworld.rendering import Image

PATIENCE_FRAMES = 400  # when an operator stops without success; also where LeRobot's environment stops


@dataclass(frozen=True)
class DemonstrationSeeds:
    """What an episode depends on besides its task and operator."""

    layout: int  # where objects and goal stand
    operator: int  # the operator's style, noise and faults in this episode


@dataclass(frozen=True)
class Pace:
    """How an operator takes its time in one episode."""

    speed: float | None = None  # top speed away from the object; None: as the operator draws it
    pause_frames: int = 0  # frames of short rests beyond the operator's own
    limit: int | None = None  # when it stops without success; None: after ``PATIENCE_FRAMES``

    @property
    def last_frame(self) -> int:
        """When the operator stops without success."""
        return PATIENCE_FRAMES if self.limit is None else self.limit


@dataclass(frozen=True)
class Demonstration:
    """``N`` recorded frames: what was observed before each action, and the action that was executed."""

    states: npt.NDArray[np.float32]  # (N, 4)
    environment_states: npt.NDArray[np.float32]  # (N, 39)
    actions: npt.NDArray[np.float32]  # (N, 4)
    images: npt.NDArray[np.uint8] | None  # (N, H, W, 3)
    faults: tuple[Fault, ...]
    is_success: bool

    @property
    def num_frames(self) -> int:
        """N."""
        return len(self.actions)


def rehearse(environment: MetaWorldEnvironment, config: OperatorConfig, seeds: DemonstrationSeeds, pace: Pace) -> int:
    """How many frames the task takes without rests and faults; it depends on the pace's speed and limit alone."""
    operator = Operator(config, environment.task, seeds.operator, pace.speed)
    return _run(environment, operator, [], seeds.layout, pace.last_frame, has_images=False).num_frames


def perform(
    environment: MetaWorldEnvironment,
    config: OperatorConfig,
    seeds: DemonstrationSeeds,
    pace: Pace,
    expected: int,  # frames, as ``rehearse`` tells
    has_images: bool = False,
) -> Demonstration:
    """The episode with its rests and faults, which are placed by its expected length."""
    operator = Operator(config, environment.task, seeds.operator, pace.speed)
    operator.expect(expected, pace.pause_frames)
    return _run(environment, operator, _plan(config, expected, seeds), seeds.layout, pace.last_frame, has_images)


def _plan(config: OperatorConfig, expected: int, seeds: DemonstrationSeeds) -> list[PlannedFault]:
    if not config.is_faulty:
        return []
    generator = np.random.default_rng([seeds.operator, 1])
    lowest, highest = (min(number, len(config.faults)) for number in config.faults_per_episode)
    kinds = generator.choice(config.faults, size=generator.integers(lowest, highest + 1), replace=False)
    return plan_faults(
        [str(kind) for kind in kinds], expected, Severity(config.severity, config.give_up_share), generator
    )


def _run(
    environment: MetaWorldEnvironment,
    operator: Operator,
    planned: Sequence[PlannedFault],
    layout_seed: int,
    limit: int,
    has_images: bool,
) -> Demonstration:
    """Run one episode until some frames after success, a fault that ends it, or ``limit``."""
    conduct = _Conduct(operator, planned)
    environment_state = environment.reset(layout_seed)
    observed: list[EnvironmentState] = []
    actions: list[Action] = []
    images: list[Image] = []
    success_frame: int | None = None
    while len(actions) < limit and not conduct.has_given_up:
        observed.append(environment_state)
        if has_images:
            images.append(environment.render())
        actions.append(conduct.act(environment_state))
        environment_state = environment.step(actions[-1])
        if environment.is_success and success_frame is None:
            success_frame = len(actions)
        if success_frame is not None and len(actions) >= success_frame + operator.settle_frames:
            break
    environment_states = np.stack(observed).astype(np.float32)
    return Demonstration(
        states=environment_states[:, :4],
        environment_states=environment_states,
        actions=np.stack(actions),
        images=np.stack(images) if has_images else None,
        faults=conduct.finish(),
        is_success=success_frame is not None,
    )


class _Conduct:
    """Hands control from the operator to its faults and back, one fault at a time."""

    def __init__(self, operator: Operator, planned: Sequence[PlannedFault]) -> None:
        self._operator = operator
        self._waiting = list(planned)
        self._active: PlannedFault | None = None
        self._active_since = 0
        self._faults: list[Fault] = []
        self._frame = 0
        self._last_action: Action = np.zeros(ACTION_DIM, dtype=np.float32)
        self.has_given_up = False

    def act(self, environment_state: EnvironmentState) -> Action:
        """The action that is executed in this frame."""
        if self._active is None and self._waiting and self._waiting[0].first_frame <= self._frame:
            self._active, self._active_since = self._waiting.pop(0), self._frame
        if self._active is None:
            action = self._intend(environment_state)
        else:
            action = self._active.fault.act(Moment(environment_state, self._intend, self._last_action))
        self._last_action = clip_action(np.asarray(action))
        self._frame += 1
        if self._active is not None and self._active.fault.is_over:
            self.has_given_up = self._active.fault.ends_episode
            self._close_active()
        return self._last_action

    def finish(self) -> tuple[Fault, ...]:
        """Every fault that was executed, with its frames."""
        self._close_active()
        return tuple(self._faults)

    def _intend(self, environment_state: EnvironmentState) -> npt.NDArray[np.float64]:
        return self._operator.intend(environment_state, self._last_action)

    def _close_active(self) -> None:
        if self._active is None:
            return
        fault = self._active.fault
        self._faults.append(Fault(fault.kind, self._active_since, self._frame - 1, fault.details))
        self._active = None
