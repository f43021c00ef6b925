"""One attempt of one operator at a task: rehearsed, planned, then performed, with the frames of every fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptr_robot.data.ground_truth import Fault
from ptr_robot.envs.arm import Action, Arm, Expert, Vector
from ptr_robot.envs.base import Image
from ptr_robot.envs.fault_plans import PlannedFault, Severity, plan_faults
from ptr_robot.envs.faults import Moment
from ptr_robot.envs.manner import Operator
from ptr_robot.envs.operators import OperatorConfig
from ptr_robot.envs.scripted import Workplace


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
    limit: int | None = None  # when it stops without success; None: when evaluation would, too


@dataclass(frozen=True)
class Demonstration:
    """``N`` recorded frames: what was observed before each action, and the action that was executed."""

    states: Mapping[str, npt.NDArray[np.float32]]  # (N, D) by the keys of the environment's states
    actions: npt.NDArray[np.float32]  # (N, Da)
    images: Mapping[str, npt.NDArray[np.uint8]]  # (N, H, W, 3) by camera
    faults: tuple[Fault, ...]
    is_success: bool

    @property
    def num_frames(self) -> int:
        """N."""
        return len(self.actions)


def rehearse(workplace: Workplace, config: OperatorConfig, seeds: DemonstrationSeeds, pace: Pace) -> int:
    """How many frames the task takes without rests and faults; it depends on the pace's speed and limit alone."""
    expert = workplace.robot.make_expert(workplace.environment)
    conduct = _Conduct(Operator(config, expert, seeds.operator, pace.speed), expert, workplace.robot.arm, [])
    return _run(workplace, conduct, seeds.layout, pace).num_frames


def perform(
    workplace: Workplace,
    config: OperatorConfig,
    seeds: DemonstrationSeeds,
    pace: Pace,
    expected: int,  # frames, as ``rehearse`` tells
    cameras: Sequence[str] = (),
) -> Demonstration:
    """The episode with its rests and faults, which are placed by its expected length."""
    expert = workplace.robot.make_expert(workplace.environment)
    operator = Operator(config, expert, seeds.operator, pace.speed)
    operator.expect(expected, pace.pause_frames)
    conduct = _Conduct(operator, expert, workplace.robot.arm, _plan(config, expected, seeds))
    return _run(workplace, conduct, seeds.layout, pace, cameras)


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
    workplace: Workplace, conduct: _Conduct, layout_seed: int, pace: Pace, cameras: Sequence[str] = ()
) -> Demonstration:
    """Run one episode until some frames after success, a fault that ends it, or the pace's limit."""
    environment = workplace.environment
    limit = workplace.limits.usual if pace.limit is None else pace.limit
    environment.reset(layout_seed)
    observed: list[Mapping[str, npt.NDArray[np.float32]]] = []
    actions: list[Action] = []
    images: dict[str, list[Image]] = {camera: [] for camera in cameras}
    success_frame: int | None = None
    while len(actions) < limit and not conduct.has_given_up:
        observed.append(environment.states)
        for camera in cameras:
            images[camera].append(environment.render(camera))
        actions.append(conduct.act())
        environment.step(actions[-1])
        if environment.is_success and success_frame is None:
            success_frame = len(actions)
        if success_frame is not None and len(actions) >= success_frame + conduct.settle_frames:
            break
    return Demonstration(
        states={key: np.stack([states[key] for states in observed]) for key in observed[0]},
        actions=np.stack(actions),
        images={camera: np.stack(frames) for camera, frames in images.items()},
        faults=conduct.finish(),
        is_success=success_frame is not None,
    )


class _Conduct:
    """Hands control from the operator to its faults and back, one fault at a time."""

    def __init__(self, operator: Operator, expert: Expert, arm: Arm, planned: Sequence[PlannedFault]) -> None:
        self._operator = operator
        self._expert = expert
        self._arm = arm
        self._waiting = list(planned)
        self._active: PlannedFault | None = None
        self._active_since = 0
        self._faults: list[Fault] = []
        self._frame = 0
        self._last_action: Action = np.zeros(arm.action_size, dtype=np.float32)
        self.settle_frames = operator.settle_frames
        self.has_given_up = False

    def act(self) -> Action:
        """The action that is executed in this frame."""
        if self._active is None and self._waiting and self._waiting[0].first_frame <= self._frame:
            self._active, self._active_since = self._waiting.pop(0), self._frame
        if self._active is None:
            action = self._intend(self._expert.hand)
        else:
            action = self._active.fault.act(Moment(self._expert.hand, self._intend, self._last_action, self._arm))
        self._last_action = self._arm.clip(np.asarray(action))
        self._frame += 1
        if self._active is not None and self._active.fault.is_over:
            self.has_given_up = self._active.fault.ends_episode
            self._close_active()
        return self._last_action

    def finish(self) -> tuple[Fault, ...]:
        """Every fault that was executed, with its frames."""
        self._close_active()
        return tuple(self._faults)

    def _intend(self, hand: Vector) -> npt.NDArray[np.float64]:
        return self._operator.intend(hand, self._last_action)

    def _close_active(self) -> None:
        if self._active is None:
            return
        fault = self._active.fault
        self._faults.append(Fault(fault.kind, self._active_since, self._frame - 1, fault.details))
        self._active = None
