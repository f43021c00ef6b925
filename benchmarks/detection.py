"""How well episodes are told apart without labels: screening against what a user would try instead.

    ptr study headline
    python benchmarks/detection.py outputs/study/headline

Reads the demonstrations that a study has recorded, or what `ptr collect` wrote into FOLDER/demonstrations. Those of
faulty operators are judged as they are; those of clean ones get the paper's corruptions first. Prints, by fault, the
chance that a good episode is ranked above a faulty one of the same task (AUROC), pooled over pairs of all datasets; the
share of faulty episodes before and after screening; and the share of right instructions before and after. Nothing
here trains a policy.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import torch

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.corruptions import corrupt_dataset
from ptr_robot.data.ground_truth import read_ground_truth
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.envs.demonstration import NOT_COMPLETED
from ptr_robot.envs.registry import DEFAULT, environment_type
from ptr_robot.method.scoring.screen import SCREENING_CHANNELS, ScreeningConfig
from ptr_robot.scorers import EpisodeSet, get_scorer, scorer_names
from ptr_robot.scorers.tracks import read_tracks
from ptr_robot.study.analysis.detection import auroc
from ptr_robot.study.cells.data_jobs import source_fields
from ptr_robot.study.spec.definition import CorruptionSettings
from ptr_robot.train.build import sample_facts
from ptr_robot.train.screening import screen_dataset

LENGTH = 16
CORRUPTIONS = {
    "wrong instruction, 40%": CorruptionSettings("ln", fraction=0.4),
    "noise on actions σ=.5, 30%": CorruptionSettings("ani", fraction=0.3, sigma=0.5),
    "noise on actions σ=.1, 30%": CorruptionSettings("ani", fraction=0.3, sigma=0.1),
    "truncated, 25%": CorruptionSettings("tt", fraction=0.25),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="a study's output folder")
    parser.add_argument(
        "--only", help="corrupt in this one way alone, and leave the operators' faults", choices=CORRUPTIONS
    )
    arguments = parser.parse_args()
    folder, corruptions = arguments.study, CORRUPTIONS
    if arguments.only:
        corruptions = {arguments.only: CORRUPTIONS[arguments.only]}
    if not (folder / "demonstrations").is_dir():
        parser.error(f"{folder} has no folder demonstrations; give the output folder of a study")
    datasets = sorted(path for path in (folder / "demonstrations").iterdir() if (path / "meta").is_dir())
    has_faults = [_has_executed_faults(dataset) for dataset in datasets]
    if not datasets or (arguments.only and all(has_faults)):
        wanted = "dataset without faults, which --only corrupts" if arguments.only else "dataset"
        parser.error(f"{folder / 'demonstrations'} holds no {wanted}; record one there with ptr collect")
    table = Table()
    with tempfile.TemporaryDirectory() as scratch:
        for number, (dataset, is_faulty) in enumerate(zip(datasets, has_faults, strict=True)):
            if is_faulty:
                if not arguments.only:
                    table.judge(dataset, Path(scratch), "executed")
                continue
            for title, corruption in corruptions.items():
                copy = Path(scratch) / f"{number}-{len(list(Path(scratch).iterdir()))}"
                corrupt_dataset(dataset, copy, corruption.corruptions(), seed=number)
                table.judge(copy, Path(scratch), title)
                if corruption.kind == "ln":
                    table.compare_instructions(copy, dataset, Path(scratch))
            if not arguments.only:
                table.judge(dataset, Path(scratch), "no fault")
    table.print()


def _has_executed_faults(dataset: Path) -> bool:
    truths = read_ground_truth(dataset) or {}
    return any(fault.kind != NOT_COMPLETED for truth in truths.values() for fault in truth.faults)


class Table:
    """Pairs of a good and a faulty episode by fault and judge, and the mass that faulty episodes have."""

    def __init__(self) -> None:
        self.pairs: dict[str, dict[str, list[tuple[float, int]]]] = defaultdict(lambda: defaultdict(list))
        self.mass: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        self.instructions: list[tuple[float, float]] = []
        self._found: dict[int, str] = {}  # instructions of the dataset scored last, by episode

    def judge(self, folder: Path, scratch: Path, title: str) -> None:
        """Ask every judge of one dataset."""
        source = SourceConfig(**source_fields(folder, environment_type(DEFAULT), None))
        config = DataConfig(sources=[source], chunk_length=LENGTH, num_chunks=1, image_size=0, cache_dir=str(scratch))
        started = time.monotonic()
        data = SegmentDataset(config)
        found = screen_dataset(data, sample_facts(data, None), ScreeningConfig())
        seconds = time.monotonic() - started
        texts = {number: text for text, number in data.task_ids.items()}
        found_texts = [texts[task] for task in found.instructions.tolist()]
        self._found = dict(zip(found.episode_ids.tolist(), found_texts, strict=True))
        tracks = read_tracks(source, config)
        scores = {"screening": dict(zip(found.episode_ids.tolist(), found.z_scores.tolist(), strict=True))}
        for column, channel in enumerate(SCREENING_CHANNELS):
            values = found.scores[:, column].tolist()
            scores[f"  {channel} alone"] = dict(zip(found.episode_ids.tolist(), values, strict=True))
        scores["its weights"] = dict(zip(found.episode_ids.tolist(), found.weights.tolist(), strict=True))
        for name in scorer_names():
            if name != "screening":
                rows = get_scorer(name).score(EpisodeSet(tuple(tracks), LENGTH))
                scores[name] = {row.episode_index: row.score for row in rows}
        self._add(folder, title, scores, {track.episode_index: track.task for track in tracks})
        kept = self.mass[title][-1]
        print(f"{title}: {len(tracks)} episodes screened in {seconds:.0f} s, {kept[0]:.2f} of them faulty, "
              f"{kept[1]:.2f} of the kept mass; {kept[2]:.2f} of the good mass is kept", flush=True)  # fmt: skip

    def compare_instructions(self, folder: Path, original: Path, scratch: Path) -> None:
        """Of the dataset scored last, against the dataset before its instructions were made wrong."""
        config = DataConfig(chunk_length=LENGTH, image_size=0, cache_dir=str(scratch))
        given, true = (
            {
                track.episode_index: track.task
                for track in read_tracks(SourceConfig(**source_fields(root, None)), config)
            }
            for root in (folder, original)
        )
        before = [given[number] == true[number] for number in self._found]
        after = [self._found[number] == true[number] for number in self._found]
        self.instructions.append((sum(before) / len(before), sum(after) / len(after)))

    def _add(self, folder: Path, title: str, scores: dict[str, dict[int, float]], tasks: dict[int, str]) -> None:
        truths = read_ground_truth(folder) or {}
        kinds = sorted({fault.kind for truth in truths.values() for fault in truth.faults} - {NOT_COMPLETED})
        for kind in kinds:
            name = kind if title == "executed" else title
            for scorer, values in scores.items():
                for task in sorted(set(tasks.values())):
                    own = [number for number in values if tasks[number] == task]
                    good = [values[number] for number in own if not truths[number].is_faulty]
                    bad = [values[n] for n in own if any(fault.kind == kind for fault in truths[n].faults)]
                    if good and bad:
                        self.pairs[name][scorer].append((auroc(bad, good), len(good) * len(bad)))
        weights = scores["its weights"]
        faulty = torch.tensor([truths[number].is_faulty for number in weights])
        mass = torch.tensor(list(weights.values()))
        kept_good = float(mass[~faulty].mean()) if (~faulty).any() else 0.0
        self.mass[title].append((float(faulty.float().mean()), float(mass[faulty].sum() / mass.sum()), kept_good))

    def print(self) -> None:
        """One row a judge, one column a fault."""
        kinds = list(self.pairs)
        judges = list(next(iter(self.pairs.values())))
        print("\n| judge | " + " | ".join(kinds) + " |\n|---" + "|---" * len(kinds) + "|")
        for judge in judges:
            cells = []
            for kind in kinds:
                values = self.pairs[kind][judge]
                total = sum(count for _, count in values)
                cells.append(f"{sum(area * count for area, count in values) / total:.2f}")
            print(f"| {judge} | " + " | ".join(cells) + " |")
        print("\n| data | faulty | of the kept mass | good mass kept |\n|---|---|---|---|")
        for title, rows in self.mass.items():
            means = [sum(row[column] for row in rows) / len(rows) for column in range(3)]
            print(f"| {title} ({len(rows)} datasets) | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
        if self.instructions:
            before, after = (sum(column) / len(self.instructions) for column in zip(*self.instructions, strict=True))
            print(f"\nright instructions: {before:.3f} of the episodes as given, {after:.3f} after screening")


if __name__ == "__main__":
    main()
