"""Small LeRobot datasets that the tests make with LeRobot itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np

CAMERA = "observation.images.top"
TASKS = ("push the puck", "open the drawer")


def record_dataset(
    root: Path,
    *,
    lengths: tuple[int, ...],
    robot: str = "metaworld",
    size: int = 4,
    action_size: int | None = None,  # by default the state's
    pixels: int = 0,
) -> Path:
    """A v3.0 dataset in which the state follows the actions, so that consequences can be separated."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    action_size = size if action_size is None else action_size
    features = {
        "observation.state": {"dtype": "float32", "shape": (size,), "names": None},
        "action": {"dtype": "float32", "shape": (action_size,), "names": None},
    }
    if pixels:
        names = ["height", "width", "channels"]
        features[CAMERA] = {"dtype": "image", "shape": (pixels, pixels, 3), "names": names}
    dataset = LeRobotDataset.create(f"owner/{root.name}", fps=10, features=features, root=root, robot_type=robot)
    generator = np.random.default_rng(3)
    for episode, length in enumerate(lengths):
        state = generator.normal(size=size)
        for _ in range(length):
            action = 0.3 * generator.normal(size=action_size) - 0.5 * np.resize(state, action_size)
            frame = {"observation.state": state.astype("f4"), "action": action.astype("f4")}
            if pixels:
                frame[CAMERA] = generator.integers(0, 255, (pixels, pixels, 3)).astype("u1")
            dataset.add_frame(frame | {"task": TASKS[episode % len(TASKS)]})
            state = 0.9 * state + 0.3 * np.resize(action, size)
        dataset.save_episode()
    dataset.finalize()
    return root
