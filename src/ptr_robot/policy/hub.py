"""Published policies: a folder here, or one fetched from the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path

from ptr_robot.errors import DataError, require

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_FILES = ["*.json", "*.txt", "*.safetensors", "*.jinja"]  # nothing that would have to be unpickled or run


def local_folder(path: Path) -> Path:
    """The folder itself where it exists; otherwise, for a name such as owner/name, its copy from the hub."""
    if path.exists() or not HUB_ID.fullmatch(str(path)):
        return path
    hub = require("huggingface_hub", "lerobot")
    errors = require("huggingface_hub.errors", "lerobot")
    try:
        return Path(hub.snapshot_download(str(path), allow_patterns=_FILES))
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, errors.HFValidationError, OSError) as error:
        reason = " ".join(str(error).split())[:160]
        raise DataError(
            f"{path}: no such folder, and nothing of that name could be fetched from the hub ({reason}); check the "
            "name and the network"
        ) from error
