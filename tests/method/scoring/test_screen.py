from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ptr_robot.errors import ConfigError, NonFiniteError, ShapeError
from ptr_robot.method.scoring import instruction_labels as instructions
from ptr_robot.method.scoring import screen as screening
from ptr_robot.method.scoring.cross_fit import standardised
from ptr_robot.method.scoring.screen import SCREENING_CHANNELS, ScreeningConfig, Transitions, screen
from ptr_robot.method.scoring.transitions import Episodes

QUICK = ScreeningConfig(steps=300, batch_size=128, pool_size=256, hidden_dim=32, num_folds=3, lr=5e-3)
EPISODES, CHUNKS, TASKS = 60, 12, 3


def lawful(seed: int = 0, tasks: torch.Tensor | None = None) -> Transitions:
    """Chunks whose change and action follow from observation and task, up to noise."""
    random = torch.Generator().manual_seed(seed)
    count = EPISODES * CHUNKS
    episodes = torch.arange(EPISODES).repeat_interleave(CHUNKS)
    tasks = (torch.arange(EPISODES) // 2 % TASKS if tasks is None else tasks)[episodes]
    observations = torch.randn(count, 6, generator=random)
    effects, habits = torch.randn(TASKS, 6, 5, generator=random), torch.randn(TASKS, 6, 8, generator=random)
    noise = 0.2 * torch.randn(count, 13, generator=random)
    changes = torch.einsum("ni,nio->no", observations, effects[tasks]) + noise[:, :5]
    actions = torch.einsum("ni,nio->no", observations, habits[tasks]) + noise[:, 5:]
    return Transitions(observations, changes, actions, tasks, episodes)


IS_FAULTY = torch.arange(EPISODES) % 5 < 1


def spoilt(kind: str) -> Transitions:
    """One in five episodes has one thing replaced by that of another chunk."""
    clean = lawful()
    rows = IS_FAULTY[clean.episode_ids]
    other = torch.randperm(len(rows), generator=torch.Generator().manual_seed(9))
    if kind == "instruction":
        return replace(clean, task_ids=torch.where(rows, (clean.task_ids + 1) % TASKS, clean.task_ids))
    name = {"outcome": "changes", "action": "actions"}[kind]
    values = getattr(clean, name)
    return replace(clean, **{name: torch.where(rows.unsqueeze(1), values[other], values)})


@pytest.mark.parametrize("kind", ["outcome", "action"])
def test_what_was_executed_badly_loses_its_weight_through_its_channel(kind):
    found = screen(spoilt(kind), QUICK)
    assert found.weights[IS_FAULTY].mean() < 0.2
    assert found.weights[~IS_FAULTY].mean() > 0.8
    assert found.z_scores[IS_FAULTY].max() < found.z_scores[~IS_FAULTY].median()
    drops = found.scores[~IS_FAULTY].mean(dim=0) - found.scores[IS_FAULTY].mean(dim=0)
    assert drops.argmax() == SCREENING_CHANNELS.index(kind)
    assert not found.is_corrected[~IS_FAULTY].any()


def test_a_wrong_instruction_is_corrected_and_the_episode_stays():
    found = screen(spoilt("instruction"), QUICK)
    true_tasks = (torch.arange(EPISODES) // 2) % TASKS
    assert (found.instructions == true_tasks).float().mean() > 0.95
    assert found.is_corrected[IS_FAULTY].float().mean() > 0.9
    assert not found.is_corrected[~IS_FAULTY].any()
    assert found.weights.mean() > 0.8
    assert found.z_scores[IS_FAULTY].max() < found.z_scores[~IS_FAULTY].median()


def test_an_episode_with_several_instructions_keeps_them():
    spoilt_ones = spoilt("instruction")
    first = torch.arange(len(spoilt_ones.task_ids)) % CHUNKS == 0
    several = torch.where(first, lawful().task_ids, spoilt_ones.task_ids)
    assert not screen(replace(spoilt_ones, task_ids=several), QUICK).is_corrected.any()


def test_a_rare_instruction_is_neither_corrected_nor_left_out():
    """Heads that hardly saw it would take any other for likelier."""
    data = lawful()
    is_rare = data.episode_ids < 5
    found = screen(replace(data, task_ids=torch.where(is_rare, TASKS + data.episode_ids, data.task_ids)), QUICK)
    assert found.instructions[:5].tolist() == [TASKS + number for number in range(5)]
    assert not found.is_corrected.any()
    assert (found.weights[:5] > 0).all()
    assert found.weights.mean() > 0.9


def test_instructions_of_one_scene_are_corrected_though_two_in_five_are_wrong():
    """Observations say nothing of the task, so only what is done in the scene does."""
    random = torch.Generator().manual_seed(3)
    episodes = torch.arange(EPISODES).repeat_interleave(CHUNKS)
    true_tasks = torch.arange(EPISODES) % 2
    observations = torch.randn(len(episodes), 6, generator=random)
    towards = torch.where(true_tasks == 0, 1.0, -1.0)[episodes].unsqueeze(1)
    noise = torch.randn(len(episodes), 10, generator=random)
    changes = torch.cat([towards + observations[:, :1], observations[:, 1:4]], dim=1) + 0.5 * noise[:, :4]
    actions = torch.cat([0.5 * towards + observations[:, :2], observations[:, 2:6]], dim=1) + noise[:, 4:]
    is_wrong = torch.randperm(EPISODES, generator=random) < 0.4 * EPISODES
    given = torch.where(is_wrong, 1 - true_tasks, true_tasks)
    found = screen(Transitions(observations, changes, actions, given[episodes], episodes), QUICK)
    assert (found.instructions == true_tasks).float().mean() > 0.95


def test_a_common_instruction_is_not_favoured():
    """One task has eight episodes of sixty: they keep their name, and give it to no other."""
    found = screen(lawful(tasks=torch.where(torch.arange(EPISODES) < 8, 0, 1 + torch.arange(EPISODES) % 2)), QUICK)
    assert not found.is_corrected.any()


@pytest.mark.parametrize("name", ["observations", "changes", "actions"])
def test_what_is_not_finite_is_named(name):
    data = lawful()
    values = getattr(data, name).clone()
    values[3, 0] = torch.nan
    with pytest.raises(NonFiniteError, match=name):
        replace(data, **{name: values})


@pytest.mark.parametrize("name", ["changes", "actions"])
def test_a_constant_recording_scores_zero(name):
    data = lawful()
    found = screen(replace(data, **{name: torch.ones_like(getattr(data, name))}), QUICK)
    assert (found.scores[:, SCREENING_CHANNELS.index("outcome" if name == "changes" else "action")] == 0).all()
    assert found.weights.mean() > 0.9


def test_one_instruction_cannot_be_wrong():
    found = screen(replace(lawful(), task_ids=torch.full((EPISODES * CHUNKS,), 4)), QUICK)
    assert (found.scores[:, SCREENING_CHANNELS.index("instruction")] == 0).all()
    assert (found.instructions == 4).all()


def test_lawful_data_keeps_its_weight():
    assert screen(lawful(), QUICK).weights.mean() > 0.9


def test_screening_repeats_itself_and_leaves_random_numbers_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, second = screen(spoilt("action"), QUICK), screen(spoilt("action"), QUICK)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.scores, second.scores)
    assert torch.equal(first.weights, second.weights)


def test_means_and_counts_are_those_of_the_episodes():
    found = screen(replace(lawful(), episode_ids=lawful().episode_ids + 7), QUICK)
    assert found.episode_ids.tolist() == list(range(7, 7 + EPISODES))
    assert found.num_chunks.tolist() == [CHUNKS] * EPISODES


def test_constant_columns_change_nothing():
    clean = lawful()
    wider = replace(
        clean, observations=torch.cat([clean.observations, torch.full((len(clean.task_ids), 4), 2.5)], dim=1)
    )
    assert torch.equal(screen(wider, QUICK).weights, screen(clean, QUICK).weights)


def test_pure_noise_is_at_chance_across_folds():
    """A head that overfitted its own samples would identify them; across folds nothing can be."""
    random = torch.Generator().manual_seed(0)
    clean = lawful()
    noise = replace(clean, changes=torch.randn(clean.changes.shape, generator=random))
    found = screen(noise, QUICK)
    assert found.scores[:, SCREENING_CHANNELS.index("outcome")].mean() < 0.05


def test_consequences_that_cannot_be_identified_do_not_hide_the_action_scores():
    """A camera that shows nothing of the task, say."""
    random = torch.Generator().manual_seed(0)
    faulty = spoilt("action")
    found = screen(replace(faulty, changes=torch.randn(faulty.changes.shape, generator=random)), QUICK)
    assert found.scores[:, SCREENING_CHANNELS.index("outcome")].mean() < 0
    assert found.weights[IS_FAULTY].mean() < 0.2
    assert found.weights[~IS_FAULTY].mean() > 0.8


@pytest.mark.parametrize("part", ["observations", "actions"])
def test_an_outlier_in_one_chunk_does_not_spoil_the_scores(part):
    faulty = spoilt("action")
    spiked = getattr(faulty, part).clone()
    spiked[CHUNKS + 3] = 300.0  # in a good episode
    found = screen(replace(faulty, **{part: spiked}), QUICK)
    assert found.weights[IS_FAULTY].mean() < 0.2
    assert found.weights[~IS_FAULTY].mean() > 0.8


def test_ordinary_values_are_standardised_and_outliers_clipped():
    values = torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(standardised(values), (values - values.mean(dim=0)) / (values.std(dim=0) + 1e-3))
    spiked = values.clone()
    spiked[0, 0] = 1e6
    drawn_in = standardised(spiked)
    assert drawn_in.abs().max() <= 10.01
    assert torch.equal(drawn_in[:, 1:], standardised(values)[:, 1:])
    assert 0.8 < drawn_in[1:, 0].std() < 1.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "screening.steps is 0"),
        ({"num_folds": 1}, "screening.num_folds is 1"),
        ({"keep_share": 0}, "keep_share"),
    ],
)
def test_bad_settings_are_named(change, message):
    with pytest.raises(ConfigError, match=message):
        ScreeningConfig(**change)


