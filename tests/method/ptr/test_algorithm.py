"""One step of PTR against plain loops, and what must hold of any step."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ptr_robot.errors import ConfigError
from ptr_robot.method import (
    BeliefConfig,
    PoolConfig,
    PTRConfig,
    ScorerConfig,
    TargetConfig,
    WeightConfig,
)
from ptr_robot.method.folds import assign_folds
from ptr_robot.method.ptr.controller import STATISTICS
from ptr_robot.method.ptr.posterior import other_samples
from tests.method import reference
from tests.method.conftest import ACTION_DIM, LENGTH, NO_WARMUP, make_batch, make_ptr


def config(folds: int = 1, **weights) -> PTRConfig:
    return PTRConfig(scorer=ScorerConfig(hidden_dim=8, num_folds=folds), weights=replace(NO_WARMUP, **weights))


def reference_step(ptr, chunk, samples):
    """Scores, margins, weights, every loss and the controller's means of one step, sample by sample, in plain loops."""
    cfg, tau, beta = ptr.config, ptr.controller.temperature, ptr.controller.beta
    count, folds = len(chunk.action_losses), cfg.scorer.num_folds
    fold_of = assign_folds(samples.episode_ids, folds, cfg.seed).tolist() if folds > 1 else [0] * count
    valid = samples.has_target.tolist()
    drawn = ptr.pool.draw(
        samples.sample_ids, samples.task_ids, samples.states, hard_ratio=ptr.controller.hard_ratio, step=ptr.step
    )
    partner = other_samples(samples.sample_ids, samples.has_target, cfg.pool.seed, ptr.step)[0].tolist()

    def tokenize(i, j):
        """The states of one sample with the actions of another, or of the same."""
        states, tokens = chunk.action_states[i].tolist(), chunk.action_tokens[j].tolist()
        fuse, assign = ptr.belief.fuse.weight.tolist(), ptr.belief.assign.weight.tolist()
        return reference.tokenize(states, tokens, fuse, assign, cfg.belief.temperature)

    def summary(i, j):
        action = reference.mean_rows(chunk.action_tokens[j].tolist())
        return action + (reference.mean_rows(tokenize(i, j)["rebuilt"]) if cfg.belief.informs_scorer else [])

    tokenized = [tokenize(i, i) for i in range(count)]
    scores, margins, weights, identification, ranking, among_others = [], [], [], [], [], []
    for i in range(count):
        if not valid[i]:
            scores.append(0.0)
            margins.append(0.0)
            weights.append(1.0)
            continue
        negatives = [
            samples.targets[j].tolist()
            for j in range(count)
            if valid[j] and samples.sample_ids[j] != samples.sample_ids[i]
        ]
        negatives += [ptr.pool.queue.targets[q].tolist() for q in range(ptr.pool.queue.size) if drawn[i, q]]
        own = samples.targets[i].tolist()
        own_loss, own_rank, heads = 0.0, 0.0, 0
        for fold in range(folds):
            u = reference.query(ptr.scorer.heads, fold, chunk.contexts[i].tolist(), summary(i, i))
            logits = [reference.logit(u, y, tau, cfg.scorer.logit_clamp) for y in [own, *negatives]]
            if fold == fold_of[i]:
                scores.append(reference.score(logits))
                margins.append(logits[0] - max(logits[1:]) if negatives else 0.0)
                if negatives:
                    among_others.append(i)
            if folds == 1 or fold != fold_of[i]:
                other = reference.query(ptr.scorer.heads, fold, chunk.contexts[i].tolist(), summary(i, partner[i]))
                d_other = reference.logit(other, own, tau, cfg.scorer.logit_clamp)
                own_loss += -math.log(reference.softmax(logits)[0])
                own_rank += -math.log(1 / (1 + math.exp(-(logits[0] - d_other))))
                heads += 1
        identification.append(own_loss / heads)
        ranking.append(own_rank / heads)
        weights.append(reference.weight(scores[-1], beta, cfg.weights.alpha, cfg.weights.w_min, cfg.weights.w_max))
    losses = chunk.action_losses.tolist()
    action = sum(w * x for w, x in zip(weights, losses, strict=True)) / sum(weights)
    tok = sum(1e-3 * t["entropy"] + 1e-3 * t["overlap"] for t in tokenized) / count
    id_loss = sum(identification) / len(identification)
    rank_loss = sum(ranking) / len(ranking)
    return {
        "scores": scores,
        "margins": margins,
        "weights": weights,
        "action": action,
        "plain": sum(losses) / len(losses),
        "id": id_loss,
        "rank": rank_loss,
        "tok": tok,
        "total": action + 0.05 * id_loss + 0.25 * rank_loss + tok,
        "accuracy": sum(margins[i] > 0 for i in among_others) / len(among_others),
        "margin": sum(margins[i] for i in among_others) / len(among_others),
        "score": sum(scores[i] for i in among_others) / len(among_others),
        "valid_ratio": sum(valid) / count,
    }


