"""Made episodes: a hand goes to one of two goals, smoothly, with a hand's usual noise; and faults of known kinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptr_robot.method.scoring.recordings import Recording, Recordings

FPS = 20.0


def reach(number: int, task: int, frames: int = 60, noise: float = 0.004) -> Recording:
    """From a random start to the task's goal and a little up; actions are the commanded next positions."""
    generator = np.random.default_rng([7, number])
    start = generator.uniform(-0.3, 0.3, 3)
    goal = np.array([[1.0, 0.2, 0.4], [-1.0, -0.3, 0.5]])[task % 2]
    frames = frames + int(generator.integers(-8, 9))
    share = np.linspace(0, 1, frames)[:, None]
    ease = share**2 * (3 - 2 * share)
    path = start + ease * (goal - start) + 0.1 * np.sin(np.pi * share) * np.array([0.0, 0.0, 1.0])
    states = path + noise * np.cumsum(generator.standard_normal((frames, 3)), axis=0) * 0.5
    commands = np.concatenate([states[2:], states[-1:], states[-1:]])
    actions = commands + noise * generator.standard_normal((frames, 3))
    return Recording(states.astype(np.float32), actions.astype(np.float32), task)


def make_recordings(num: int = 24, num_tasks: int = 2) -> Recordings:
    """Good ones only."""
    return Recordings(tuple(reach(number, number % num_tasks) for number in range(num)), FPS, chunk_length=8)


def replace_episodes(recordings: Recordings, changed: dict[int, Recording]) -> Recordings:
    episodes = tuple(changed.get(place, episode) for place, episode in enumerate(recordings.episodes))
    return replace(recordings, episodes=episodes)
