"""Which instruction does each episode follow, and how well do its consequences and actions follow from it?

By Bayes' rule an episode is evidence for an instruction in two ways. One is the posterior of a classifier that sees the
whole chunk. The other is how much likelier the recorded actions and consequences are under that instruction: where two
tasks share a scene and many labels are wrong, predictive heads find the difference long before a classifier does. Each
kind of evidence is scaled by how well it predicts the given instructions, and the given one counts by how many of them
are predicted. The most probable instructions become the labels of the next round, and the heads are trained again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ptr_robot.method.episode_evidence import population_weights
from ptr_robot.method.folds import assign_folds
from ptr_robot.method.heads import INSTRUCTION_DIM, instruction_codes
from ptr_robot.method.mixture import fit_two_populations
from ptr_robot.method.scoring.calibration import trusted_scales, weight_of_given
from ptr_robot.method.scoring.config import ScreeningConfig
from ptr_robot.method.scoring.cross_fit import (
    CrossFitted,
    Question,
    Recording,
    WhichAction,
    WhichConsequence,
    WhichInstruction,
    cross_fit,
    standardised,
)
from ptr_robot.method.scoring.transitions import Episodes, Transitions

Report = Callable[[str, float], None]  # the name of the step, and the share of it that is done

STRONG_EVIDENCE = 0.05  # an episode of no more weight than this is classified as faulty
_MAX_ROUNDS = 16
_MIN_EPISODES = 4  # of an instruction: with fewer, heads cannot learn it, and it is never corrected
_TEMPERATURE = 0.5  # high: a classifier of bounded confidence overfits wrong labels less


def score_episodes(
    transitions: Transitions, episodes: Episodes, config: ScreeningConfig, report: Report | None = None
) -> tuple[Tensor, Tensor]:  # (E, 3), (E,) int64
    """Mean scores of consequence, action and given instruction, and the instruction that each episode is assigned.

    An episode with several instructions keeps them, and so does one whose instruction is rare.
    """
    choice = Choice.of(transitions, episodes)
    if len(choice.candidates) > 1:
        scorers, scores, likely = _in_rounds(choice, transitions, episodes, config, report)
        instructions = torch.where(_is_wrong(scores) & ~choice.is_fixed, likely, choice.given)
    else:
        scorers, scores = fit_recordings(transitions, config, report), torch.zeros(len(choice.given))
        instructions = choice.given
    inputs = _inputs_before(with_instructions(transitions, episodes, instructions))
    recordings = episodes.means(torch.stack([scorer.scores(inputs) for scorer in scorers], dim=1))
    return torch.cat([recordings, scores.unsqueeze(1)], dim=1), instructions


@dataclass(frozen=True)
class Choice:
    """Which of ``K`` instructions an episode may follow, and which was given."""

    given: Tensor  # (E,) int64
    candidates: Tensor  # (K,) int64, ascending: those that enough episodes have
    is_fixed: Tensor  # (E,) bool: keeps its instruction, whatever the evidence
    is_candidate: Tensor  # (E,) bool: whose given instruction is a candidate
    columns: Tensor  # (J,) int64: its place among the candidates, of those rows

    @classmethod
    def of(cls, transitions: Transitions, episodes: Episodes) -> Choice:
        """As it was given."""
        given = episodes.first(transitions.task_ids)
        kinds, rows, counts = torch.unique(given, return_inverse=True, return_counts=True)
        candidates = kinds[counts >= _MIN_EPISODES]
        has_several = episodes.means((transitions.task_ids != given[episodes.rows]).float().unsqueeze(1)).squeeze(1) > 0
        is_candidate = torch.isin(given, candidates)
        columns = torch.searchsorted(candidates, given[is_candidate])
        return cls(given, candidates, has_several | (counts[rows] < _MIN_EPISODES), is_candidate, columns)

    def likeliest(self, together: Tensor) -> Tensor:  # (E, K) -> (E,) int64
        """By all evidence and by the instruction that was given."""
        posteriors = together.log_softmax(dim=1)
        posteriors[self.is_candidate, self.columns] += weight_of_given(
            together[self.is_candidate].softmax(dim=1), self.columns
        )
        return torch.where(self.is_fixed, self.given, self.candidates[posteriors.argmax(dim=1)])

    def given_scores(self, together: Tensor) -> Tensor:  # (E, K) -> (E,)
        """Of the given instruction, its log posterior over uniform; zero where it is no candidate."""
        over_uniform = together.log_softmax(dim=1) + torch.tensor(float(len(self.candidates))).log()
        scores = torch.zeros(len(self.given))
        scores[self.is_candidate] = over_uniform[self.is_candidate].gather(1, self.columns.unsqueeze(1)).squeeze(1)
        return scores


def _in_rounds(
    choice: Choice, transitions: Transitions, episodes: Episodes, config: ScreeningConfig, report: Report | None
) -> tuple[list[HeldOutScorer], Tensor, Tensor]:  # (E,) scores of the given ones, (E,) int64 the likeliest ones
    """Until a round finds the labels that it was trained on; the scorers are those of the last one."""
    likely, scales = choice.given, None
    for number in range(1, _MAX_ROUNDS + 1):
        current = with_instructions(transitions, episodes, likely)
        round_report = _report_of_round(report, number)
        scorers = fit_recordings(current, config, round_report)
        evidence = torch.stack(
            [
                classified(current, episodes, choice.candidates, config, round_report),
                *(scorer.evidence(current, episodes, choice.candidates) for scorer in scorers),
            ]
        )  # (3, E, K)
        if scales is None:  # later heads have seen every given instruction through the labels found before
            scales = trusted_scales(evidence[:, choice.is_candidate], choice.columns)
        together = torch.einsum("j,jek->ek", scales, evidence)
        found = choice.likeliest(together)
        if torch.equal(found, likely):
            break
        likely = found
    return scorers, choice.given_scores(together), likely


def with_instructions(transitions: Transitions, episodes: Episodes, instructions: Tensor) -> Transitions:  # (E,)
    """The same chunks under these instructions; an episode that keeps its own keeps all that it has."""
    is_other = (instructions != episodes.first(transitions.task_ids))[episodes.rows]
    return replace(transitions, task_ids=torch.where(is_other, instructions[episodes.rows], transitions.task_ids))


@dataclass(frozen=True)
class HeldOutScorer:
    """A question about what was recorded, with cross-fitted heads; None where the recording is constant."""

    question: Recording | None
    fitted: CrossFitted | None

    def scores(self, inputs: Tensor) -> Tensor:  # (N, inputs) -> (N,)
        """How well the recording is identified among others."""
        if self.question is None or self.fitted is None:
            return torch.zeros(len(inputs))
        return self.question.scores(self.fitted.queries(inputs))

    def evidence(self, transitions: Transitions, episodes: Episodes, candidates: Tensor) -> Tensor:  # (E, K)
        """How much likelier each candidate makes what was recorded, by the mean over an episode's chunks."""
        if self.question is None or self.fitted is None:
            return torch.zeros(len(episodes.ids), len(candidates))
        inputs = _inputs_before(transitions)
        reference_queries = self.fitted.queries(inputs)
        columns = []
        for candidate in candidates:
            queries = self.fitted.queries(_with_instruction(candidate, inputs))
            columns.append(self.question.log_likelihoods(queries, reference_queries))
        return balanced(episodes.means(torch.stack(columns, dim=1)), transitions, episodes, candidates)


