from __future__ import annotations

import math

import pytest
import torch

from ptr_robot.method.scoring.calibration import log_joint, trusted_scales, weight_of_given

EPISODES, TASKS = 120, 3


def labels(seed: int, wrong: float = 0.4) -> tuple[torch.Tensor, torch.Tensor]:
    """The instructions that are meant and those that were given, of which a share is another one."""
    random = torch.Generator().manual_seed(seed)
    meant = torch.arange(EPISODES) % TASKS
    shift = torch.randint(1, TASKS, (EPISODES,), generator=random)
    is_wrong = torch.rand(EPISODES, generator=random) < wrong
    return meant, torch.where(is_wrong, (meant + shift) % TASKS, meant)


def telling(meant: torch.Tensor, seed: int, strength: float) -> torch.Tensor:  # (E, K)
    noise = torch.randn(EPISODES, TASKS, generator=torch.Generator().manual_seed(seed))
    return strength * torch.nn.functional.one_hot(meant, TASKS) + noise


@pytest.mark.parametrize("seed", range(3))
def test_evidence_that_predicts_is_trusted_more_than_loud_noise(seed):
    meant, given = labels(seed)
    evidence = torch.stack([telling(meant, 10 + seed, 2.0), 3 * telling(meant, 20 + seed, 0.0)])
    scales = trusted_scales(evidence, given)
    assert scales[0] > 1.5 * scales[1]
    as_they_come = (evidence.sum(dim=0).argmax(dim=1) == meant).float().mean()
    as_trusted = (torch.einsum("j,jek->ek", scales, evidence).argmax(dim=1) == meant).float().mean()
    assert as_trusted > as_they_come + 0.05


def test_a_few_episodes_move_the_scales_little():
    meant, given = labels(0)
    evidence = torch.stack([telling(meant, 1, 2.0), telling(meant, 2, 0.0)])[:, :6]
    assert trusted_scales(evidence, given[:6]).log().abs().max() < 0.5


def test_evidence_that_says_nothing_keeps_its_scale():
    given = labels(0)[1]
    assert torch.allclose(trusted_scales(torch.zeros(2, EPISODES, TASKS), given), torch.ones(2), atol=1e-4)


def test_the_joint_is_that_of_plain_loops():
    meant, given = labels(4)
    evidence = torch.stack([telling(meant, 5, 1.0), telling(meant, 6, 0.5)]).double()
    log_scales, noise_logit = torch.tensor([0.3, -0.7]).double(), torch.tensor(-0.4).double()
    noise = 1 / (1 + math.exp(0.4))
    expected = -0.5 * ((0.3 / 0.5) ** 2 + (0.7 / 0.5) ** 2 + ((-0.4 + 1) / 2) ** 2)
    for episode in range(EPISODES):
        logits = [
            math.exp(0.3) * float(a) + math.exp(-0.7) * float(b) for a, b in zip(*evidence[:, episode], strict=True)
        ]
        total = sum(math.exp(logit) for logit in logits)
        expected += math.log((1 - noise) * math.exp(logits[int(given[episode])]) / total + noise / TASKS)
    assert log_joint(evidence, given, log_scales, noise_logit).item() == pytest.approx(expected)


def test_no_other_scales_are_more_probable():
    meant, given = labels(7)
    evidence = torch.stack([telling(meant, 8, 1.5), telling(meant, 9, 0.2)])
    best = trusted_scales(evidence, given).double().log()
    logits = torch.linspace(-6, 4, 201).double()

    def highest(log_scales: torch.Tensor) -> float:
        return max(float(log_joint(evidence.double(), given, log_scales, logit)) for logit in logits)

    for step in torch.tensor([[0.1, 0.0], [-0.1, 0.0], [0.0, 0.1], [0.0, -0.1]]).double():
        assert highest(best + step) < highest(best)


def test_it_works_where_gradients_are_off():
    meant, given = labels(3)
    with torch.no_grad():
        assert trusted_scales(telling(meant, 3, 2.0).unsqueeze(0), given).shape == (1,)


@pytest.mark.parametrize("wrong", [0.45, 0.55])
def test_what_is_given_weighs_as_much_as_it_is_right(wrong):
    """Where evidence leaves no doubt the weight is known: log of right over wrong, of which there are two ways."""
    meant, given = labels(11, wrong)
    share = float((meant != given).float().mean())
    assert share > 0.4
    certain = torch.nn.functional.one_hot(meant, TASKS).float()
    assert weight_of_given(certain, given) == pytest.approx(math.log((1 - share) / (share / (TASKS - 1))), rel=1e-3)


def test_what_is_given_at_random_weighs_nothing_and_what_is_always_right_as_if_two_in_five_were_wrong():
    meant = torch.arange(EPISODES) % TASKS
    certain = torch.nn.functional.one_hot(meant, TASKS).float()
    spread = torch.arange(EPISODES) // TASKS % TASKS  # each as often as any other, whatever is meant
    assert weight_of_given(certain, spread) < 0.2
    assert weight_of_given(certain, meant) == pytest.approx(math.log(0.6 / 0.2))
