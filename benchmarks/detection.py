"""How well faulty episodes are found without labels: every registered scorer in one table, in one run.

    ptr collect sets/executed --images=false --operators='{steady: 2, brisk: 2, jittery: 1, hesitant: 1, wandering: 1}'
    ptr collect sets/clean --images=false --operators='{steady: 1, brisk: 1, careful: 1}'
    python benchmarks/detection.py sets/executed sets/clean
    python benchmarks/detection.py --scale          # seconds and memory of 300 to 10,000 made episodes

A dataset whose ground truth names faulty operators is judged as it is. One without faults gets the paper's corruptions
first, and faults injected into a third of its episodes; it is also judged as it is, to see how many good ones are lost.
With ``--add_faults`` that is done to every dataset; what was faulty before is left out of the comparison.
``--state_keys observation.state`` leaves out where the simulator's objects are, which no robot's dataset tells.
The first table has, by fault, the chance that a good episode is ranked above a faulty one of the same task (AUROC),
pooled over pairs of all datasets, and the interval of `ptr score`'s over tasks and datasets; the second what
`ptr score` drops. Nothing here trains a policy.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ptr_robot.data.corruptions import corrupt_dataset
from ptr_robot.data.ground_truth import read_ground_truth
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.method.scoring.injections import INJECTORS
from ptr_robot.method.scoring.quality import QualityConfig, assess
from ptr_robot.method.scoring.recordings import Recording, Recordings
from ptr_robot.method.scoring.verdicts import DROP, decide
from ptr_robot.scorers import EpisodeSet, Track, get_scorer, scorer_names
from ptr_robot.scorers.recordings import read_recordings, state_keys_of
from ptr_robot.study.spec.setting import CorruptionSettings

CHUNK_LENGTH = 16
NOT_COMPLETED = "not_completed"
CORRUPTIONS = {
    "noise σ=.1": CorruptionSettings("ani", fraction=0.3, sigma=0.1),
    "truncated": CorruptionSettings("tt", fraction=0.25),
    "wrong instruction": CorruptionSettings("ln", fraction=0.2),
}
SIZES = (300, 1000, 3000, 10_000)


@dataclass
class Table:
    """Pairs of a good and a faulty episode by fault and scorer; and what ``ptr score`` drops."""

    scorers: list[str]
    pairs: dict[str, dict[str, list[tuple[float, int]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    dropped: dict[str, list[tuple[int, int, int, int]]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def judge(self, episodes: EpisodeSet, kinds: list[tuple[str, ...]], title: str) -> None:
        """Ask every scorer of one dataset; ``kinds`` are the faults of each episode."""
        is_good = np.array([not kind for kind in kinds])
        for name in self.scorers:
            started = time.process_time()
            rows = get_scorer(name).score(episodes)
            self.seconds[name] += time.process_time() - started
            values = np.array([row.score for row in rows])
            for kind in sorted({one for own in kinds for one in own}):
                is_faulty = np.array([kind in own for own in kinds])
                self.pairs[kind][name] += _pairs(values, is_good, is_faulty, [t.task for t in episodes.tracks])
            if name == "quality":
                out = np.array([row.weight == 0 for row in rows])
                counts = (out & is_good).sum(), is_good.sum(), (out & ~is_good).sum(), (~is_good).sum()
                self.dropped[title].append(tuple(int(count) for count in counts))
        print(f"{title}: {len(kinds)} episodes, {int((~is_good).sum())} faulty", flush=True)

    def print(self) -> None:
        """One row a scorer, one column a fault."""
        kinds = list(self.pairs)
        print("\n| scorer | " + " | ".join(kinds) + " | CPU s |\n|---" + "|---" * (len(kinds) + 1) + "|")
        for name in self.scorers:
            cells = [_pooled(self.pairs[kind][name]) for kind in kinds]
            print(f"| {get_scorer(name).title} | " + " | ".join(cells) + f" | {self.seconds[name]:.0f} |")
        if "quality" in self.scorers:
            cells = [_interval(self.pairs[kind]["quality"]) for kind in kinds]
            print("| its 95% interval | " + " | ".join(cells) + " | |")
        print("\n| data | good dropped | faulty dropped |\n|---|---|---|")
        for title, rows in self.dropped.items():
            lost, good, found, faulty = (sum(column) for column in zip(*rows, strict=True))
            share = f"{found / faulty:.2f} of {faulty}" if faulty else "–"
            print(f"| {title} ({len(rows)} datasets) | {lost / max(good, 1):.3f} of {good} | {share} |")


def _pairs(values: np.ndarray, is_good: np.ndarray, is_faulty: np.ndarray, tasks: list[str]) -> list[tuple[float, int]]:
    found = []
    for task in sorted(set(tasks)):
        own = np.array([one == task for one in tasks]) & np.isfinite(values)
        good, bad = values[own & is_good], values[own & is_faulty]
        if len(good) and len(bad):
            above = np.sign(good[:, None] - bad[None, :]) / 2 + 0.5
            found.append((float(above.mean()), above.size))
    return found


def _pooled(pairs: list[tuple[float, int]]) -> str:
    total = sum(count for _, count in pairs)
    return f"{sum(area * count for area, count in pairs) / total:.2f}" if total else "–"


def _interval(pairs: list[tuple[float, int]]) -> str:
    """Of the pooled area, by a bootstrap over the tasks of all datasets."""
    if len(pairs) < 3:
        return "–"
    areas, counts = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    drawn = np.random.default_rng(0).integers(0, len(pairs), (2000, len(pairs)))
    means = (areas * counts)[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"[{low:.2f}, {high:.2f}]"


def read(folder: Path, state_keys: Sequence[str] = ()) -> EpisodeSet:
    """A dataset as ``ptr score`` reads it; by default with LeRobot's usual states."""
    index = open_index(folder, skip_bad_episodes=True, camera_keys=())
    data = read_recordings(index, state_keys_of(index, state_keys), "action", CHUNK_LENGTH)
    tracks = tuple(
        Track(record.episode_index, data.instructions[episode.task], episode.states, episode.actions)
        for record, episode in zip(data.records, data.recordings.episodes, strict=True)
    )
    return EpisodeSet(tracks, CHUNK_LENGTH, fps=index.fps)


