"""The local folder of a dataset; a hub id is fetched into LeRobot's own place, and an interrupted fetch goes on."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.files import atomic_file, process_lock
from ptr_robot.text_files import read_json_object

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
# Written when a fetch starts and again when it ends; huggingface_hub, too, keeps its notes under .cache.
FETCH_FILE = ".cache/ptr_robot/fetch.json"


def find_folder(dataset: str | Path, root: str | Path | None = None, revision: str | None = None) -> Path:
    """The local folder of a dataset; a hub id is fetched unless it is there, whole and of that revision."""
    local = Path(root if root is not None else dataset).expanduser()
    is_hub_id = isinstance(dataset, str) and HUB_ID.fullmatch(dataset) is not None
    if _is_dataset(local) and (root is None or not is_hub_id):
        if revision is not None:
            raise ConfigError(f"{local} is a folder, and the revision {revision!r} one of a hub id; leave it out")
        return local
    if local.is_dir() and root is None:
        raise DataError(f"{local}: no meta/info.json here; give the folder of one LeRobot dataset")
    if isinstance(dataset, Path) or not is_hub_id:
        raise DataError(f"{dataset}: no such folder, and not a hub id of the form owner/name")
    folder = local if root is not None else _lerobot_home() / dataset
    if not _is_fetched(folder, revision):
        _fetch(dataset, folder, revision)
    return folder


def _is_dataset(folder: Path) -> bool:
    return (folder / "meta" / "info.json").is_file()


def _lerobot_home() -> Path:
    """Where LeRobot keeps datasets; spelt out because importing LeRobot takes seconds."""
    cache = os.environ.get("HF_HOME", str(Path("~/.cache/huggingface").expanduser()))
    return Path(os.environ.get("HF_LEROBOT_HOME", str(Path(cache) / "lerobot"))).expanduser()


def _is_fetched(folder: Path, revision: str | None) -> bool:
    """Whether the folder can be used as it is; one of another revision must not pass for the one asked for."""
    if not _is_dataset(folder):
        return False
    record = folder / FETCH_FILE
    if not record.is_file():
        if revision is not None:
            raise ConfigError(
                f"{folder}: nothing says of which revision this folder is, and {revision!r} is asked for; "
                "leave the revision out or set root to another folder"
            )
        return True
    fetched = read_json_object(record, "remove the folder, and it is fetched again")
    if not {"revision", "is_complete"} <= fetched.keys():
        raise DataError(f"{record}: fields are missing; remove the folder, and it is fetched again")
    if fetched["revision"] != revision:
        raise ConfigError(
            f"{folder}: holds the revision {fetched['revision'] or 'main'!r}, and {revision or 'main'!r} is asked for; "
            "set root to another folder or remove this one"
        )
    return bool(fetched["is_complete"])


def _fetch(repo_id: str, folder: Path, revision: str | None) -> None:
    """Ask the hub first: without a network its ``snapshot_download`` returns a folder that is there in part."""
    hub = require("huggingface_hub", "lerobot")
    try:
        commit = hub.HfApi().dataset_info(repo_id, revision=revision).sha
        with process_lock(folder):  # of several ranks, the first one fetches
            if _is_fetched(folder, revision):
                return
            _write_record(folder, repo_id, revision, is_complete=False)
            hub.snapshot_download(repo_id, repo_type="dataset", revision=commit, local_dir=folder)
            _write_record(folder, repo_id, revision, is_complete=True)
    except (OSError, ValueError) as error:
        is_unreachable = type(error).__module__.startswith("requests.")  # whose words are those of its sockets
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        reason = "it cannot be reached from here" if is_unreachable else f"{first_line:.160}"
        state = "only in part in" if _is_dataset(folder) else "no such folder here, not in"
        raise DataError(f"{repo_id}: {state} {folder}, and the hub did not give it ({reason})") from error


def _write_record(folder: Path, repo_id: str, revision: str | None, *, is_complete: bool) -> None:
    record = {"repo_id": repo_id, "revision": revision, "is_complete": is_complete}
    with atomic_file(folder / FETCH_FILE) as file:
        file.write(json.dumps(record).encode())
