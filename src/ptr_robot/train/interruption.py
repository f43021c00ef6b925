"""Ctrl-C and SIGTERM as a request: the step is finished and saved before the run ends."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType, TracebackType
from typing import Any

import torch

from ptr_robot.method.distributed import is_distributed, sum_over_ranks

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """While it is entered, the first signal is noted and the second one acts at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._process = os.getpid()
        self._previous: dict[signal.Signals, Any] = {}
        self.received: int | None = None

    def __enter__(self) -> StopRequest:
        heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._previous = {number: signal.signal(number, self._note) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def is_made(self) -> bool:
        """Whether any rank was asked to stop; every rank must ask at the same time, and all get the same answer."""
        if not is_distributed():
            return self.received is not None
        asked = torch.tensor([float(self.received is not None)], device=self._device)
        return bool(sum_over_ranks(asked).item() > 0)

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program that a signal ended."""
        return 128 + (self.received or signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if os.getpid() != self._process:  # a data worker: Ctrl-C reaches it too, and its parent decides when it ends
            if number == signal.SIGTERM:
                sys.exit(128 + number)
            return
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = number
