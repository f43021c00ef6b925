"""Posterior-Transition Reweighting in plain PyTorch: torch and numpy are all it needs."""

from ptr_robot.method.ptr.accumulation import WeightedAccumulation
from ptr_robot.method.ptr.algorithm import PTR
from ptr_robot.method.ptr.belief import BeliefTokenizer
from ptr_robot.method.ptr.config import (
    BeliefConfig,
    ControllerConfig,
    PoolConfig,
    PTRConfig,
    ScorerConfig,
    TargetConfig,
    WeightConfig,
)
from ptr_robot.method.ptr.diagnostics import Diagnostics, diagnose
from ptr_robot.method.ptr.run_length import in_proportion
from ptr_robot.method.ptr.targets import EMATargetEncoder, make_targets
from ptr_robot.method.ptr.weights import ExponentialWeightMap, WeightMap
from ptr_robot.method.scoring.config import ScreeningConfig
from ptr_robot.method.scoring.screen import SCREENING_CHANNELS, Screening, screen
from ptr_robot.method.scoring.transitions import Transitions
from ptr_robot.method.types import ChunkForward, PTROutput, Samples

__all__ = [
    "PTR",
    "SCREENING_CHANNELS",
    "BeliefConfig",
    "BeliefTokenizer",
    "ChunkForward",
    "ControllerConfig",
    "Diagnostics",
    "EMATargetEncoder",
    "ExponentialWeightMap",
    "PTRConfig",
    "PTROutput",
    "PoolConfig",
    "Samples",
    "ScorerConfig",
    "Screening",
    "ScreeningConfig",
    "TargetConfig",
    "Transitions",
    "WeightConfig",
    "WeightMap",
    "WeightedAccumulation",
    "diagnose",
    "in_proportion",
    "make_targets",
    "screen",
]
