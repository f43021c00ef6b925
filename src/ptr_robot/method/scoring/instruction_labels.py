"""Which instruction does each episode follow, and how well do its consequences and actions follow from it?

By Bayes' rule an episode speaks for an instruction in two ways. One is what a classifier says that sees the whole
chunk. The other is how much likelier the recorded actions and consequences are if that instruction was meant: where two
tasks share a scene and many labels are wrong, heads that predict find the difference long before heads that classify
do. Each kind of evidence counts by how well it foretells the given instructions, and the given one counts by how many
of them are foretold. What is found becomes the labels of the next round, and the heads learn again.
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

Report = Callable[[str, float], None]  # what is being done, and which share of it is done

STRONG_EVIDENCE = 0.05  # what is allowed no more weight than this is taken for faulty
_MOST_ROUNDS = 16
_FEWEST_EPISODES = 4  # of an instruction: heads that hardly saw it cannot say that it is wrong
_TEMPERATURE = 0.5  # high: a classifier that cannot be very sure of itself is not led astray by wrong labels


def identify(
    transitions: Transitions, episodes: Episodes, config: ScreeningConfig, report: Report | None = None
) -> tuple[Tensor, Tensor]:  # (E, 3), (E,) int64
    """Mean scores of consequence, action and given instruction, and the instruction that each episode is taken to have.

    An episode with several instructions keeps them, and so does one whose instruction is rare.
    """
    choice = Choice.of(transitions, episodes)
    if len(choice.candidates) > 1:
        judges, scores, likely = _in_rounds(choice, transitions, episodes, config, report)
        instructions = torch.where(_is_wrong(scores) & ~choice.is_fixed, likely, choice.given)
    else:
        judges, scores = fit_recordings(transitions, config, report), torch.zeros(len(choice.given))
        instructions = choice.given
    inputs = _before(with_instructions(transitions, episodes, instructions))
    recordings = episodes.means(torch.stack([judge.scores(inputs) for judge in judges], dim=1))
    return torch.cat([recordings, scores.unsqueeze(1)], dim=1), instructions


@dataclass(frozen=True)
class Choice:
    """Which of ``K`` instructions an episode may follow, and which was given."""

    given: Tensor  # (E,) int64
    candidates: Tensor  # (K,) int64, ascending: those that enough episodes have
    is_fixed: Tensor  # (E,) bool: keeps what it has, whatever is found
    is_judged: Tensor  # (E,) bool: whose given instruction is a candidate
    columns: Tensor  # (J,) int64: its place among the candidates, of those that are judged

    @classmethod
    def of(cls, transitions: Transitions, episodes: Episodes) -> Choice:
        """As it was given."""
        given = episodes.first(transitions.task_ids)
        kinds, rows, counts = torch.unique(given, return_inverse=True, return_counts=True)
        candidates = kinds[counts >= _FEWEST_EPISODES]
        has_several = episodes.means((transitions.task_ids != given[episodes.rows]).float().unsqueeze(1)).squeeze(1) > 0
        is_judged = torch.isin(given, candidates)
        columns = torch.searchsorted(candidates, given[is_judged])
        return cls(given, candidates, has_several | (counts[rows] < _FEWEST_EPISODES), is_judged, columns)

    def likeliest(self, together: Tensor) -> Tensor:  # (E, K) -> (E,) int64
        """By all evidence and by the instruction that was given."""
        posteriors = together.log_softmax(dim=1)
        posteriors[self.is_judged, self.columns] += weight_of_given(
            together[self.is_judged].softmax(dim=1), self.columns
        )
        return torch.where(self.is_fixed, self.given, self.candidates[posteriors.argmax(dim=1)])

    def given_scores(self, together: Tensor) -> Tensor:  # (E, K) -> (E,)
        """Of the given instruction, its log posterior over uniform; zero where it is no candidate."""
        over_uniform = together.log_softmax(dim=1) + torch.tensor(float(len(self.candidates))).log()
        scores = torch.zeros(len(self.given))
        scores[self.is_judged] = over_uniform[self.is_judged].gather(1, self.columns.unsqueeze(1)).squeeze(1)
        return scores


def _in_rounds(
    choice: Choice, transitions: Transitions, episodes: Episodes, config: ScreeningConfig, report: Report | None
) -> tuple[list[Judge], Tensor, Tensor]:  # (E,) scores of the given ones, (E,) int64 the likeliest ones
    """Until a round finds the labels that it learnt from; the judges are those of the last one."""
    likely, scales = choice.given, None
    for number in range(1, _MOST_ROUNDS + 1):
        current = with_instructions(transitions, episodes, likely)
        told = _told_of_round(report, number)
        judges = fit_recordings(current, config, told)
        evidence = torch.stack(
            [
                classified(current, episodes, choice.candidates, config, told),
                *(judge.favoured(current, episodes, choice.candidates) for judge in judges),
            ]
        )  # (3, E, K)
        if scales is None:  # later heads have heard of every given instruction by way of the labels found before
            scales = trusted_scales(evidence[:, choice.is_judged], choice.columns)
        together = torch.einsum("j,jek->ek", scales, evidence)
        found = choice.likeliest(together)
        if torch.equal(found, likely):
            break
        likely = found
    return judges, choice.given_scores(together), likely


def with_instructions(transitions: Transitions, episodes: Episodes, instructions: Tensor) -> Transitions:  # (E,)
    """The same chunks under these instructions; an episode that keeps its own keeps all that it has."""
    is_other = (instructions != episodes.first(transitions.task_ids))[episodes.rows]
    return replace(transitions, task_ids=torch.where(is_other, instructions[episodes.rows], transitions.task_ids))


@dataclass(frozen=True)
class Judge:
    """A question about what was recorded, with heads that answer it; None: what never changes says nothing."""

    question: Recording | None
    fitted: CrossFitted | None

    def scores(self, inputs: Tensor) -> Tensor:  # (N, inputs) -> (N,)
        """How well the recording is told from others."""
        if self.question is None or self.fitted is None:
            return torch.zeros(len(inputs))
        return self.question.scores(self.fitted.queries(inputs))

    def favoured(self, transitions: Transitions, episodes: Episodes, candidates: Tensor) -> Tensor:  # (E, K)
        """How much likelier each candidate makes what was recorded, by the mean over an episode's chunks."""
        if self.question is None or self.fitted is None:
            return torch.zeros(len(episodes.ids), len(candidates))
        inputs = _before(transitions)
        usual = self.fitted.queries(inputs)
        columns = []
        for candidate in candidates:
            queries = self.fitted.queries(_under_one(candidate, inputs))
            columns.append(self.question.log_likelihoods(queries, usual))
        return balanced(episodes.means(torch.stack(columns, dim=1)), transitions, episodes, candidates)


