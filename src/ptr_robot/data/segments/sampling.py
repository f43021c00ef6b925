"""Which segments come when: shuffled by (seed, epoch), mixed in stated shares or drawn by weight, cut into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptr_robot.errors import ConfigError


@dataclass(frozen=True)
class EpochOrder:
    """The order of segment numbers in any epoch; source ``i`` owns the ``counts[i]`` numbers after its forerunners.

    An epoch is as long as all sources together. With weights a source gives its share of it: a small one starts
    over, a large one goes on in the next epoch where it stopped, so no segment comes twice before all came once.
    """

    counts: tuple[int, ...]
    weights: tuple[float, ...] | None = None
    seed: int = 0
    shuffle: bool = True

    @property
    def length(self) -> int:
        """Segments in an epoch."""
        return sum(self.counts)

    def shares(self) -> list[int]:
        """Segments that each source gives to an epoch, by largest remainder."""
        if self.weights is None:
            return list(self.counts)
        exact = np.array(self.weights) / sum(self.weights) * self.length
        shares = np.floor(exact).astype(np.int64)
        for source in np.argsort(shares - exact, kind="stable")[: self.length - int(shares.sum())]:
            shares[source] += 1
        return [int(share) for share in shares]

    def epoch(self, number: int) -> NDArray[np.int64]:
        """The segment numbers of that epoch, in order; the same on every process."""
        firsts = np.cumsum([0, *self.counts])
        parts = [
            firsts[source] + self._stretch(source, number * share, share) for source, share in enumerate(self.shares())
        ]
        order: NDArray[np.int64] = np.concatenate(parts)  # (length,)
        if self.shuffle and len(self.counts) > 1:
            np.random.default_rng((self.seed, number, 1)).shuffle(order)
        return order

    def _stretch(self, source: int, start: int, size: int) -> NDArray[np.int64]:
        """``size`` numbers from ``start`` on, of the endless stream of one source's rounds."""
        count = self.counts[source]
        rounds = range(start // count, -(-(start + size) // count))
        stream = [self._round(source, number) for number in rounds]
        if not stream:
            return np.zeros(0, dtype=np.int64)
        skipped = start - rounds.start * count
        return np.concatenate(stream)[skipped : skipped + size]

    def _round(self, source: int, number: int) -> NDArray[np.int64]:
        if not self.shuffle:
            return np.arange(self.counts[source])
        return np.random.default_rng((self.seed, number, 2, source)).permutation(self.counts[source])


@dataclass(frozen=True)
class WeightedOrder:
    """Segments drawn in proportion to a weight, where the loss stays plain: batches are full and q(x) ∝ p(x) w(x).

    p are the shares of the sources, each uniform over its segments. The draw is systematic: in an epoch a segment comes
    as often as it is expected to, rounded up or down at random, so that weights alone make it come more or less often.
    Shorter draws go round the same wheel until they are as many segments as an epoch has, so that this holds of them
    together while their weights stay.
    """

    plain: EpochOrder
    segment_weights: NDArray[np.float64]  # (all segments,)
    max_length: int | None = None  # segments until the next draw, where weights move in training; None: an epoch

    def __post_init__(self) -> None:
        if len(self.segment_weights) != self.plain.length:
            raise ConfigError(f"{len(self.segment_weights)} weights are given for {self.plain.length} segments")
        if not np.isfinite(self.segment_weights).all() or (self.segment_weights < 0).any():
            raise ConfigError("a segment's weight is negative or not finite; weights must be 0 or more")
        if not self.expected_counts().any():
            raise ConfigError("every segment weighs nothing; at least one weight must be above 0")

    @property
    def length(self) -> int:
        """Segments in an epoch."""
        return self.plain.length if self.max_length is None else min(self.plain.length, self.max_length)

    def expected_counts(self) -> NDArray[np.float64]:  # (all segments,)
        """How often each segment is expected in an epoch."""
        counts = np.array(self.plain.counts)
        given = self.plain.weights
        shares = counts if given is None else np.array(given) / sum(given) * self.plain.length
        masses = self.segment_weights * np.repeat(shares / np.maximum(counts, 1), counts)
        expected: NDArray[np.float64] = masses * (self.length / max(masses.sum(), np.finfo(np.float64).tiny))
        return expected

    def epoch(self, number: int) -> NDArray[np.int64]:
        """The segment numbers of that epoch, in order; the same on every process."""
        draws = -(-self.plain.length // self.length)  # that are an epoch together
        epoch, part = divmod(number, draws)
        random = np.random.default_rng((self.plain.seed, epoch, 3))
        segments = random.permutation(self.plain.length)
        edges = np.cumsum(self.expected_counts()[segments])
        edges *= self.length / edges[-1]  # the sum is rounded
        points = (random.random() + part) / draws + np.arange(self.length)
        drawn: NDArray[np.int64] = segments[np.searchsorted(edges, points, side="right").clip(max=len(segments) - 1)]
        random.shuffle(drawn)
        return drawn


@dataclass(frozen=True)
class BatchPlan:
    """Cuts an epoch into global batches, and a global batch into one contiguous part a rank.

    One process with batch ``2B`` therefore sees, step by step, what two ranks with batch ``B`` see together.
    """

    order: EpochOrder | WeightedOrder
    batch_size: int  # B, of one rank
    rank: int = 0
    world_size: int = 1
    drop_last: bool = True

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"batch_size is {self.batch_size}; it must be at least 1")
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(f"rank is {self.rank} of {self.world_size}; it must lie from 0 to world_size - 1")
        if self.drop_last and self.order.length < self.global_batch_size:
            raise ConfigError(
                f"the data has {self.order.length} segments and a global batch {self.global_batch_size}; "
                "lower batch_size, or give it more data"
            )

    @property
    def global_batch_size(self) -> int:
        """Segments of one step over all ranks."""
        return self.batch_size * self.world_size

    @property
    def num_batches(self) -> int:
        """Steps in an epoch; the last one may be smaller, or empty on some ranks, unless it is dropped."""
        whole = self.order.length // self.global_batch_size
        return whole if self.drop_last else -(-self.order.length // self.global_batch_size)

    def batches(self, epoch: int, first: int = 0) -> Iterator[Sequence[int]]:
        """This rank's batches of an epoch from the ``first`` on; skipping costs nothing."""
        order = self.order.epoch(epoch)
        for number in range(first, self.num_batches):
            start = number * self.global_batch_size + self.rank * self.batch_size
            yield order[start : start + self.batch_size].tolist()
