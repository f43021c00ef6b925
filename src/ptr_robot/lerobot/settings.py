"""The flags ``--policy.ptr.*``: every switch of PTR, and what a LeRobot policy needs besides."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptr_robot.errors import ConfigError
from ptr_robot.method import BeliefConfig, PTRConfig, in_proportion


@dataclass(frozen=True)
class PTRSettings(PTRConfig):
    """PTR's own settings with the paper's defaults, and those of its place inside a LeRobot policy."""

    # Off unless asked for: the exported policy is then LeRobot's own, and a step costs no more chunks.
    belief: BeliefConfig = field(default_factory=lambda: BeliefConfig(enabled=False))
    # Δ: frames from the present to the consequence; by default the actions that are executed before the next look.
    offset_steps: int | None = None
    # Consecutive chunks of one sample, which belief tokens need to learn from; by default 2 with belief, otherwise 1.
    num_chunks: int | None = None
    # Where the vision tower is cut: a number of blocks, or a module's name; by default half-way.
    block: str | None = None
    # The longer side of the images that targets are made of; larger ones are shrunk.
    target_pixels: int = 256
    # The run's --steps: warm-up, controller and EMA encoder then keep the paper's proportions, as in ptr train; by
    # default they are those of its 60,000 steps. Values that are given for them are scaled, too.
    run_steps: int | None = None
    # Learning rate of PTR's heads; by default the policy's.
    lr: float | None = None
    # A parquet file with index and weight (of ptr score): a factor on each frame's weight.
    prior_weights: str | None = None
    # The weight of frames that the file does not name; by default it must name all of them.
    fallback_weight: float | None = None
    # ptr_episodes.parquet of ptr score: episodes judged "drop" do not count, the others by their weight.
    verdicts: str | None = None
    # How many episodes the dataset has; filled in from the dataset, for weights.map=populations.
    num_episodes: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("offset_steps", "num_chunks", "target_pixels", "run_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"policy.ptr.{name} is {value}; it must be at least 1")
        if self.belief.enabled and self.num_chunks == 1:
            raise ConfigError(
                "policy.ptr.num_chunks is 1 with belief tokens on: what a chunk leaves behind is learnt from the next "
                "one; set it to 2 or more, or policy.ptr.belief.enabled=false"
            )
        if self.lr is not None and not self.lr > 0:
            raise ConfigError(f"policy.ptr.lr is {self.lr}; it must be above 0")
        if self.fallback_weight is not None and not self.fallback_weight >= 0:
            raise ConfigError(f"policy.ptr.fallback_weight is {self.fallback_weight}; it must be 0 or more")

    @property
    def chunks(self) -> int:
        """T: how many consecutive chunks a sample holds."""
        return self.num_chunks or (2 if self.belief.enabled else 1)

    @property
    def in_this_run(self) -> PTRSettings:
        """What is counted in steps brought to the run's length."""
        return self if self.run_steps is None else in_proportion(self, self.run_steps)

    @property
    def cut(self) -> int | str | None:
        """Where the vision tower is cut, as the target encoder takes it."""
        return int(self.block) if self.block is not None and self.block.isdecimal() else self.block


@dataclass(frozen=True)
class BelievingSettings(PTRSettings):
    """The same for the reference policy, which is made for belief tokens: they are on."""

    belief: BeliefConfig = field(default_factory=BeliefConfig)
