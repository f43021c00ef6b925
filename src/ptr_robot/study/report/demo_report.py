"""The demo's results as one HTML file that needs nothing beside it; everything from data is escaped."""

from __future__ import annotations

import base64
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptr_robot.errors import require
from ptr_robot.files import atomic_file
from ptr_robot.study.analysis.outcome import Comparison, verdict
from ptr_robot.study.demo import DemoFindings
from ptr_robot.study.report import demo_figures as figures

REPORT_FILE = "report.html"
FIGURES_FOLDER = "figures"
COLUMNS = ("method", "success", "against SFT", "gap share", "AUROC")
LEGEND = (
    "In brackets: 95% intervals, Wilson's for success and a bootstrap over equal layouts for differences. Gap share: "
    "how much of the way from SFT to the clean part alone a method goes. AUROC: how often its weights put a good "
    "episode above a marked one of the same task; 0.50 is chance."
)

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; color: #1d2327; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
  .scroll { overflow-x: auto; }
  table { border-collapse: collapse; width: 100%; }
  th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #dfe3e6; }
  td:not(:first-child), th:not(:first-child) { font-variant-numeric: tabular-nums; }
  figure { margin: 1rem 0; } img { max-width: 100%; } figcaption { color: #50575e; font-size: .9rem; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p>{{ introduction }}</p>
<div class="scroll"><table>
<thead><tr>{% for column in columns %}<th scope="col">{{ column }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table></div>
<p>{{ legend }}</p>
<ul>{% for sentence in sentences %}<li>{{ sentence }}</li>{% endfor %}</ul>
{% for figure in figures %}<h2>{{ figure.heading }}</h2>
<figure><img alt="{{ figure.caption }}" src="data:image/png;base64,{{ figure.content }}">
<figcaption>{{ figure.caption }}</figcaption></figure>
{% endfor %}<h2>Demonstrations</h2>
<div class="scroll"><table>
<thead><tr><th scope="col">operator</th><th scope="col">episodes</th><th scope="col">marked faulty</th></tr></thead>
<tbody>{% for operator, count, faulty in operators %}<tr><td>{{ operator }}</td><td>{{ count }}</td>
<td>{{ faulty }}</td></tr>{% endfor %}</tbody>
</table></div>
</body>
</html>
"""


@dataclass(frozen=True)
class Figure:
    """One picture of the report."""

    heading: str
    caption: str
    path: Path

    @property
    def content(self) -> str:
        """The file as base64."""
        return base64.b64encode(self.path.read_bytes()).decode()


def comparison_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """The table: one row a method, in the order of ``COLUMNS``."""
    rows: list[tuple[str, ...]] = []
    for outcome in comparison.outcomes:
        success, difference = outcome.success, comparison.difference(outcome.name)
        against = f"{difference.estimate:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]"
        rows.append(
            (
                outcome.title,
                f"{success.estimate:.2f} [{success.low:.2f}, {success.high:.2f}]",
                "-" if outcome.name == comparison.baseline else against,
                comparison.describe_share(outcome.name),
                "-" if math.isnan(outcome.auroc) else f"{outcome.auroc:.2f}",
            )
        )
    return rows


def draw_figures(findings: DemoFindings) -> list[Figure]:
    """Every figure as a PNG file."""
    folder, comparison = findings.root / FIGURES_FOLDER, findings.comparison
    titles = {outcome.name: outcome.title for outcome in comparison.outcomes}
    drawn = [
        Figure("Success", "Success of every method on the same layouts, by task.", folder / "success.png"),
        Figure("Training", "The loss that each run minimised, weighted where it weighs.", folder / "training.png"),
    ]
    figures.draw_success(comparison, drawn[0].path)
    figures.draw_training(findings.curves, titles, drawn[1].path)
    for name, episodes in findings.scored.items():
        weights, scores = folder / f"weights-{name}.png", folder / f"scores-{name}.png"
        figures.draw_weights(episodes, titles[name], comparison.outcome(name).auroc, weights)
        figures.draw_scores(episodes, titles[name], scores)
        drawn.append(Figure(f"Weights: {titles[name]}", "Mean training weight of good and marked episodes.", weights))
        drawn.append(Figure(f"Scores: {titles[name]}", "Mean score of each episode during training.", scores))
    examples = folder / "demonstrations.png"
    figures.draw_demonstrations(findings.dataset, findings.truths, examples)
    drawn.append(Figure("Good and bad", "Six moments of a good episode and of faulty ones.", examples))
    return drawn


def write_report(findings: DemoFindings) -> Path:
    """Draw the figures and write the page that holds them."""
    environment = require("jinja2", "report").Environment(autoescape=True)
    page: str = environment.from_string(TEMPLATE).render(
        title="PTR on mixed-quality demonstrations",
        introduction=introduction(findings),
        columns=COLUMNS,
        rows=comparison_rows(findings.comparison),
        legend=LEGEND,
        sentences=verdict(findings.comparison),
        figures=draw_figures(findings),
        operators=operator_rows(findings),
    )
    path = findings.root / REPORT_FILE
    with atomic_file(path) as file:
        file.write(page.encode())
    return path


def introduction(findings: DemoFindings) -> str:
    """What was compared, with its numbers."""
    study, truths = findings.study, findings.truths
    (setting,) = study.settings.values()
    tasks = ", ".join(study.tasks_of(setting))
    num_faulty = sum(truth.is_faulty for truth in truths.values())
    num_episodes = len(findings.comparison.outcomes[0].episodes)
    num_chunks = study.training.batch_size * study.policy.num_chunks
    return (
        f"{len(truths)} scripted demonstrations of {tasks}, {num_faulty} of them marked faulty. Every "
        f"method starts from the same weights (seed {study.seeds[0]}) and takes {study.training.steps} steps of "
        f"{num_chunks} chunks; every policy is given {study.policy.image_size}-pixel images, the "
        f"simulator's state and the instruction, and PTR takes consequences from the images. Success is over the same "
        f"{num_episodes} layouts for each method. The marks are used for the upper bound and for the AUROC, never by "
        "PTR."
    )


def operator_rows(findings: DemoFindings) -> list[tuple[Any, ...]]:
    """How many episodes each operator recorded, and how many of them are marked."""
    counts = Counter(truth.operator or "unknown" for truth in findings.truths.values())
    faulty = Counter(truth.operator or "unknown" for truth in findings.truths.values() if truth.is_faulty)
    return [(operator, count, faulty[operator]) for operator, count in sorted(counts.items())]
