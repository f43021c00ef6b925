"""Tests work on small tensors, where a second thread only waits."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
