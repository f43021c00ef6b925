"""Every setting of ``ptr collect`` says what it is for."""

from __future__ import annotations

import re

import pytest

from ptr_robot.cli.collect import CollectConfig, main
from ptr_robot.cli.flags import flag_names, parse_flags
from ptr_robot.envs.base import CameraConfig
from ptr_robot.envs.recording import RecordingConfig
from ptr_robot.errors import ConfigError


def test_help_explains_every_flag(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    names = list(flag_names(CollectConfig))
    for name in names:
        is_group = any(other.startswith(f"{name}.") for other in names)
        assert is_group or re.search(rf" --{re.escape(name)} \S+ \w", text), name


def test_lengths_are_matched_by_the_command_as_by_the_library():
    assert CollectConfig().match_lengths is RecordingConfig.match_lengths is True


def test_a_light_that_the_environment_lacks_is_refused_before_anything_is_recorded(tmp_path):
    with pytest.raises(ConfigError, match=r"Meta-World is rendered in one light alone; leave out --env\.full_light"):
        main([str(tmp_path / "new"), "--env.full_light=true", "--episodes=1"])
    assert list(tmp_path.iterdir()) == []


def test_the_light_is_that_of_the_flag():
    for flags, is_full in (([], False), (["--env.full_light"], True)):
        env = parse_flags(CollectConfig, ["--env.type=libero", *flags]).env
        assert env.cameras() == CameraConfig(("image", "image2"), 96, is_full)
