"""``ptr info DATASET``: what is in a dataset, and what is odd about it."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ptr_robot.cli.flags import parse_flags
from ptr_robot.errors import ConfigError


@dataclass(frozen=True)
class InfoFlags:
    """Show what is in a LeRobot dataset, and what is odd about it: ptr info DATASET."""

    dataset: str = ""  # folder (v2.1 or v3.0) or hub id; may be given as a bare word
    offset_steps: int = 16  # frames between a chunk and its observed consequence, for the count of missing futures
    robot: str | None = None  # built-in robot or YAML file of one's own; default: that of the dataset's robot_type
    state_key: str = "observation.state"  # the feature that holds the states
    action_key: str = "action"  # the feature that holds the actions
    json: bool = False  # print the same as JSON, for other programs


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    flags = parse_flags(InfoFlags, arguments, positional=("dataset",))
    if not flags.dataset:
        raise ConfigError("the dataset is missing: ptr info DATASET")
    from ptr_robot.cli.info_page import print_page
    from ptr_robot.data.inspect.summary import summarise
    from ptr_robot.data.lerobot.index import open_index

    keys = (flags.state_key, flags.action_key)
    summary = summarise(
        open_index(flags.dataset, skip_bad_episodes=True, may_be_empty=True, camera_keys=(), vector_keys=keys),
        offset_steps=flags.offset_steps,
        robot=flags.robot,
        state_key=flags.state_key,
        action_key=flags.action_key,
    )
    if flags.json:
        sys.stdout.write(json.dumps(dataclasses.asdict(summary), indent=2) + "\n")
    else:
        print_page(summary)
    return 0