def fit_recordings(transitions: Transitions, config: ScreeningConfig, report: Report | None) -> list[HeldOutScorer]:
    """Held-out scorers of consequence and action, both from what is known before the chunk is executed."""
    questions: list[tuple[str, Tensor, Callable[[], Recording]]] = [
        (
            "consequences",
            transitions.changes,
            lambda: WhichConsequence(transitions.changes, config.temperature, config.pool_size),
        ),
        ("actions", transitions.actions, lambda: WhichAction(transitions.actions, config.pool_size)),
    ]
    scorers = []
    for name, recorded, ask in questions:
        if not recorded.shape[1]:
            scorers.append(HeldOutScorer(None, None))
            continue
        question = ask()
        scorers.append(
            HeldOutScorer(question, _fit(question, _inputs_before(transitions), transitions, config, report, name))
        )
    return scorers


def classified(
    transitions: Transitions,
    episodes: Episodes,
    candidates: Tensor,  # (K,)
    config: ScreeningConfig,
    report: Report | None,
) -> Tensor:  # (E, K)
    """Log posteriors of a classifier that sees observation, change and action."""
    question = WhichInstruction(transitions.task_ids, candidates, _TEMPERATURE)
    inputs = _inputs_around(transitions)
    fitted = _fit(question, inputs, transitions, config, report, "instructions")
    log_posteriors = episodes.means(question.log_posteriors(fitted.queries(inputs)))
    return balanced(log_posteriors, transitions, episodes, candidates)


