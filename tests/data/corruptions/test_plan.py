"""Which episodes are hit, and how: counts, ranges and independence, for any lengths, instructions and seeds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptr_robot.data.corruptions import ActionNoise, LabelNoise, Truncation, paper_corruptions
from ptr_robot.data.corruptions.plan import EpisodeEdit, PlannedEpisode, noise_generator, plan_edits
from ptr_robot.data.corruptions.truth import episode_truth
from ptr_robot.data.ground_truth import EpisodeTruth, Fault
from ptr_robot.errors import ConfigError, DataError

INSTRUCTIONS = ("open the door", "press the button", "lift the cube")

episode_lists = st.lists(st.tuples(st.integers(10, 300), st.sampled_from(INSTRUCTIONS)), min_size=5, max_size=20)


def planned(pairs):
    return [PlannedEpisode(index, length, (task,)) for index, (length, task) in enumerate(pairs)]


@settings(max_examples=40)
@given(episode_lists, st.integers(0, 2**32), st.floats(0.2, 1.0))
def test_truncation_hits_the_stated_number_and_keeps_lengths_in_range(pairs, seed, fraction):
    episodes = planned(pairs)
    edits = plan_edits(episodes, [Truncation(fraction=fraction)], seed)
    cut = {index: edit.kept_frames for index, edit in edits.items() if edit.kept_frames is not None}
    assert len(cut) == round(fraction * len(pairs))
    for index, kept in cut.items():
        assert 4 * pairs[index][0] <= 10 * kept <= 7 * pairs[index][0]


@settings(max_examples=40)
@given(episode_lists, st.integers(0, 2**32))
def test_label_noise_never_gives_an_episode_its_own_instruction(pairs, seed):
    episodes = planned([*pairs, (10, INSTRUCTIONS[0]), (10, INSTRUCTIONS[1])])
    edits = plan_edits(episodes, [LabelNoise(fraction=1.0)], seed)
    used = {episode.instructions[0] for episode in episodes}
    for episode in episodes:
        assert edits[episode.index].instruction in used - set(episode.instructions)


@settings(max_examples=40)
@given(episode_lists, st.integers(0, 2**32))
def test_combined_is_the_three_kinds_drawn_apart(pairs, seed):
    episodes = planned([*pairs, (10, INSTRUCTIONS[0]), (10, INSTRUCTIONS[1])])
    combined = plan_edits(episodes, paper_corruptions("combined"), seed)
    alone = [plan_edits(episodes, paper_corruptions(kind), seed) for kind in ("ani", "tt", "ln")]
    for index, edit in combined.items():
        noise, truncation, label = (edits[index] for edits in alone)
        assert edit == EpisodeEdit(noise.noise, truncation.kept_frames, label.instruction)


def test_the_papers_fractions_are_the_defaults():
    episodes = planned([(100, INSTRUCTIONS[number % 3]) for number in range(200)])
    edits = plan_edits(episodes, paper_corruptions("combined"), seed=4).values()
    assert sum(edit.noise is not None for edit in edits) == 60
    assert sum(edit.kept_frames is not None for edit in edits) == 50
    assert sum(edit.instruction is not None for edit in edits) == 40
    # Independent draws: some 3 of 200 get all three (0.3 * 0.25 * 0.2), and nothing forbids an overlap.
    assert any(edit.noise and edit.kept_frames for edit in edits)


def test_truncated_lengths_cover_the_whole_range():
    episodes = planned([(10, INSTRUCTIONS[0])] * 200)
    edits = plan_edits(episodes, [Truncation(fraction=1.0)], seed=0)
    assert {edit.kept_frames for edit in edits.values()} == {4, 5, 6, 7}


def test_seeds_choose_other_episodes():
    episodes = planned([(100, INSTRUCTIONS[number % 3]) for number in range(40)])
    plans = [plan_edits(episodes, paper_corruptions("combined"), seed) for seed in (0, 0, 1)]
    assert plans[0] == plans[1] != plans[2]
    first, second = (noise_generator(0, index).standard_normal(50) for index in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.5


def test_an_episode_of_one_frame_is_never_cut():
    episodes = planned([(1, "a"), (1, "a"), (9, "a"), (9, "a")])
    edits = plan_edits(episodes, [Truncation(fraction=0.5)], seed=0)
    assert [edits[index].kept_frames is None for index in range(4)] == [True, True, False, False]
    with pytest.raises(DataError, match=r"3 of 4 episodes.*only 2 are long enough"):
        plan_edits(episodes, [Truncation(fraction=0.75)], seed=0)


def test_label_noise_needs_a_second_instruction():
    with pytest.raises(DataError, match="only 'a'"):
        plan_edits(planned([(9, "a"), (9, "a")]), [LabelNoise(fraction=1.0)], seed=0)
    both = [PlannedEpisode(0, 9, ("a", "b")), PlannedEpisode(1, 9, ("a",))]
    with pytest.raises(DataError, match=r"2 of 2 episodes.* 1 can"):
        plan_edits(both, [LabelNoise(fraction=1.0)], seed=0)


def test_a_fraction_of_less_than_one_episode_is_refused():
    with pytest.raises(DataError, match=r"0\.05 of 4 episodes"):
        plan_edits(planned([(9, "a")] * 4), [ActionNoise(fraction=0.05)], seed=0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fraction": 0.0}, "fraction"),
        ({"fraction": 1.2}, "1.2"),
        ({"sigma": -1.0}, "sigma is -1.0"),
        ({"noise_unit": "rw"}, "did you mean 'raw'"),
        ({"keep_from": 0.8}, "keep_from is 0.8"),
        ({"kind": "any"}, "did you mean 'ani'"),
    ],
)
def test_settings_out_of_range_are_named(changed, message):
    with pytest.raises(ConfigError, match=message):
        paper_corruptions(**{"kind": "combined", **changed})


def test_earlier_truth_is_kept_and_cut_to_the_frames_that_stay():
    known = EpisodeTruth(7, (Fault("pause", 2, 12), Fault("detour", 15, 18)), operator="novice", is_success=True)
    truth = episode_truth(PlannedEpisode(7, 20, ("a",)), EpisodeEdit(kept_frames=10), known)
    assert [(fault.kind, fault.first_frame, fault.last_frame) for fault in truth.faults] == [
        ("pause", 2, 9),
        ("truncation", 9, 9),
    ]
    assert (truth.operator, truth.is_success) == ("novice", None)
    assert episode_truth(PlannedEpisode(7, 20, ("a",)), EpisodeEdit(), known) == known
