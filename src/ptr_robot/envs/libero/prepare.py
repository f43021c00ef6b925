"""``python -m ptr_robot.envs.libero.prepare``: what ``make libero`` does once the package is installed."""

from __future__ import annotations

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
from ptr_robot.errors import DataError, PTRError

_DOWNLOAD = "--download"


def prepare(download: bool) -> list[str]:
    """Write the settings file and make the assets known to LIBERO itself; one line for each."""
    lines = [f"settings: {write_config()}"]
    assets = _download() if download else find_assets()
    return [*lines, f"assets: {assets}", _link(assets)]


def _download() -> Path:
    """Fetch the assets as hf-libero does, to where it looks for them."""
    import importlib

    try:
        module = importlib.import_module("libero.libero.utils.download_utils")
        module.download_assets_from_huggingface()
    except Exception as error:  # the hub's client raises many kinds
        reason = str(error).splitlines()[0]
        raise DataError(f"LIBERO's assets could not be downloaded ({type(error).__name__}: {reason})") from error
    return check_assets(downloaded_assets(), str(downloaded_assets()))


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
