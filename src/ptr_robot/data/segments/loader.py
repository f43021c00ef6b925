"""Batches of segments from worker processes, in an order that can be stopped, resumed and shared over ranks."""

from __future__ import annotations

import dataclasses
import multiprocessing
import multiprocessing.util
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from ptr_robot.data.config import DataConfig
from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.data.segments.sampling import BatchPlan, EpochOrder, WeightedOrder
from ptr_robot.data.segments.source import Source
from ptr_robot.errors import ConfigError, PTRError
from ptr_robot.files import fingerprint, forget_unfinished_files, remove_unfinished_files


class LostWorkerError(PTRError, RuntimeError):
    """A process that reads the data has ended."""


class SegmentLoader:
    """Iterating gives the rest of the current epoch; the next iteration is the next epoch.

    The state is what was handed out, not what workers fetched ahead, so a resumed run continues with the very
    next batch and decodes nothing of what it skips.
    """

    def __init__(
        self, dataset: SegmentDataset, plan: BatchPlan, num_workers: int = 0, pin_memory: bool = False
    ) -> None:
        self.dataset = dataset
        self.plan = plan
        self.epoch = 0
        self.batches_done = 0
        self.episode_weights: NDArray[np.float64] | None = None  # by which segments are drawn
        self._max_batches: int | None = None
        self._sampler = _EpochBatches(plan)
        workers = _Workers(owner=self) if num_workers else None
        self._loader: DataLoader[SegmentBatch | PTRError] = DataLoader(
            _ErrorsAsValues(dataset),  # type: ignore[arg-type]
            batch_size=None,
            sampler=self._sampler,
            num_workers=num_workers,
            pin_memory=pin_memory,
            persistent_workers=num_workers > 0,
            collate_fn=_as_it_is,
            worker_init_fn=workers.start if workers else None,
        )

    def __len__(self) -> int:
        """Batches in a whole epoch."""
        return self.plan.num_batches

    def __iter__(self) -> Iterator[SegmentBatch]:
        self._sampler.start_at(self.epoch, self.batches_done)
        for batch in _from_workers(self._loader):
            self.batches_done += 1
            yield batch
        self.epoch, self.batches_done = self.epoch + 1, 0

    @property
    def position(self) -> tuple[int, int]:
        """The epoch, and how many of its batches were handed out."""
        return self.epoch, self.batches_done

    @position.setter
    def position(self, value: tuple[int, int]) -> None:
        self.epoch, self.batches_done = value

    def draw_by(self, episode_weights: NDArray[np.float64], max_batches: int | None = None) -> None:  # (episodes,)
        """From the next epoch on, segments come in proportion to their episode's weight.

        An epoch then ends after ``max_batches`` at most, and weights that move may be given anew.
        """
        order = self.plan.order.plain if isinstance(self.plan.order, WeightedOrder) else self.plan.order
        segment_weights = self.dataset.segment_weights(episode_weights)
        max_length = None if max_batches is None else max_batches * self.plan.global_batch_size
        self.plan = dataclasses.replace(self.plan, order=WeightedOrder(order, segment_weights, max_length))
        self.episode_weights, self._max_batches = episode_weights, max_batches
        self._sampler.plan = self.plan

    def state_dict(self) -> dict[str, Any]:
        """Where the data stands, and what must be the same for it to go on from there."""
        weights = None if self.episode_weights is None else self.episode_weights.tolist()
        position = {"epoch": self.epoch, "batches_done": self.batches_done, "episode_weights": weights}
        return {**position, **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state``; the number of ranks may differ as long as the global batch does not."""
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise ConfigError(f"cannot resume the data: {name} was {state.get(name)} and is now {value}")
        self.epoch, self.batches_done = int(state["epoch"]), int(state["batches_done"])
        if (weights := state.get("episode_weights")) is not None:  # those that the epoch was drawn by
            known = self.episode_weights
            if self._max_batches is None and (known is None or weights != known.tolist()):
                raise ConfigError("cannot resume the data: episodes were drawn by other weights; bring them back")
            self.draw_by(np.array(weights), self._max_batches)

    def _identity(self) -> dict[str, Any]:
        order, layout = self.plan.order, self.dataset.layout
        is_drawn = isinstance(order, WeightedOrder)
        order = order.plain if isinstance(order, WeightedOrder) else order
        return {
            "sources": [_describe(source) for source in self.dataset.sources],
            "chunk_length": layout.chunk_length,
            "num_chunks": layout.num_chunks,
            "stride": layout.stride,
            "offset_steps": list(layout.offset_range),
            "global_batch_size": self.plan.global_batch_size,
            "counts": list(order.counts),
            "weights": None if order.weights is None else list(order.weights),
            "seed": order.seed,
            "shuffle": order.shuffle,
            **({"draw_batches": self._max_batches} if is_drawn else {}),
        }


def _describe(source: Source) -> str:
    """What a source holds, wherever it lies: a dataset that was moved is still the same."""
    episodes = [(episode.episode_index, episode.first_index, episode.length) for episode in source.index.episodes]
    keys = (source.config.state_key, source.config.action_key)
    statistics = [source.tables.statistics(part).to_dict() for part in ("states", "actions")]
    content = fingerprint(episodes, keys, statistics)[:8]
    return f"{len(episodes)} episodes, {source.index.num_frames} frames ({content})"


def read_blocks(
    dataset: SegmentDataset, blocks: Sequence[Sequence[int]], num_workers: int = 0
) -> Iterator[SegmentBatch]:
    """The segments of each block as a batch, in order, read ahead by worker processes."""
    owner = _ErrorsAsValues(dataset)
    workers = _Workers(owner) if num_workers else None
    loader: DataLoader[SegmentBatch | PTRError] = DataLoader(
        owner,  # type: ignore[arg-type]
        batch_size=None,
        sampler=blocks,
        num_workers=num_workers,
        collate_fn=_as_it_is,
        worker_init_fn=workers.start if workers else None,
    )
    try:
        yield from _from_workers(loader)
    finally:
        if workers:
            workers.may_end.set()


def _from_workers(loader: DataLoader[SegmentBatch | PTRError]) -> Iterator[SegmentBatch]:
    """The batches of a loader; an error, and the loss of a worker, are raised here and nowhere else.

    torch would raise the loss at once, wherever the process is, in the middle of an optimiser's step too. Without its
    handler the loader notices when it waits for the worker's batch.
    """
    handler = signal.getsignal(signal.SIGCHLD)
    batches = iter(loader)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, handler or signal.SIG_DFL)
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except (RuntimeError, ConnectionError, EOFError, FileNotFoundError) as error:  # torch's own, or of its sockets
            is_of_workers = not isinstance(error, RuntimeError) or "DataLoader worker" in str(error)
            if isinstance(error, PTRError) or not loader.num_workers or not is_of_workers:
                raise
            raise LostWorkerError(
                "a process that reads the data was killed, perhaps for want of memory; give it more, or lower "
                "--num_workers"
            ) from error
        if isinstance(batch, PTRError):
            raise batch
        yield batch


class _ErrorsAsValues:
    """Hands an expected error over as a value.

    Raised in a worker it would arrive wrapped in the worker's traceback; as a value it is raised by the loader, one
    line whatever the number of workers.
    """

    def __init__(self, dataset: SegmentDataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, numbers: Sequence[int]) -> SegmentBatch | PTRError:
        try:
            return self.dataset[numbers]
        except PTRError as error:
            return error


class _EpochBatches:
    """The sampler of torch's DataLoader: the rest of one epoch as lists of segment numbers."""

    def __init__(self, plan: BatchPlan) -> None:
        self.plan = plan
        self.start_at(0, 0)

    def start_at(self, epoch: int, first: int) -> None:
        self.epoch, self.first = epoch, first

    def __iter__(self) -> Iterator[Sequence[int]]:
        return (batch for batch in self.plan.batches(self.epoch, self.first) if len(batch))

    def __len__(self) -> int:
        return self.plan.num_batches - self.first


def _as_it_is(batch: Any) -> Any:
    """The dataset gives whole batches; a named function, since workers must be able to find it."""
    return batch


class _Workers:
    """When the workers of a loader end: not by a stop that reaches the whole process group, but by their parent.

    They must not take the data away from the step that is being finished. The parent notes that they may end when it
    closes the loader or leaves, before torch or ``multiprocessing`` terminates them.
    """

    def __init__(self, owner: object) -> None:
        self.may_end = multiprocessing.Event()
        multiprocessing.util.Finalize(owner, self.may_end.set, exitpriority=0)  # when it is gone, or at the end

    def start(self, _: int) -> None:
        """What a worker does first."""
        forget_unfinished_files()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> None:
        """At once: leaving in order, a worker could wait for a queue that nobody reads any more."""
        if self.may_end.is_set():
            remove_unfinished_files()
            os._exit(0)


def make_loader(
    config: DataConfig,
    batch_size: int,
    *,
    seed: int = 0,
    episode_weights: NDArray[np.float64] | None = None,  # (episodes,) by which segments are drawn; None: all alike
    **options: Any,
) -> SegmentLoader:
    """Open the sources of ``config`` and give their segments in batches; the options are those of ``load_segments``."""
    dataset = SegmentDataset(config, seed, episode_weights=episode_weights)
    return load_segments(dataset, batch_size, seed=seed, episode_weights=episode_weights, **options)


def load_segments(
    dataset: SegmentDataset,
    batch_size: int,
    *,
    seed: int = 0,
    num_workers: int = 0,
    shuffle: bool = True,
    drop_last: bool = True,
    rank: int = 0,
    world_size: int = 1,
    pin_memory: bool = False,
    episode_weights: NDArray[np.float64] | None = None,  # (episodes,) by which segments are drawn; None: all alike
) -> SegmentLoader:
    """The segments of a dataset in batches of ``batch_size`` a rank."""
    given = [source.config.weight for source in dataset.sources]
    weights = tuple(weight for weight in given if weight is not None)
    order = EpochOrder(dataset.counts, weights or None, seed, shuffle)
    plan = BatchPlan(order, batch_size, rank, world_size, drop_last)
    loader = SegmentLoader(dataset, plan, num_workers, pin_memory)
    if episode_weights is not None:
        loader.draw_by(episode_weights)
    return loader