def balanced(evidence: Tensor, transitions: Transitions, episodes: Episodes, candidates: Tensor) -> Tensor:  # (E, K)
    """Less each candidate's mean over the instructions: none is preferred for being common or easily predicted."""
    labels = episodes.first(transitions.task_ids)
    means = [evidence[labels == candidate].mean(dim=0) for candidate in candidates if (labels == candidate).any()]
    return evidence - torch.stack(means).mean(dim=0)


def _report_of_round(report: Report | None, number: int) -> Report | None:
    """The same report, with the number of every round but the first: most data need no other."""
    if report is None or number == 1:
        return report

    def report_round(name: str, share: float) -> None:
        report(f"{name}, round {number} of at most {_MAX_ROUNDS}", share)

    return report_round


def _is_wrong(scores: Tensor) -> Tensor:  # (E,) -> (E,) bool
    one_group = torch.zeros(len(scores), dtype=torch.int64)  # compared over all tasks
    return population_weights(fit_two_populations(scores, one_group), scores, one_group) <= STRONG_EVIDENCE


def _fit(
    question: Question,
    inputs: Tensor,
    transitions: Transitions,
    config: ScreeningConfig,
    report: Report | None,
    name: str,
) -> CrossFitted:
    return cross_fit(
        question,
        inputs,
        assign_folds(transitions.episode_ids, config.num_folds, config.seed),
        num_folds=config.num_folds,
        hidden_dim=config.hidden_dim,
        steps=config.steps,
        batch_size=config.batch_size,
        lr=config.lr,
        weight_decay=config.weight_decay,
        report=functools.partial(report, f"screening: {name}") if report is not None else None,
    )


def _inputs_before(transitions: Transitions) -> Tensor:  # (N, inputs)
    """What is known before the chunk is executed: what consequence and action are identified from."""
    codes = INSTRUCTION_DIM**0.5 * instruction_codes(transitions.task_ids)
    return torch.cat([standardised(transitions.observations), codes], dim=1)


def _with_instruction(task: Tensor, inputs: Tensor) -> Tensor:  # (), (N, inputs) -> (N, inputs)
    """What ``_inputs_before`` gives, as if all chunks had the same instruction."""
    code = INSTRUCTION_DIM**0.5 * instruction_codes(task.view(1))
    return torch.cat([inputs[:, :-INSTRUCTION_DIM], code.expand(len(inputs), -1)], dim=1)


def _inputs_around(transitions: Transitions) -> Tensor:  # (N, inputs)
    """All but the instruction, which is identified from it."""
    changes = F.normalize(transitions.changes, dim=1)
    return torch.cat([standardised(transitions.observations), changes, transitions.actions], dim=1)
