"""The demo: mixed-quality demonstrations in, a comparison of trainings on them out."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ptr_robot.data.ground_truth import EpisodeTruth, read_ground_truth
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.envs.base import CameraConfig
from ptr_robot.envs.collection import plan_episodes, resolve_mixture
from ptr_robot.envs.recording import RecordedEpisode, RecordingConfig, record
from ptr_robot.errors import DataError
from ptr_robot.eval.evaluation import RESULTS_FILE, evaluate
from ptr_robot.eval.results import EpisodeResult, read_results
from ptr_robot.files import whole_file
from ptr_robot.progress import counting
from ptr_robot.study.analysis.detection import weight_auroc
from ptr_robot.study.analysis.outcome import Comparison, MethodOutcome
from ptr_robot.study.cells.judged_episode import JudgedEpisode, judged_episodes
from ptr_robot.study.demo_plan import (
    BASELINE,
    ENVIRONMENT,
    METHODS,
    OPERATORS,
    UPPER_BOUND,
    DemoConfig,
    Method,
    collection_stage,
    evaluation_config,
    evaluation_stage,
    training_command,
    training_stage,
)
from ptr_robot.study.engine.stages import Stage, claim, occupied
from ptr_robot.study.training_runs import TrainingCommand, train_side_by_side
from ptr_robot.train.checkpoint import latest_checkpoint

COMPARISON_FILE = "comparison.json"


@dataclass(frozen=True)
class DemoFindings:
    """Everything that the table, the figures and the report show."""

    config: DemoConfig
    comparison: Comparison
    truths: dict[int, EpisodeTruth]
    judged: dict[str, list[JudgedEpisode]]  # by method; of those that weigh
    runs: dict[str, Path]


def run_demo(config: DemoConfig, console: Console, say: Callable[[str], None]) -> DemoFindings:
    """Do every stage that is not done yet, in order; what is there already is used as it is."""
    claim(config.root)
    with occupied(config.root, "demo"):
        _collect(config, console, say)
        truths = _truths(config)
        _train(config, truths, console, say)
        for method in METHODS:
            _evaluate(config, method, console, say)
        findings = read_findings(config, truths)
        with whole_file(config.root / COMPARISON_FILE) as file:
            file.write((json.dumps(findings.comparison.as_json(), indent=1) + "\n").encode())
    return findings


def read_findings(config: DemoConfig, truths: dict[int, EpisodeTruth]) -> DemoFindings:
    """What the finished stages hold."""
    runs = {method.name: training_stage(config, method).output for method in METHODS}
    index = open_index(collection_stage(config).output)
    tasks = {episode.episode_index: episode.tasks[0] for episode in index.episodes}
    weighing = [method for method in METHODS if method.method != "sft"]
    judged = {method.name: judged_episodes(runs[method.name], truths, tasks) for method in weighing}
    outcomes = [_outcome(config, method, judged.get(method.name, [])) for method in METHODS]
    return DemoFindings(config, Comparison(tuple(outcomes), BASELINE, UPPER_BOUND), truths, judged, runs)


def _collect(config: DemoConfig, console: Console, say: Callable[[str], None]) -> None:
    stage, sizes = collection_stage(config), config.sizes

    def work() -> None:
        mixture = resolve_mixture(OPERATORS, ENVIRONMENT.scripted.operators, sizes.fault_fraction)
        planned = plan_episodes(sizes.tasks, sizes.episodes_per_task, mixture, config.seed)
        cameras = CameraConfig(ENVIRONMENT.default_cameras, sizes.camera_size)
        recording = RecordingConfig(cameras=cameras, num_workers=config.num_workers, match_lengths=True)
        with counting("collecting", len(planned), console) as advance:

            def note(episode: RecordedEpisode) -> None:
                advance(f", {episode.planned.task}")

            record(stage.output, planned, ENVIRONMENT, recording, note)

    if not stage.run(work):
        say(f"collected before: {stage.output}")


def _train(config: DemoConfig, truths: dict[int, EpisodeTruth], console: Console, say: Callable[[str], None]) -> None:
    good = [number for number, truth in truths.items() if not truth.is_faulty]
    stages = {method.name: training_stage(config, method) for method in METHODS}
    todo = [method for method in METHODS if not stages[method.name].is_complete]
    for method in METHODS:
        if method not in todo:
            say(f"trained before: {stages[method.name].output}")
    commands = [_begin_training(stages[method.name], training_command(config, method, good)) for method in todo]
    for command in commands:
        say(command.command)
    train_side_by_side(
        commands, config.root / "logs", console, config.num_workers, lambda command: stages[command.name].finish()
    )


def _begin_training(stage: Stage, command: TrainingCommand) -> TrainingCommand:
    """From the start, or from the checkpoint that an interrupted run of the same settings saved."""
    if stage.is_begun and latest_checkpoint(command.run) is not None:
        return dataclasses.replace(command, flags=("--resume=true", f"--output_dir={command.run}"))
    stage.begin()
    return command


def _evaluate(config: DemoConfig, method: Method, console: Console, say: Callable[[str], None]) -> None:
    stage, evaluation = evaluation_stage(config, method), evaluation_config(config, method)

    def work() -> None:
        total = len(evaluation.tasks) * evaluation.eval.n_episodes
        with counting(f"evaluating {method.name}", total, console) as advance:

            def note(episode: EpisodeResult) -> None:
                advance(f", {episode.task}")

            evaluate(evaluation, note)

    if not stage.run(work):
        say(f"evaluated before: {stage.output}")


def _truths(config: DemoConfig) -> dict[int, EpisodeTruth]:
    folder = collection_stage(config).output
    truths = read_ground_truth(folder)
    if truths is None:
        raise DataError(f"{folder} has no ground truth; remove the folder and collect it again")
    return truths


def _outcome(config: DemoConfig, method: Method, judged: list[JudgedEpisode]) -> MethodOutcome:
    result = read_results(evaluation_stage(config, method).output / RESULTS_FILE)
    return MethodOutcome(method.name, method.title, result, weight_auroc(judged))
