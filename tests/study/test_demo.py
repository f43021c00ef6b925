"""The demo's folder belongs to one process at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from ptr_robot.errors import ConfigError
from ptr_robot.study import demo
from ptr_robot.study.demo_plan import DemoConfig


def test_a_folder_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = DemoConfig(output_dir=str(tmp_path / "demo"), scale="smoke")

    def run_another(*_) -> None:
        demo.run_demo(config, Console(quiet=True), lambda _: None)

    monkeypatch.setattr(demo, "_collect", run_another)
    with pytest.raises(ConfigError, match="in use by another demo; wait for it or choose another --output_dir"):
        run_another()
