"""``python -m ptr_robot.envs.libero.prepare``: what ``make libero`` does once the package is installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from ptr_robot.envs.libero.installation import (
    check_assets,
    downloaded_assets,
    find_assets,
    package_root,
    write_config,
)
from ptr_robot.errors import DataError, PTRError, require

REPOSITORY = "lerobot/libero-assets"  # a dataset of the hub, from which hf-libero, too, downloads
_DOWNLOAD = "--download"


def prepare(download: bool) -> list[str]:
    """Write the settings file and make the assets known to LIBERO itself; one line for each."""
    lines = [f"settings: {write_config()}"]
    assets = _download() if download else find_assets()
    return [*lines, f"assets: {assets}", _link(assets)]


def _download() -> Path:
    """Fetch what is missing of the assets, to where hf-libero looks for them.

    hf-libero's own function takes four folders, whatever is in them, for all of it, and never goes on with a download
    that was interrupted.
    """
    folder = downloaded_assets()
    hub = require("huggingface_hub", "lerobot")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for what was prepared
            # Asked for first: where the hub does not answer, its client takes a folder that is there for a whole one.
            expected = hub.HfApi().dataset_info(REPOSITORY).siblings or ()
            hub.snapshot_download(REPOSITORY, repo_type="dataset", local_dir=folder)
    except Exception as error:  # the hub's client raises many kinds
        reason = (str(error).splitlines() or [""])[0]
        raise DataError(
            f"LIBERO's assets could not be downloaded to {folder} ({type(error).__name__}: {reason}); what is there "
            "stays: go on with make libero DOWNLOAD=1"
        ) from error
    _check_complete(folder, [file.rfilename for file in expected])
    return check_assets(folder, str(folder))


def _check_complete(folder: Path, names: Sequence[str]) -> None:
    """A file has its name once it is whole; until then the hub's client keeps it elsewhere."""
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise DataError(
            f"{folder}: {len(missing)} of {len(names)} files are still missing, {missing[0]} among them; "
            "go on with: make libero DOWNLOAD=1"
        )


def _link(assets: Path) -> str:
    """Link the assets into the package, where LeRobot's environment, too, finds them."""
    link = package_root() / "assets"
    if link.resolve() == assets:
        return f"link: {link}"
    if link.exists():
        return f"link: none, since {link} is there already and LeRobot's environment takes it"
    try:
        link.unlink(missing_ok=True)  # one that leads nowhere
        link.symlink_to(assets)
    except OSError as error:
        return f"link: none ({error.strerror}); LeRobot's own environment needs the assets at {link}"
    return f"link: {link}"


def main(arguments: Sequence[str]) -> int:
    """Prepare, and say what was done or what is missing."""
    try:
        unknown = [argument for argument in arguments if argument != _DOWNLOAD]
        if unknown:
            raise DataError(f"there is no flag {unknown[0]}; the only one is {_DOWNLOAD}")
        sys.stdout.write("\n".join(prepare(_DOWNLOAD in arguments)) + "\n")
    except PTRError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