@pytest.mark.parametrize("folds", [1, 3])
@pytest.mark.parametrize(("hard_ratio", "informs_scorer"), [(0.0, False), (0.5, False), (0.5, True)])
def test_a_step_equals_plain_loops(folds, hard_ratio, informs_scorer, trained):
    pool, belief = PoolConfig(queue_size=24, max_queue_negatives=6), BeliefConfig(informs_scorer=informs_scorer)
    cfg = replace(config(folds, alpha=0.7), pool=pool, belief=belief)
    ptr = trained(make_ptr(cfg))
    ptr.controller.hard_ratio = hard_ratio
    chunk, samples = make_batch(seed=99, first_id=25)  # some ids are in the queue already
    samples = replace(samples, targets=samples.targets * torch.linspace(0.1, 50, 10).unsqueeze(1))  # of any length
    output = ptr(chunk, samples)
    expected = reference_step(ptr, chunk, samples)
    torch.testing.assert_close(output.scores, torch.tensor(expected["scores"]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(output.margins, torch.tensor(expected["margins"]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(output.weights, torch.tensor(expected["weights"]), rtol=1e-4, atol=1e-5)
    assert output.action_loss.item() == pytest.approx(expected["action"], rel=1e-4)
    assert output.plain_action_loss.item() == pytest.approx(expected["plain"], rel=1e-4)
    assert output.identification_loss.item() == pytest.approx(expected["id"], rel=1e-4)
    assert output.ranking_loss.item() == pytest.approx(expected["rank"], rel=1e-4)
    assert output.tokenizer_loss.item() == pytest.approx(expected["tok"], rel=1e-4)
    assert output.loss.item() == pytest.approx(expected["total"], rel=1e-4)


@pytest.mark.parametrize("folds", [1, 3])
def test_the_controller_sees_the_means_over_what_has_negatives(folds, trained):
    ptr = trained(make_ptr(replace(config(folds), pool=PoolConfig(queue_size=24, max_queue_negatives=2))))
    ptr.controller.averages.fill_(math.nan)  # nothing seen yet: the next step's means become the averages
    ptr.controller.temperature = 1.0  # so that leads are narrow
    chunk, samples = make_batch(6, seed=1, first_id=25)
    ptr(chunk, samples)
    expected = reference_step(ptr, chunk, samples)
    assert any(0 < margin < 1 for margin in expected["margins"])
    assert 0 < expected["accuracy"] < 1
    assert 0 < expected["valid_ratio"] < 1
    ptr.update()
    averages = dict(zip(STATISTICS, ptr.controller.averages.tolist(), strict=True))
    assert averages == pytest.approx({name: expected[name] for name in STATISTICS}, rel=1e-4, abs=1e-5)


def test_gradient_of_the_action_loss_is_the_normalised_weight(trained):
    """Eq. grad_scale: each sample's gradient is scaled by w / Σw."""
    ptr = trained(make_ptr())
    chunk, samples = make_batch(seed=5, grad=True)
    output = ptr(chunk, samples)
    output.loss.backward()
    torch.testing.assert_close(chunk.action_losses.grad, output.weights / output.weights.sum())


def test_weights_are_one_during_warmup_while_the_scorer_learns():
    ptr = make_ptr(config(warmup_steps=2))
    for step in range(4):
        output = ptr(*make_batch(seed=step))
        scored = output.weights[output.is_scored]
        if step < 2:
            assert (output.weights == 1).all()
        else:
            assert (scored != 1).any()
        ptr.zero_grad()
        output.loss.backward()
        assert ptr.scorer.heads.output.weight.grad.abs().sum() > 0
        ptr.update()


def test_missing_target_weighs_exactly_one_and_is_out_of_the_scorers_losses(trained):
    ptr = trained(make_ptr())
    chunk, samples = make_batch(seed=3)
    output = ptr(chunk, samples)
    missing = ~samples.has_target
    assert missing.any()
    assert (output.weights[missing] == 1).all()
    other = replace(samples, targets=torch.where(missing.unsqueeze(1), float("nan"), samples.targets))
    again = ptr(chunk, other)
    assert again.identification_loss == output.identification_loss
    assert again.ranking_loss == output.ranking_loss
    torch.testing.assert_close(again.weights, output.weights, rtol=0, atol=0)


def test_neutral_fallback_is_the_mean_of_the_scored_weights(trained):
    ptr = trained(make_ptr(config(fallback="mean")))
    output = ptr(*make_batch(seed=3))
    assert (~output.is_scored).any()
    mean = output.weights[output.is_scored].mean()
    torch.testing.assert_close(output.weights[~output.is_scored], mean.expand((~output.is_scored).sum()))


def test_offset_discounts():
    chunk, samples = make_batch(seed=3, valid=torch.ones(10, dtype=torch.bool))
    samples = replace(samples, offsets=torch.linspace(0, 2, 10))
    plain = make_ptr()
    discounted = make_ptr(
        PTRConfig(
            scorer=ScorerConfig(hidden_dim=8, offset_discount=0.5), weights=replace(NO_WARMUP, offset_discount=0.5)
        )
    )
    a, b = plain(chunk, samples), discounted(chunk, samples)
    gamma = 0.5**samples.offsets
    torch.testing.assert_close(b.weights, 1 + gamma * (a.weights - 1))
    torch.testing.assert_close(b.scores, a.scores)
    torch.testing.assert_close(b.identification_loss, (gamma * -a.log_posteriors).mean())


def test_padding_chunks_count_nowhere(trained):
    ptr = trained(make_ptr())
    chunk, samples = make_batch(12, seed=3)
    padding = torch.arange(12) >= 10
    action_is_pad = padding.unsqueeze(1).expand(12, LENGTH)
    padded = ptr(replace(chunk, action_is_pad=action_is_pad), replace(samples, chunk_is_pad=padding))
    short = ptr(*(_first(value, 10) for value in (chunk, samples)))
    torch.testing.assert_close(padded.loss, short.loss)
    torch.testing.assert_close(padded.weights[:10], short.weights)
    assert (padded.weights[10:] == 0).all()
    assert padded.sample_count == 10


@pytest.mark.parametrize("has_belief", [True, False])
def test_padded_steps_are_in_no_action_summary(has_belief, trained):
    """A chunk of two real steps and two padded ones is scored as the chunk of its two real steps."""
    ptr = trained(make_ptr(replace(config(), belief=BeliefConfig(enabled=has_belief))))
    chunk, samples = make_batch(8, seed=3)
    action_is_pad = torch.zeros(8, LENGTH, dtype=torch.bool)
    action_is_pad[:, 2:] = True
    padded = ptr(replace(chunk, action_is_pad=action_is_pad), samples)
    short = replace(chunk, action_tokens=chunk.action_tokens[:, :2], action_states=chunk.action_states[:, :2])
    expected = ptr(short, samples)
    torch.testing.assert_close(padded.scores, expected.scores)
    torch.testing.assert_close(padded.ranking_loss, expected.ranking_loss)
    assert not torch.allclose(ptr(chunk, samples).scores, expected.scores)


def _first(value, count):
    cut = {k: v[:count] for k, v in vars(value).items() if isinstance(v, torch.Tensor)}
    return replace(value, **cut)


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), count=st.integers(1, 12), folds=st.sampled_from([1, 2, 4]))
def test_permuting_the_batch_permutes_the_weights(seed, count, folds):
    ptr = make_ptr(replace(config(folds), pool=PoolConfig(queue_size=16, max_queue_negatives=4)))
    ptr(*make_batch(20, seed=seed + 1, first_id=100))
    ptr.update()
    chunk, samples = make_batch(count, seed=seed)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    shuffled = [
        replace(value, **{k: v[order] for k, v in vars(value).items() if isinstance(v, torch.Tensor)})
        for value in (chunk, samples)
    ]
    straight, permuted = ptr(chunk, samples), ptr(*shuffled)
    torch.testing.assert_close(permuted.weights, straight.weights[order], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(permuted.scores, straight.scores[order], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(permuted.loss, straight.loss, rtol=1e-5, atol=1e-6)


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), count=st.integers(1, 12))
def test_no_score_exceeds_the_log_of_its_candidates(seed, count):
    output = make_ptr()(*make_batch(count, seed=seed))
    assert (output.scores <= output.candidate_counts.float().log() + 1e-5).all()


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), count=st.integers(1, 33))
def test_all_targets_missing_is_bitwise_the_plain_loss(seed, count):
    cfg = PTRConfig(belief=BeliefConfig(enabled=False), weights=NO_WARMUP)
    chunk, samples = make_batch(count, seed=seed, valid=torch.zeros(count, dtype=torch.bool), grad=True)
    make_ptr(cfg)(chunk, samples).loss.backward()
    plain = chunk.action_losses.detach().clone().requires_grad_()
    plain.mean().backward()
    assert make_ptr(cfg)(chunk, samples).loss.equal(chunk.action_losses.mean())
    assert chunk.action_losses.grad.equal(plain.grad)


