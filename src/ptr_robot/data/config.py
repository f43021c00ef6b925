"""Settings of the data: which datasets, in which shares, cut into which segments."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptr_robot.data.lerobot.frames import RESIZE_MODES
from ptr_robot.data.robots.normalisers import KINDS
from ptr_robot.data.robots.slots import NO_NORMALISER
from ptr_robot.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class SourceConfig:
    """One dataset of a mixture; names follow LeRobot's ``dataset`` flags."""

    # A hub id (owner/name) or the folder of a dataset.
    repo_id: str
    # The local folder of a hub id; by default LeRobot's own place.
    root: str | None = None
    # A branch, tag or commit of a hub id.
    revision: str | None = None
    # The episodes to use; by default all.
    episodes: list[int] | None = None
    # The share of this source among the samples; by default its share of all segments. All sources or none.
    weight: float | None = None
    # A built-in robot or the path of a YAML file; by default the one that the dataset's robot_type names.
    robot: str | None = None
    # The cameras in the order of the views, "none" for a view that this source lacks; by default all.
    image_keys: list[str] | None = None
    # The vector that holds the states.
    state_key: str = "observation.state"
    # The vector that holds the actions.
    action_key: str = "action"
    # q99, mean_std, min_max, binary or identity, for every dimension whose robot map does not say otherwise; or none:
    # raw values, whatever the robot map says.
    normaliser: str = "q99"

    def __post_init__(self) -> None:
        if self.episodes is not None and not self.episodes:
            raise ConfigError(
                f"{self.repo_id}: dataset.episodes is empty; name at least one episode, or leave it out to use all"
            )
        if self.weight is not None and not self.weight > 0:
            raise ConfigError(f"{self.repo_id}: weight is {self.weight}; it must be above 0")
        if self.normaliser not in (*KINDS, NO_NORMALISER):
            hint = did_you_mean(self.normaliser, (*KINDS, NO_NORMALISER))
            raise ConfigError(f"{self.repo_id}: there is no normaliser {self.normaliser!r}; {hint}")


@dataclass(frozen=True)
class DataConfig:
    """A mixture of sources, cut into segments of ``num_chunks`` consecutive chunks of ``chunk_length`` actions."""

    sources: list[SourceConfig] = field(default_factory=list)
    # L: actions in a chunk.
    chunk_length: int = 16
    # T: chunks in a segment.
    num_chunks: int = 4
    # Frames between the starts of two segments.
    stride: int = 1
    # Δ: frames from a chunk's start to its consequence; by default chunk_length.
    offset_steps: int | None = None
    # With it, each chunk's Δ is drawn from offset_steps to this, both included, the same in every epoch.
    offset_steps_max: int | None = None
    # Pixels of a square frame; 0 reads no pictures at all.
    image_size: int = 224
    # pad, stretch or crop.
    resize: str = "pad"
    # Where decoded frames are kept; by default ~/.cache/ptr_robot.
    cache_dir: str | None = None
    # Leave unusable episodes out and go on.
    skip_bad_episodes: bool = False

    def __post_init__(self) -> None:
        for name in ("chunk_length", "num_chunks", "stride"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.image_size < 0:
            raise ConfigError(f"image_size is {self.image_size}; it must be 0 (no pictures) or more")
        if self.resize not in RESIZE_MODES:
            hint = did_you_mean(self.resize, RESIZE_MODES)
            raise ConfigError(f"there is no resize mode {self.resize!r}; {hint}")
        low, high = self.offset_range
        if not 1 <= low <= high:
            raise ConfigError(f"the offset Δ goes from {low} to {high}; it must be at least 1 and not shrink")
        weighted = [source.repo_id for source in self.sources if source.weight is not None]
        if weighted and len(weighted) < len(self.sources):
            raise ConfigError(f"only {', '.join(weighted)} has a weight; give all sources one, or none")

    @property
    def offset_range(self) -> tuple[int, int]:
        """The smallest and the largest Δ."""
        low = self.chunk_length if self.offset_steps is None else self.offset_steps
        return low, low if self.offset_steps_max is None else self.offset_steps_max
