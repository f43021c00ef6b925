"""The assets are downloaded whole: what was interrupted goes on, and what is still missing is said."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest

from ptr_robot.envs.libero import installation, prepare
from ptr_robot.errors import DataError

FILES = [f"{folder}/part/model.xml" for folder in installation._ASSET_FOLDERS]


class Hub:
    """Has the assets, and sends those of its files that are ``sent``."""

    def __init__(self) -> None:
        self.sent = FILES
        self.is_reached = True
        self.asked: list[tuple[str, str, Path]] = []

    def dataset_info(self, repository: str) -> SimpleNamespace:
        if not self.is_reached:
            raise ConnectionError("offline\nand more")
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in FILES])

    def snapshot_download(self, repository: str, *, repo_type: str, local_dir: Path) -> str:
        sys.stdout.write("fetching")
        self.asked.append((repository, repo_type, local_dir))
        for name in self.sent:
            (local_dir / name).parent.mkdir(parents=True, exist_ok=True)
            (local_dir / name).write_text("<mujoco/>")
        return str(local_dir)


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Hub:
    hub = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    monkeypatch.setattr(installation, "_DOWNLOADED_ASSETS", tmp_path / "assets")
    return hub


def test_an_interrupted_download_is_completed(hub, tmp_path, capsys):
    for name in FILES[:-1]:  # four folders, for which hf-libero's own function stops
        (tmp_path / "assets" / name).parent.mkdir(parents=True)
    assert prepare._download() == (tmp_path / "assets").resolve()
    assert hub.asked == [(prepare.REPOSITORY, "dataset", tmp_path / "assets")]
    assert capsys.readouterr().out == ""


def test_a_file_that_did_not_come_is_named(hub, tmp_path):
    hub.sent = FILES[:3]
    with pytest.raises(DataError, match=rf"2 of 5 files are still missing, {FILES[3]} .*make libero DOWNLOAD=1"):
        prepare._download()


def test_a_hub_that_is_not_reached_is_no_whole_download(hub, tmp_path):
    """Its client would take the folder that is there and say nothing."""
    hub.snapshot_download(prepare.REPOSITORY, repo_type="dataset", local_dir=tmp_path / "assets")
    hub.is_reached = False
    with pytest.raises(
        DataError, match=r"could not be downloaded to .*ConnectionError: offline\).*go on with"
    ) as caught:
        prepare._download()
    assert "\n" not in str(caught.value)


@pytest.mark.libero
def test_the_repository_and_the_folder_are_hf_liberos():
    text = (installation.package_root() / "utils" / "download_utils.py").read_text()
    assert re.search(r'^HF_ASSETS_REPO_ID = "(.*)"$', text, re.MULTILINE)[1] == prepare.REPOSITORY
    assert 'expanduser("~"), ".cache", "libero", "assets"' in text
    assert installation.downloaded_assets() == Path("~/.cache/libero/assets").expanduser()


def test_an_unknown_flag_is_one_line(capsys):
    assert prepare.main(["--dwnload"]) == 1
    assert capsys.readouterr().err == "error: there is no flag --dwnload; the only one is --download\n"