def test_uniform_posterior_gives_score_zero_and_weight_one():
    """Equal targets cannot be separated: every logit is the same."""
    chunk, samples = make_batch(8, valid=torch.ones(8, dtype=torch.bool))
    samples = replace(samples, targets=samples.targets[:1].expand(8, -1))
    output = make_ptr()(chunk, samples)
    torch.testing.assert_close(output.scores, torch.zeros(8), atol=1e-6, rtol=0)
    torch.testing.assert_close(output.weights, torch.ones(8), atol=1e-6, rtol=0)


def test_batch_of_one_with_an_empty_queue_is_uniform_supervision():
    chunk, samples = make_batch(1, valid=torch.ones(1, dtype=torch.bool))
    output = make_ptr()(chunk, samples)
    assert output.scores.tolist() == [0.0]
    assert output.weights.tolist() == [1.0]
    assert output.candidate_counts.tolist() == [1]
    assert output.identification_loss == 0
    assert output.ranking_loss == 0


def test_change_targets_are_the_normalised_difference():
    ptr = make_ptr(PTRConfig(targets=TargetConfig(kind="change")))
    before, after = torch.randn(4, 6), torch.randn(4, 6)
    targets = ptr.make_targets(after, before)
    for row in range(4):
        expected = reference.unit((after[row] - before[row]).tolist())
        torch.testing.assert_close(targets[row], torch.tensor(expected))
    assert (ptr.make_targets(after, after) == 0).all()  # nothing changed: no direction, not NaN


