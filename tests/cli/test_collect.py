"""Every setting of ``ptr collect`` says what it is for."""

from __future__ import annotations

import re

import pytest

from ptr_robot.cli.collect import CollectConfig, main
from ptr_robot.cli.flags import flag_names
from ptr_robot.envs.recording import RecordingConfig


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
