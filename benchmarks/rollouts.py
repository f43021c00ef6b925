"""What rollouts cost, as ratios in one run.

    MUJOCO_GL=egl python benchmarks/rollouts.py

The same policy with the same seeds, once looking at the image when it chooses a chunk and once in a loop that renders
every step, as LeRobot's environment does; then frames a second of rendering alone; then one process against two.
Within one process the CPU's time is measured, so that a busy machine changes little; for two, the clock's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from ptr_robot.envs.base import CameraConfig
from ptr_robot.envs.metaworld.environment import DEFAULT_CAMERAS, MetaWorldEnvironment
from ptr_robot.envs.registry import environment_type
from ptr_robot.eval.rollout_policy import RolloutEpisode, RolloutObservation
from ptr_robot.eval.rollouts import RolloutConfig, rollout

METAWORLD = environment_type("metaworld")
TASK = "pick-place-v3"
CAMERA = "corner2"
MAX_STEPS = 96
CHUNK = 8
CONFIG = RolloutConfig(execute_steps=CHUNK, max_steps=MAX_STEPS, batch_size=2, num_processes=1)


class LookingPolicy:
    """Looks at every image it is offered and moves a little, so that every episode takes all its steps."""

    def reset(self, slot: int, episode: RolloutEpisode) -> None:
        """Nothing is carried."""

    def act(self, observations: Sequence[RolloutObservation]) -> npt.NDArray[Any]:
        """A small constant movement, after a look."""
        brightness = [observation.image(CAMERA).mean() / 255 for observation in observations]
        return np.stack([np.full((CHUNK, 4), 0.05 * value) for value in brightness])


def report() -> None:
    """Print every measurement as a line of text."""
    for part in (report_rendering, report_looks, report_processes):
        for line in part():
            print(line, flush=True)


def report_rendering(num_frames: int = 40) -> list[str]:
    """Frames a second by image size, and against MuJoCo's renderer as Meta-World sets it up."""
    lines = []
    for image_size in (64, 96, 128, 224):
        environment = MetaWorldEnvironment(TASK, CameraConfig((CAMERA,), image_size))
        environment.reset(0)
        ours = num_frames / _seconds(partial(environment.render, CAMERA), num_frames)
        lines.append(f"rendering at {image_size} pixels: {ours:.0f} frames a second of one core")
    environment = MetaWorldEnvironment(TASK, CameraConfig((CAMERA,), 96))
    environment.reset(0)
    ours = num_frames / _seconds(partial(environment.render, CAMERA), num_frames)
    plain = num_frames / _seconds(_plain_renderer(), num_frames)
    lines.append(f"rendering at 96 pixels against shadows and multi-sampling on: {ours / plain:.1f}x as fast")
    return lines


def report_looks() -> list[str]:
    """Rollouts that render when the policy looks against a loop that renders every step."""
    rollout(LookingPolicy, METAWORLD, [TASK], [0], CONFIG)  # the first look makes the camera
    lazy = _seconds(lambda: rollout(LookingPolicy, METAWORLD, [TASK], [1, 2], CONFIG))
    eager = _seconds(lambda: [_render_every_step(seed) for seed in (1, 2)])
    lazy_rate, eager_rate = (2 * MAX_STEPS / seconds for seconds in (lazy, eager))
    return [
        f"rollouts, chunks of {CHUNK}: {lazy_rate:.0f} steps a second of one core; "
        f"rendering every step: {eager_rate:.0f}; {lazy_rate / eager_rate:.1f}x as fast"
    ]


def report_processes(num_seeds: int = 24) -> list[str]:
    """The time of the same episodes in one process and in two; starting the processes is part of it."""
    seeds = list(range(num_seeds))
    alone = _seconds(lambda: rollout(LookingPolicy, METAWORLD, [TASK], seeds, CONFIG), clock=time.perf_counter)
    both = _seconds(
        lambda: rollout(LookingPolicy, METAWORLD, [TASK], seeds, replace(CONFIG, num_processes=2)),
        clock=time.perf_counter,
    )
    return [
        f"{num_seeds} episodes in two processes: {alone / both:.2f}x as fast as in one ({alone:.1f} s, {both:.1f} s)"
    ]


def _render_every_step(seed: int) -> None:
    environment = MetaWorldEnvironment(TASK, DEFAULT_CAMERAS)
    environment.reset(seed)
    for _ in range(MAX_STEPS):
        brightness = environment.render(CAMERA).mean() / 255
        environment.step(np.full(4, 0.05 * brightness))


def _plain_renderer() -> Callable[[], Any]:
    """MuJoCo's renderer with the model's own settings."""
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    simulator = ALL_V3_ENVIRONMENTS[TASK]()
    renderer = mujoco.Renderer(simulator.model, 96, 96)

    def render() -> Any:
        renderer.update_scene(simulator.data, camera="corner2")
        return renderer.render()

    return render


def _seconds(function: Callable[[], Any], num_times: int = 1, clock: Callable[[], float] = time.process_time) -> float:
    if num_times > 1:
        function()
    start = clock()
    for _ in range(num_times):
        function()
    return clock() - start


if __name__ == "__main__":
    report()