def test_belief_reconstructions_inform_the_scorer_only_when_switched_on():
    on = make_ptr(PTRConfig(belief=BeliefConfig(informs_scorer=True)))
    assert make_ptr().scorer.heads.action_in.weight.shape[1] == ACTION_DIM  # e_t = pool(E_t), as the paper has it
    assert on.scorer.heads.action_in.weight.shape[1] == 2 * ACTION_DIM


def test_another_weight_map_can_stand_in():
    class KeepBetterHalf:
        bounds = (0.0, 1.0)

        def __call__(self, scores, beta):
            return (scores >= scores.median()).float()

    ptr = make_ptr(weight_map=KeepBetterHalf())
    output = ptr(*make_batch(9, valid=torch.ones(9, dtype=torch.bool)))
    assert sorted(output.weights.tolist()) == [0.0] * 4 + [1.0] * 5


def test_a_weight_map_sees_the_scored_samples_alone():
    seen = []

    class Watch:
        bounds = (0.0, 2.0)

        def __call__(self, scores, beta):
            seen.append(scores)
            return torch.full_like(scores, 2.0)

    chunk, samples = make_batch(10)
    output = make_ptr(weight_map=Watch())(chunk, samples)
    torch.testing.assert_close(seen[0], output.scores[samples.has_target])
    assert output.weights.tolist() == [2.0 if has else 1.0 for has in samples.has_target.tolist()]


