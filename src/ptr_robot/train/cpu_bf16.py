"""bfloat16 on processors that promise more than they can do.

Some virtual machines list Intel's tile instructions (AMX) and stop a program that uses one. oneDNN, which multiplies
torch's bfloat16 matrices, believes the list, and the run would end without a word.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
WITHOUT_TILES = "AVX512_CORE_BF16"
_TRIAL = "import torch; matrix = torch.ones(64, 64, dtype=torch.bfloat16); matrix @ matrix"


def avoid_broken_tiles() -> bool:
    """Tell oneDNN to leave tiles alone where they are broken; whether it was told.

    It must come before the first product of matrices in this process: oneDNN looks once. What the user has set stays.
    """
    if ISA_VARIABLE in os.environ or not _has_broken_tiles():
        return False
    os.environ[ISA_VARIABLE] = WITHOUT_TILES
    return True


@functools.cache
def _has_broken_tiles() -> bool:
    """Tried in a process of its own, and only where tiles are listed."""
    try:
        listed = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    if "amx_bf16" not in listed:
        return False
    return subprocess.run([sys.executable, "-c", _TRIAL], capture_output=True).returncode == -signal.SIGILL
