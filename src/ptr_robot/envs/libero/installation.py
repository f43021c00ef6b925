"""Where hf-libero and its assets are, and an import of it that asks nothing and prints nothing."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from ptr_robot.envs.offscreen import choose_backend
from ptr_robot.errors import DataError, MissingExtraError

ASSETS_VARIABLE = "PTR_ROBOT_LIBERO_ASSETS"
_CONFIG_VARIABLE = "LIBERO_CONFIG_PATH"
_DOWNLOADED_ASSETS = Path("~/.cache/libero/assets")
# What every suite needs; a folder without one of these is not (all of) the assets.
_ASSET_FOLDERS = (
    "articulated_objects",
    "scenes",
    "stable_hope_objects",
    "stable_scanned_objects",
    "turbosquid_objects",
)


def package_root() -> Path:
    """The folder of hf-libero's tasks and initial states, found without importing it."""
    spec = importlib.util.find_spec("libero")
    locations = list(spec.submodule_search_locations or []) if spec is not None else []
    root = next((Path(place) / "libero" for place in locations if (Path(place) / "libero").is_dir()), None)
    if root is None:
        raise MissingExtraError("LIBERO (hf-libero) is not installed; install it with: make libero")
    return root


def find_assets() -> Path:
    """The folder of meshes and scenes: the variable's, a link in the package, or hf-libero's own download."""
    named = os.environ.get(ASSETS_VARIABLE)
    if named:
        return check_assets(Path(named), f"{ASSETS_VARIABLE}={named}")
    for place in (package_root() / "assets", downloaded_assets()):
        if place.is_dir():
            return check_assets(place, str(place))
    raise DataError(
        f"LIBERO's meshes are not here (hf-libero ships none); set {ASSETS_VARIABLE} to a folder that has them, "
        "or download them with: make libero DOWNLOAD=1"
    )


def downloaded_assets() -> Path:
    """Where hf-libero's own download puts the assets."""
    return _DOWNLOADED_ASSETS.expanduser()


def check_assets(folder: Path, name: str) -> Path:
    """Refuse a folder that lacks some of the assets."""
    missing = [part for part in _ASSET_FOLDERS if not _holds_files(folder / part)]
    if missing:
        raise DataError(
            f"{name}: not a folder of all of LIBERO's assets, {', '.join(missing)} is missing in it or holds no file; "
            f"set {ASSETS_VARIABLE} to one that has them, or download them with: make libero DOWNLOAD=1"
        )
    return folder.resolve()


def _holds_files(folder: Path) -> bool:
    """Whether there is a file anywhere below: a download that was stopped leaves empty folders."""
    return any(files for _, _, files in os.walk(folder, followlinks=True))


def write_config() -> Path:
    """The settings file without which importing LIBERO asks on standard input; one that exists stays as it is."""
    folder = Path(os.environ.get(_CONFIG_VARIABLE) or Path("~/.libero").expanduser())
    path = folder / "config.yaml"
    if path.is_file():
        return path
    root = package_root()
    places = {
        "assets": root / "assets",
        "bddl_files": root / "bddl_files",
        "benchmark_root": root,
        "datasets": root.parent / "datasets",
        "init_states": root / "init_files",
    }
    partial = folder / f".config.yaml.partial-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial.write_text("".join(f"{key}: {place}\n" for key, place in places.items()))
        partial.replace(path)
    except OSError as error:
        raise DataError(
            f"{path} could not be written ({error}), and LIBERO needs it; set {_CONFIG_VARIABLE} to another folder"
        ) from error
    return path


def import_libero(module: str = "libero.libero") -> ModuleType:
    """Import a module of hf-libero, with its settings file written and its assets found before."""
    assets = find_assets()
    write_config()
    choose_backend()
    try:
        with _quietly():
            vars(importlib.import_module("libero.libero"))["_assets_path_cache"] = str(assets)
            return importlib.import_module(module)
    except PermissionError as error:
        raise DataError(f"{error.filename}: robosuite writes its log there and may not ({error.strerror})") from error
    except ImportError as error:
        raise MissingExtraError(f"{module} could not be imported ({error}); install it with: make libero") from error


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """robosuite warns of a missing settings file at its import, and LIBERO prints which task order it takes.

    The warning goes to two places: a handler of robosuite's own, and those that other packages gave to all loggers.
    """
    logger = logging.getLogger("robosuite_logs")
    before, logger.disabled = logger.disabled, True
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.disabled = before