def test_a_weight_map_that_breaks_its_promise_is_named():
    class Liar:
        bounds = (0.5, 2.0)

        def __call__(self, scores, beta):
            return torch.full_like(scores, 3.0)

    with pytest.raises(ConfigError, match=r"Liar gave weights outside its bounds \[0.5, 2.0\]"):
        make_ptr(weight_map=Liar())(*make_batch())


def test_weights_that_are_all_zero_give_no_action_loss():
    class Nothing:
        bounds = (0.0, 1.0)

        def __call__(self, scores, beta):
            return torch.zeros_like(scores)

    output = make_ptr(weight_map=Nothing())(*make_batch(valid=torch.ones(10, dtype=torch.bool)))
    assert output.action_loss == 0
    assert output.loss.isfinite()


def test_nobody_is_ranked_against_their_own_action():
    """Also where a sample stands twice in the batch; with distinct samples it is one cycle through all."""
    ids = torch.tensor([5, 1, 2, 5, 3, 4, 9])
    valid = torch.tensor([True] * 6 + [False])
    for step in range(50):
        partners, has_other = other_samples(ids, valid, 0, step)
        assert has_other
        assert (ids[partners][valid] != ids[valid]).all()
        assert valid[partners][valid].all()
    distinct = torch.tensor([7, 1, 2, 5, 3, 4])
    partners, _ = other_samples(distinct, torch.ones(6, dtype=torch.bool), 0, 3)
    place, visited = 0, []
    for _ in range(6):
        visited.append(place)
        place = partners[place].item()
    assert sorted(visited) == list(range(6))
    _, has_other = other_samples(torch.tensor([4, 4]), torch.ones(2, dtype=torch.bool), 0, 0)
    assert not has_other


def test_padding_may_hold_anything(trained):
    ptr = trained(make_ptr())
    chunk, samples = make_batch(12, seed=3)
    padding = torch.arange(12) >= 10
    losses = chunk.action_losses.masked_fill(padding, float("nan"))
    output = ptr(replace(chunk, action_losses=losses), replace(samples, chunk_is_pad=padding))
    assert output.loss.isfinite()
    everything = ptr(chunk, replace(samples, chunk_is_pad=torch.ones(12, dtype=torch.bool)))
    assert everything.loss == 0


def test_a_trivial_identification_teaches_the_controller_nothing():
    ptr = make_ptr()
    ptr(*make_batch(1, valid=torch.ones(1, dtype=torch.bool)))
    ptr.update()
    assert ptr.controller.averages[:3].isnan().all()
    assert ptr.controller.averages[3] == 1


def test_an_untrained_fold_head_gives_the_conservative_answer():
    """With cross-fitting and one episode, the episode's own head never learns: its samples weigh one."""
    ptr = make_ptr(config(folds=2))
    for step in range(3):
        chunk, samples = make_batch(seed=step, valid=torch.ones(10, dtype=torch.bool))
        samples = replace(samples, episode_ids=torch.zeros(10, dtype=torch.int64))
        output = ptr(chunk, samples)
        output.loss.backward()
        ptr.update()
        assert (output.weights == 1).all()
        assert not output.is_scored.any()


def test_defaults_are_the_papers():
    cfg = PTRConfig()
    assert cfg.weights == WeightConfig(
        alpha=1.0, beta=1.5, w_min=0.25, w_max=4.0, warmup_steps=3000, fallback="one", offset_discount=1.0
    )
    assert (cfg.scorer.temperature, cfg.scorer.logit_clamp) == (0.12, 20.0)
    assert (cfg.scorer.identification_weight, cfg.scorer.ranking_weight, cfg.scorer.num_folds) == (0.05, 0.25, 1)
    assert (cfg.pool.queue_size, cfg.pool.max_queue_negatives, cfg.pool.cross_rank) == (1024, 64, True)
    assert (cfg.targets.kind, cfg.targets.ema_decay, cfg.targets.normalize_eps) == ("future", 0.999, 1e-6)
    assert (cfg.belief.num_tokens, cfg.belief.temperature) == (4, 1.0)
    assert (cfg.belief.entropy_weight, cfg.belief.diversity_weight) == (1e-3, 1e-3)
    controller = cfg.controller
    assert (controller.momentum, controller.temperature_min, controller.temperature_max) == (0.98, 0.03, 0.20)
    assert (controller.beta_min, controller.beta_max, controller.hard_ratio_max) == (0.5, 3.0, 0.5)