def test_parts_of_different_lengths_are_refused():
    with pytest.raises(ShapeError, match="different lengths"):
        replace(lawful(), task_ids=torch.zeros(3, dtype=torch.int64))


def test_rounds_after_the_first_are_named():
    names: list[str] = []
    screen(spoilt("instruction"), QUICK, lambda name, _: names.append(name))
    parts = ["screening: consequences", "screening: actions", "screening: instructions"]
    reported = list(dict.fromkeys(names))
    assert reported[:3] == parts
    assert reported[3:6] == [f"{part}, round 2 of at most 16" for part in parts]


def test_loud_noise_among_the_evidence_is_turned_down(monkeypatch):
    """The classifier is right and quiet, the scorers are loud and know nothing: labels are those of the classifier."""
    data = spoilt("instruction")
    true_tasks = (torch.arange(EPISODES) // 2) % TASKS
    random = torch.Generator().manual_seed(4)
    quiet = 3 * torch.nn.functional.one_hot(true_tasks, TASKS).float()
    loud = [4 * torch.randn(EPISODES, TASKS, generator=random) for _ in range(2)]

    class Noise(instructions.HeldOutScorer):
        def __init__(self, noise: torch.Tensor) -> None:
            super().__init__(None, None)
            object.__setattr__(self, "noise", noise)

        def evidence(self, *_: object) -> torch.Tensor:
            return self.noise

    monkeypatch.setattr(instructions, "classified", lambda *_: quiet)
    monkeypatch.setattr(instructions, "fit_recordings", lambda *_: [Noise(noise) for noise in loud])
    _, found = instructions.score_episodes(data, Episodes.of(data), QUICK)
    assert (found == true_tasks).float().mean() > 0.9
    assert (sum(loud, quiet).argmax(dim=1) == true_tasks).float().mean() < 0.7


def test_a_given_instruction_never_loses_all_of_its_episodes(monkeypatch):
    """All of its episodes are taken for another task's, and for the worst of it."""
    given = (torch.arange(EPISODES) >= 40).long()
    data = lawful(tasks=given)
    level = torch.where(given == 1, -3.0, 3.0) + 0.1 * torch.linspace(-1, 1, EPISODES)
    means = torch.stack([level, level, torch.zeros(EPISODES)], dim=1)
    monkeypatch.setattr(screening, "score_episodes", lambda *_: (means, torch.zeros_like(given)))
    found = screen(data, QUICK)
    assert (found.weights[given == 0] == 1).all()
    is_kept = found.weights[given == 1] > 0
    assert is_kept.sum() == 5  # a quarter of twenty
    assert is_kept[-5:].all()  # the best of them
