"""``ptr eval``: run a checkpoint over tasks and seeds, and report its success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ptr_robot.cli.flags import parse_flags
from ptr_robot.cli.policy_flags import import_packages
from ptr_robot.eval.evaluation import RESULTS_FILE, EvaluationConfig, checked_groups, evaluate, success_by_suite
from ptr_robot.eval.results import EpisodeResult, RolloutResult
from ptr_robot.eval.success_statistics import Interval
from ptr_robot.progress import counting


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    config = parse_flags(EvaluationConfig, import_packages(arguments))
    checked_groups(config)  # before anything is shown
    num_episodes = len(config.tasks) * config.eval.n_episodes
    num_successes = 0
    with counting("evaluating", num_episodes, Console(stderr=True)) as advance:

        def note(episode: EpisodeResult) -> None:
            nonlocal num_successes
            num_successes += episode.is_success
            advance(f", {num_successes} succeeded")

        result = evaluate(config, note)
    console = Console()
    console.print(success_table(result, success_by_suite(config, result)))
    written = escape(str(config.output / RESULTS_FILE))
    console.print(f"{written}: {num_episodes} episodes; intervals are Wilson's, 95%")
    return 0


def success_table(result: RolloutResult, suites: Mapping[str, Interval] | None = None) -> Table:
    """Success by task, by suite where there are suites, and over all episodes."""
    table = Table("task", "episodes", "success", "95% interval", box=None)
    for task, success in result.success_by_task.items():
        count = sum(episode.task == task for episode in result.episodes)
        table.add_row(task, str(count), *_numbers(success))
    for suite, success in (suites or {}).items():
        table.add_row(suite, "", *_numbers(success))
    table.add_row("all", str(len(result.episodes)), *_numbers(result.success))
    return table


def _numbers(success: Interval) -> tuple[str, str]:
    return f"{success.estimate:.2f}", f"{success.low:.2f} to {success.high:.2f}"
