"""Posterior-Transition Reweighting in plain PyTorch: torch and numpy are all it needs."""

from ptr_robot.method.accumulation import WeightedAccumulation
from ptr_robot.method.belief import BeliefTokenizer
from ptr_robot.method.config import (
    BeliefConfig,
    ControllerConfig,
    PoolConfig,
    PTRConfig,
    ScorerConfig,
    TargetConfig,
    WeightConfig,
)
from ptr_robot.method.diagnostics import Diagnostics, diagnose
from ptr_robot.method.ptr import PTR
from ptr_robot.method.targets import EMATargetEncoder, make_targets
from ptr_robot.method.types import ChunkForward, PTROutput, Samples
from ptr_robot.method.weights import ExponentialWeightMap, WeightMap

__all__ = [
    "PTR",
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
    "TargetConfig",
    "WeightConfig",
    "WeightMap",
    "WeightedAccumulation",
    "diagnose",
    "make_targets",
]
