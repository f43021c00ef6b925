"""Who records how many episodes, and operators of one's own."""

from __future__ import annotations

from collections import Counter

import pytest

from ptr_robot.envs.collection import plan_episodes, resolve_mixture
from ptr_robot.envs.operators import OPERATORS, OperatorConfig, read_operators
from ptr_robot.errors import ConfigError


def test_shares_are_kept_to_the_nearest_episode():
    mixture = resolve_mixture({"brisk": 2, "steady": 1, "jittery": 1}, OPERATORS, None)
    planned = plan_episodes(["reach-v3", "push-v3"], 10, mixture, seed=0)
    for task in ("reach-v3", "push-v3"):
        counts = Counter(episode.operator for episode in planned if episode.task == task)
        assert counts["brisk"] == 5
        assert {counts["steady"], counts["jittery"]} == {2, 3}
    assert [episode.episode_index for episode in planned] == list(range(20))


def test_fault_fraction_sets_what_the_faulty_have_together():
    mixture = resolve_mixture({"brisk": 3, "steady": 1, "jittery": 1, "poor": 1}, OPERATORS, 0.2)
    assert mixture == pytest.approx({"brisk": 0.6, "steady": 0.2, "jittery": 0.1, "poor": 0.1})
    assert resolve_mixture({"brisk": 1, "poor": 1}, OPERATORS, 0.0) == {"brisk": 1.0}


@pytest.mark.parametrize("total", [1, 5, 6, 8, 10, 20, 40])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 0.6, 1.0])
def test_as_many_episodes_are_faulty_as_was_asked_for(fraction, total):
    names = ("brisk", "steady", "careful", "fumbling", "quitting", "wandering", "jittery")
    mixture = resolve_mixture(dict.fromkeys(names, 1.0), OPERATORS, fraction)
    planned = plan_episodes(["reach-v3"], total, mixture, seed=0)
    faulty = [OPERATORS[episode.operator].is_faulty for episode in planned]
    assert len(faulty) == total
    assert abs(sum(faulty) - fraction * total) <= 0.5 + 1e-9
    counts = Counter(episode.operator for episode in planned)
    for group in (names[:3], names[3:]):  # shares within a group are as even as whole numbers can be
        numbers = [counts[name] for name in group]
        assert max(numbers) - min(numbers) <= 1


def test_a_task_is_planned_the_same_beside_any_other():
    mixture = resolve_mixture({"brisk": 1, "jittery": 1}, OPERATORS, None)
    alone = plan_episodes(["push-v3"], 6, mixture, seed=3)
    together = plan_episodes(["reach-v3", "push-v3"], 6, mixture, seed=3)[6:]
    assert [(e.operator, e.seeds) for e in alone] == [(e.operator, e.seeds) for e in together]
    seeds = {episode.seeds for episode in plan_episodes(["reach-v3", "push-v3"], 6, mixture, seed=3)}
    assert len(seeds) == 12
    assert seeds.isdisjoint(episode.seeds for episode in plan_episodes(["push-v3"], 6, mixture, seed=4))


@pytest.mark.parametrize(
    ("shares", "fraction", "words"),
    [
        ({"brisck": 1}, None, "did you mean 'brisk'"),
        ({"brisk": 0}, None, "must be above 0"),
        ({"brisk": float("nan")}, None, "must be above 0"),
        ({"brisk": float("inf")}, None, "must be above 0"),
        ({}, None, "no operator"),
        ({"brisk": 1}, 0.5, "needs a faulty operator"),
        ({"poor": 1}, 0.5, "needs a clean operator"),
        ({"poor": 1, "brisk": 1}, 1.5, "choose 0 to 1"),
    ],
)
def test_impossible_mixtures_are_refused(shares, fraction, words):
    with pytest.raises(ConfigError, match=words):
        resolve_mixture(shares, OPERATORS, fraction)


def test_operators_of_ones_own(tmp_path):
    path = tmp_path / "operators.yaml"
    path.write_text(
        "shaky: {skill: trembles a lot, faults: [jitter, detour], faults_per_episode: [2, 2], severity: 1.5}\n"
    )
    operators = read_operators(path)
    assert operators["brisk"] == OPERATORS["brisk"]
    assert operators["shaky"] == OperatorConfig(
        "trembles a lot", faults=("jitter", "detour"), faults_per_episode=(2, 2), severity=1.5
    )


@pytest.mark.parametrize("episodes", [0, 10**9])
def test_as_many_episodes_are_planned_as_can_be(episodes):
    with pytest.raises(ConfigError, match=f"episodes={episodes} must be 1 to 1000000"):
        plan_episodes(["reach-v3"], episodes, {"brisk": 1.0}, seed=0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shaky: {faults: [jiter]}", "'shaky'.*did you mean 'jitter'"),
        ("shaky: {sped: [0.1, 1]}", "'shaky'.*did you mean 'speed'"),
        ("shaky: {speed: [0.9, 0.5]}", r"'shaky'.*speed=\(0.9, 0.5\) must be two increasing"),
        ("shaky: {speed: {slow: 0.1, fast: 1}}", r"'shaky'.*speed=\{.* must be two increasing"),
        ("shaky: {speed: ab}", "speed=ab must be two increasing"),
        ("shaky: {severity: 0}", "severity=0 must be above 0"),
        ("shaky: 3", "must map settings to values"),
        ("- shaky", "must map operator names"),
        ("a: [", "not valid YAML"),
        ("shaky: {severity: 1}\nsteady: {speed: 1]\n", r"operators.yaml, line 2, column 18: not .* got '\]'"),
        ("müde: {}", "not a text in UTF-8"),
    ],
)
def test_bad_operator_files_are_refused_in_one_line(tmp_path, text, words):
    path = tmp_path / "operators.yaml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=words) as caught:
        read_operators(path)
    assert "\n" not in str(caught.value)
