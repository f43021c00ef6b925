"""Functions that run as plain Python inside a compiled step."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def runs_eagerly(function: Function) -> Function:
    """``torch.compiler.disable``, applied once torch's compiler is there.

    Applying it at import would load the compiler, which takes longer than loading torch, in every program that never
    compiles anything. Until it is loaded there is nothing to be kept away from.
    """
    compiler_free: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return function(*arguments, **named)
        if not compiler_free:
            compiler_free.append(torch.compiler.disable(function))  # type: ignore[no-untyped-call]
        return compiler_free[0](*arguments, **named)

    return run  # type: ignore[return-value]
