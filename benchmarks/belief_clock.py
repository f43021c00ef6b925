"""Success of policies with belief tokens when z moves on once a chunk, as in training, and when it does at every look.

    ptr study regime --settings=mixed --methods=sft-belief --seeds='[4, 5]' --keep_checkpoints=true --output_dir=OUT
    python benchmarks/belief_clock.py OUT --study=regime --settings=mixed --methods=sft-belief --seeds 4 5

Each trained policy of the study is evaluated twice from the same layouts with the same noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ptr_robot.eval.saved_policy import checkpoint_folder
from ptr_robot.policy.carried_belief import CarriedBelief
from ptr_robot.study.analysis.seed_statistics import mean_interval
from ptr_robot.study.cells.cell import Cell
from ptr_robot.study.cells.cell_rollouts import evaluate_cell
from ptr_robot.study.cells.plan import plan_cells
from ptr_robot.study.spec.definition_file import read_study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the study's --output_dir, with checkpoints kept")
    parser.add_argument("--study", default="regime")
    parser.add_argument("--settings", default="mixed")
    parser.add_argument("--methods", default="sft-belief")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    flags = parser.parse_args()
    wanted = {
        "settings": flags.settings.split(","),
        "methods": flags.methods.split(","),
        "seeds": flags.seeds,
    }
    cells = [cell for cell in plan_cells(read_study(flags.study, wanted), flags.folder) if _is_kept(cell)]
    differences: list[float] = []
    print("cell once_a_chunk every_look")
    for cell in cells:
        as_trained = success(cell)
        with moving_at_every_look():
            at_every_look = success(cell)
        differences.append(as_trained - at_every_look)
        print(f"{cell.key} {as_trained:.2f} {at_every_look:.2f}", flush=True)
    if differences:
        interval = mean_interval(differences)
        print(f"difference {interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]")


def success(cell: Cell) -> float:
    """Of the cell's policy by the study's protocol."""
    episodes = evaluate_cell(cell.run_folder, cell.sources, cell.seed)
    return float(np.mean([episode.is_success for episode in episodes]))


@contextmanager
def moving_at_every_look() -> Iterator[None]:
    """As rollouts were before: z_{t+1} at the next look, however little of the chunk was carried out."""
    as_it_is = CarriedBelief.at_look
    CarriedBelief.at_look = lambda belief, _period: CarriedBelief(belief.following) if belief.num_actions else belief
    try:
        yield
    finally:
        CarriedBelief.at_look = as_it_is


def _is_kept(cell: Cell) -> bool:
    return checkpoint_folder(cell.run_folder) != cell.run_folder


if __name__ == "__main__":
    main()
