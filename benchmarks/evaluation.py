"""What evaluating a policy costs, as ratios in one run.

    OMP_NUM_THREADS=1 python benchmarks/evaluation.py

A `tiny-state` policy with belief tokens and its initial weights in Meta-World, eight episodes side by side in one
process: all of them predicted in one batch, as `ptr eval` does it, against the same policy asked for one episode at a
time. Episodes, seeds and numbers of steps are the same. The processor's time is measured, so that a busy machine
changes little.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ptr_robot.data.robots import load_robot
from ptr_robot.data.robots.normalisers import Normaliser
from ptr_robot.data.robots.slots import SlotMap
from ptr_robot.data.segments.source import UnifiedMap
from ptr_robot.envs.registry import environment_type
from ptr_robot.eval.rollout_policy import RolloutEpisode, RolloutObservation
from ptr_robot.eval.rollouts import RolloutConfig, rollout
from ptr_robot.eval.saved_policy import CheckpointPolicy
from ptr_robot.method.ptr.belief import BeliefTokenizer
from ptr_robot.method.ptr.config import BeliefConfig
from ptr_robot.policy.deployed import DeployedPolicy
from ptr_robot.policy.vla.policy import build_policy
from ptr_robot.policy.vla.presets import preset
from ptr_robot.train.sources import SourceRecord

TASK = "reach-v3"
EPISODES, MAX_STEPS, EXECUTED = 8, 96, 8


class TimedPolicy:
    """A policy that counts the processor's time in ``act``, asked for all episodes at once or one by one."""

    def __init__(self, policy: CheckpointPolicy, *, at_once: bool) -> None:
        self._policy = policy
        self._at_once = at_once
        self.seconds = 0.0
        self.num_chunks = 0

    def reset(self, slot: int, episode: RolloutEpisode) -> None:
        self._policy.reset(slot, episode)

    def act(self, observations: Sequence[RolloutObservation]) -> npt.NDArray[Any]:
        started = time.process_time()
        groups = [observations] if self._at_once else [[observation] for observation in observations]
        chunks = np.concatenate([self._policy.act(group) for group in groups])
        self.seconds += time.process_time() - started
        self.num_chunks += len(observations)
        return chunks


def make_policy() -> CheckpointPolicy:
    """The policy with its initial weights: what it costs does not depend on what it has learnt."""
    robot = load_robot("metaworld")
    source = SourceRecord(
        name="none",
        robot=robot.name,
        fps=80.0,
        state_map=_identity(robot.state),
        action_map=_identity(robot.action),
        cameras=(),
        image_size=0,
        resize="pad",
        tasks=(),
    )
    policy = build_policy(preset("tiny-state"), seed=0)
    sizes = policy.sizes
    belief = BeliefTokenizer(BeliefConfig(), state_dim=sizes.action_state_dim, action_dim=sizes.action_dim)
    return CheckpointPolicy(DeployedPolicy(policy, belief, source), "observation.state", {}, seed=0)


def _identity(slots: SlotMap) -> UnifiedMap:
    zeros, ones = np.zeros(slots.size), np.ones(slots.size)
    return UnifiedMap(slots, Normaliser(zeros, ones, np.zeros(slots.size, dtype=bool)))


def measure(policy: CheckpointPolicy, *, at_once: bool) -> tuple[float, float, int]:
    """Processor seconds of a rollout, milliseconds of the policy for a chunk, and steps taken."""
    config = RolloutConfig(execute_steps=EXECUTED, max_steps=MAX_STEPS, batch_size=EPISODES, num_processes=1)
    timed = TimedPolicy(policy, at_once=at_once)
    started = time.process_time()
    result = rollout(lambda: timed, environment_type("metaworld"), [TASK], list(range(EPISODES)), config)
    seconds = time.process_time() - started
    return seconds, 1000 * timed.seconds / timed.num_chunks, sum(episode.num_steps for episode in result.episodes)


def report(rounds: int = 3) -> None:
    """Both ways in turn, the fastest of each."""
    policy = make_policy()
    measure(policy, at_once=True)  # the first pass loads what is loaded once
    runs = [(measure(policy, at_once=True), measure(policy, at_once=False)) for _ in range(rounds)]
    together, apart = (min(run[way] for run in runs) for way in (0, 1))
    print(
        f"a chunk of `tiny-state`, {EPISODES} episodes: {together[1]:.1f} ms in one batch, {apart[1]:.1f} ms one by one"
    )
    print(f"  = {apart[1] / together[1]:.1f}x as fast")
    rates = [steps / seconds for seconds, _, steps in (together, apart)]
    print(f"rollouts: {rates[0]:.0f} against {rates[1]:.0f} steps a second = {rates[0] / rates[1]:.1f}x as fast")


if __name__ == "__main__":
    report()