def known_faults(folder: Path, episodes: EpisodeSet) -> list[tuple[str, ...]]:
    """By the ground truth; an episode whose operator has a fault is called after the operator."""
    truths = read_ground_truth(folder) or {}
    found = []
    for track in episodes.tracks:
        truth = truths.get(track.episode_index)
        if truth is None or not truth.is_faulty:
            found.append(())
        else:
            kinds = [fault.kind for fault in truth.faults if fault.kind != NOT_COMPLETED] or [NOT_COMPLETED]
            found.append((*dict.fromkeys(kinds), "all executed") if truth.operator else tuple(dict.fromkeys(kinds)))
    return found


def with_injected(episodes: EpisodeSet, kind: str, seed: int) -> tuple[EpisodeSet, list[tuple[str, ...]]]:
    """The same episodes, a third of them with a fault of this kind."""
    injector = next(one for one in INJECTORS if one.kind == kind)
    names = sorted({track.task for track in episodes.tracks})
    recordings = Recordings(
        tuple(Recording(t.states, t.actions, names.index(t.task)) for t in episodes.tracks), episodes.fps
    )
    generator = np.random.default_rng([seed, 3])
    chosen = set(generator.permutation(len(episodes.tracks))[: len(episodes.tracks) // 3].tolist())
    tracks, kinds = [], []
    for place, track in enumerate(episodes.tracks):
        copy = injector.inject(recordings.episodes[place], recordings, generator) if place in chosen else None
        tracks.append(track if copy is None else replace(track, states=copy.states, actions=copy.actions))
        kinds.append(() if copy is None else (f"injected {kind}",))
    return replace(episodes, tracks=tuple(tracks)), kinds


def judge_clean(table: Table, folder: Path, scratch: Path, number: int, state_keys: Sequence[str]) -> None:
    """As it is, with the paper's corruptions, and with injected faults."""
    episodes = read(folder, state_keys)
    before = known_faults(folder, episodes)
    if not any(before):
        table.judge(episodes, before, "no fault")
    for title, corruption in CORRUPTIONS.items():
        if corruption.kind == "ln" and len({track.task for track in episodes.tracks}) < 2:
            continue
        copy = scratch / f"{number}-{corruption.kind}"
        corrupt_dataset(folder, copy, corruption.corruptions(), seed=number, link_videos=True)
        changed = read(copy, state_keys)
        after = known_faults(copy, changed)
        kinds = [own if own == known else (title,) for own, known in zip(after, before, strict=True)]
        table.judge(changed, kinds, title)
    for injector in INJECTORS:
        if injector.kind not in ("action_noise", "truncation", "dead_camera"):
            changed, added = with_injected(episodes, injector.kind, number)
            kinds = [own or known for own, known in zip(added, before, strict=True)]
            table.judge(changed, kinds, f"injected {injector.kind}")


def measure_scale() -> None:
    """Made episodes of 100 frames, scored as ``ptr score`` does."""
    print("| episodes | seconds | CPU seconds | peak MiB | dropped |\n|---|---|---|---|---|", flush=True)
    for size in SIZES:
        generator = np.random.default_rng(size)
        made = Recordings(tuple(_made(generator, number % 10) for number in range(size)), 20.0)
        wall, processor = time.monotonic(), time.process_time()
        quality = assess(made, QualityConfig())
        verdicts = decide(quality, [str(task) for task in range(10)])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        dropped = sum(verdict.verdict == DROP for verdict in verdicts)
        seconds, cpu = time.monotonic() - wall, time.process_time() - processor
        print(f"| {size} | {seconds:.0f} | {cpu:.0f} | {peak:.0f} | {dropped / size:.3f} |", flush=True)


def _made(generator: np.random.Generator, task: int) -> Recording:
    share = np.linspace(0, 1, 100)[:, None]
    goal = np.array([np.cos(task), np.sin(task), 0.1 * task, 0, 0, 0, 0])
    start = generator.uniform(-0.3, 0.3, 7)
    states = start + share**2 * (3 - 2 * share) * (goal - start)
    states += 0.003 * np.cumsum(generator.standard_normal(states.shape), axis=0)
    actions = np.concatenate([states[2:], states[-1:], states[-1:]]) + 0.003 * generator.standard_normal(states.shape)
    return Recording(states.astype(np.float32), actions.astype(np.float32), task)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", type=Path, nargs="*", help="folders of LeRobot datasets")
    parser.add_argument("--scorers", nargs="+", default=list(scorer_names()), choices=scorer_names())
    parser.add_argument("--scale", action="store_true", help="measure cost on made episodes instead")
    parser.add_argument("--add_faults", action="store_true", help="add faults to datasets that have some, too")
    parser.add_argument("--state_keys", nargs="+", default=[], help="features that are the state")
    arguments = parser.parse_args()
    if arguments.scale:
        measure_scale()
        return
    if not arguments.datasets:
        parser.error("name at least one dataset, or --scale")
    table = Table(arguments.scorers)
    with tempfile.TemporaryDirectory() as scratch:
        for number, folder in enumerate(arguments.datasets):
            if not (folder / "meta").is_dir():
                parser.error(f"{folder} is no dataset; record one there with ptr collect")
            episodes = read(folder, arguments.state_keys)
            kinds = known_faults(folder, episodes)
            if any(kinds) and not arguments.add_faults:
                table.judge(episodes, kinds, "executed")
            else:
                judge_clean(table, folder, Path(scratch), number, arguments.state_keys)
    table.print()


if __name__ == "__main__":
    main()
