"""The errors a user may meet: each message says what was wrong, where, and what to do."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class PTRError(Exception):
    """Base of every error that this package raises on purpose; it is one line, whatever a library had to say."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split("\n")).strip()


class ConfigError(PTRError, ValueError):
    """A setting is out of range, misspelt, or at odds with another setting."""


class ShapeError(PTRError, ValueError):
    """A tensor does not have the shape that its place asks for."""


class NonFiniteError(PTRError, FloatingPointError):
    """A feature, a target or a loss is NaN or infinite."""


class DataError(PTRError, ValueError):
    """A dataset, an episode or a file of one cannot be used as it is."""


class MissingExtraError(PTRError, ImportError):
    """A part of the package needs an optional dependency that is not installed."""


def require(module: str, extra: str) -> ModuleType:
    """Import ``module``, or say which extra of this package brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is not installed ({error}); install it with: pip install 'ptr-robot[{extra}]'"
        ) from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint to append to an error about an unknown ``name``: the closest known one, or all of them."""
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"choose one of: {', '.join(options)}"
