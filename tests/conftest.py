"""Tests work on small tensors, where a second thread only waits."""

from __future__ import annotations

import torch

from ptr_robot.train.cpu_bf16 import avoid_broken_tiles

torch.set_num_threads(1)
avoid_broken_tiles()  # here, and not where bfloat16 is first used: by then oneDNN has looked
