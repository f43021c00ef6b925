"""What is missing is said in one line; what LIBERO would ask is answered before it asks."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ptr_robot.envs.libero import installation
from ptr_robot.errors import DataError, MissingExtraError

pytestmark = pytest.mark.libero


def test_a_missing_package_names_the_command(monkeypatch):
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"hf-libero.*make libero"):
        installation.package_root()


def test_missing_assets_name_the_variable_and_the_download(monkeypatch, tmp_path):
    monkeypatch.delenv(installation.ASSETS_VARIABLE, raising=False)
    monkeypatch.setattr(installation, "package_root", lambda: tmp_path)
    monkeypatch.setattr(installation, "_DOWNLOADED_ASSETS", tmp_path / "none")
    with pytest.raises(DataError, match=r"PTR_ROBOT_LIBERO_ASSETS.*make libero DOWNLOAD=1") as caught:
        installation.find_assets()
    assert "\n" not in str(caught.value)


def test_a_folder_without_the_assets_is_refused_by_name(monkeypatch, tmp_path):
    (tmp_path / "scenes").mkdir()
    monkeypatch.setenv(installation.ASSETS_VARIABLE, str(tmp_path))
    with pytest.raises(DataError, match=r"articulated_objects.*is missing in it"):
        installation.find_assets()


def test_a_folder_of_empty_folders_is_refused(tmp_path):
    for name in installation._ASSET_FOLDERS:
        (tmp_path / name / "part").mkdir(parents=True)
        (tmp_path / name / "part" / "model.xml").touch()
    assert installation.check_assets(tmp_path, "here") == tmp_path.resolve()
    (tmp_path / "scenes" / "part" / "model.xml").unlink()
    with pytest.raises(
        DataError, match=r"here: .*, scenes is missing in it or holds no file; .*make libero DOWNLOAD=1"
    ):
        installation.check_assets(tmp_path, "here")


def test_the_settings_file_is_written_once_and_then_left_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(tmp_path / "settings"))
    path = installation.write_config()
    places = yaml.safe_load(path.read_text())
    assert set(places) == {"assets", "bddl_files", "benchmark_root", "datasets", "init_states"}
    assert Path(places["bddl_files"]).is_dir()
    assert Path(places["init_states"]).is_dir()
    path.write_text("mine: 1\n")
    assert installation.write_config().read_text() == "mine: 1\n"


def test_a_settings_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(tmp_path / "file"))
    with pytest.raises(DataError, match="LIBERO_CONFIG_PATH"):
        installation.write_config()