def fit_recordings(transitions: Transitions, config: ScreeningConfig, report: Report | None) -> list[Judge]:
    """Judges of consequence and action, both from what is known before the chunk is acted."""
    questions: list[tuple[str, Tensor, Callable[[], Recording]]] = [
        (
            "consequences",
            transitions.changes,
            lambda: WhichConsequence(transitions.changes, config.temperature, config.pool_size),
        ),
        ("actions", transitions.actions, lambda: WhichAction(transitions.actions, config.pool_size)),
    ]
    judges = []
    for name, recorded, ask in questions:
        if not recorded.shape[1]:
            judges.append(Judge(None, None))
            continue
        question = ask()
        judges.append(Judge(question, _fit(question, _before(transitions), transitions, config, report, name)))
    return judges


def classified(
    transitions: Transitions,
    episodes: Episodes,
    candidates: Tensor,  # (K,)
    config: ScreeningConfig,
    report: Report | None,
) -> Tensor:  # (E, K)
    """What a classifier says that sees observation, change and action."""
    question = WhichInstruction(transitions.task_ids, candidates, _TEMPERATURE)
    inputs = _around(transitions)
    fitted = _fit(question, inputs, transitions, config, report, "instructions")
    log_posteriors = episodes.means(question.log_posteriors(fitted.queries(inputs)))
    return balanced(log_posteriors, transitions, episodes, candidates)


def balanced(evidence: Tensor, transitions: Transitions, episodes: Episodes, candidates: Tensor) -> Tensor:  # (E, K)
    """Less each candidate's mean over the instructions: none is favoured for being common or easily predicted."""
    labels = episodes.first(transitions.task_ids)
    means = [evidence[labels == candidate].mean(dim=0) for candidate in candidates if (labels == candidate).any()]
    return evidence - torch.stack(means).mean(dim=0)


def _told_of_round(report: Report | None, number: int) -> Report | None:
    """The same report, which names every round but the first: most data need no other."""
    if report is None or number == 1:
        return report

    def tell(name: str, share: float) -> None:
        report(f"{name}, round {number} of at most {_MOST_ROUNDS}", share)

    return tell


def _is_wrong(scores: Tensor) -> Tensor:  # (E,) -> (E,) bool
    together = torch.zeros(len(scores), dtype=torch.int64)  # compared over all tasks
    return population_weights(fit_two_populations(scores, together), scores, together) <= STRONG_EVIDENCE


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


def _before(transitions: Transitions) -> Tensor:  # (N, inputs)
    """What is known before the chunk is acted: what consequence and action are identified from."""
    codes = INSTRUCTION_DIM**0.5 * instruction_codes(transitions.task_ids)
    return torch.cat([standardised(transitions.observations), codes], dim=1)


def _under_one(task: Tensor, inputs: Tensor) -> Tensor:  # (), (N, inputs) -> (N, inputs)
    """What ``_before`` gives, as if all chunks had the same instruction."""
    code = INSTRUCTION_DIM**0.5 * instruction_codes(task.view(1))
    return torch.cat([inputs[:, :-INSTRUCTION_DIM], code.expand(len(inputs), -1)], dim=1)


def _around(transitions: Transitions) -> Tensor:  # (N, inputs)
    """All but the instruction, which is identified from it."""
    changes = F.normalize(transitions.changes, dim=1)
    return torch.cat([standardised(transitions.observations), changes, transitions.actions], dim=1)
