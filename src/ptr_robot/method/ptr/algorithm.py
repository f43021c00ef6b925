"""Posterior-Transition Reweighting: Algorithm 1 of the paper, in its order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ptr_robot.errors import ConfigError, PTRError, ShapeError
from ptr_robot.method.distributed import RankLayout, gather_rows, sum_over_ranks
from ptr_robot.method.episode_evidence import EpisodeEvidence
from ptr_robot.method.folds import assign_folds
from ptr_robot.method.heads import INSTRUCTION_DIM, channel_inputs, extra_targets
from ptr_robot.method.ptr.action_summary import ActionSummaries
from ptr_robot.method.ptr.belief import BeliefOutput, BeliefTokenizer
from ptr_robot.method.ptr.candidates import CandidatePool, TargetRows
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.method.ptr.controller import ScaleController
from ptr_robot.method.ptr.eager import runs_eagerly
from ptr_robot.method.ptr.gradients import without_gradients
from ptr_robot.method.ptr.input_checks import Widths, agree_on_layout, check_shapes
from ptr_robot.method.ptr.objective import SampleTerms, total_objective
from ptr_robot.method.ptr.padding import (
    real_steps,
    without_padding_rows,
    without_padding_targets,
    without_padding_values,
)
from ptr_robot.method.ptr.posterior import other_samples
from ptr_robot.method.ptr.targets import EMATargetEncoder, make_targets
from ptr_robot.method.ptr.transition_scorer import Evidence, TransitionScorer
from ptr_robot.method.ptr.weights import ExponentialWeightMap, WeightMap, discount_weights
from ptr_robot.method.types import ChunkForward, PTROutput, Samples

MAX_PENDING = 1000
_NEEDS_STATES = "belief tokens need action_states (the hidden states on the action positions)"

ChunkStep = Callable[[int, "Tensor | None"], ChunkForward]


class PTR(nn.Module):
    """All of PTR beside a policy: call it on what the policy computed, backpropagate its loss, then ``update()``.

    ``forward`` changes no state: the queue, the moving averages, the EMA encoder and the step count move in ``update``,
    after the optimiser's step.
    """

    mean_weight: Tensor

    def __init__(
        self,
        config: PTRConfig | None = None,
        *,
        context_dim: int,  # Dh
        action_dim: int,  # Da
        target_dim: int,  # Dy
        action_state_dim: int | None = None,  # Dc; action_dim where not given
        state_dim: int = 0,  # S, of the states that hard negatives are chosen by
        action_target_dim: int = 0,  # Dt, of recorded chunks; for the channels action and instruction
        num_episodes: int = 0,  # for the weight map "populations", which keeps a record of each
        target_encoder: EMATargetEncoder | None = None,  # None: the caller brings target features of their own
        weight_map: WeightMap | None = None,  # None: the paper's
    ) -> None:
        super().__init__()
        self.config = config = config or PTRConfig()
        self.widths = Widths(
            context_dim, action_dim, action_state_dim or action_dim, target_dim, state_dim, action_target_dim
        )
        _check_channels(config, self.widths, num_episodes)
        if weight_map is not None and config.weights.map == "populations":
            raise ConfigError("weights.map is populations, and a weight_map is given too; leave one of them out")
        self.weight_map: WeightMap = weight_map or ExponentialWeightMap.from_config(config.weights)
        self.target_encoder = target_encoder
        self.step = 0
        self._pending: list[_Pending] = []
        self.register_buffer("mean_weight", torch.ones(()))
        self.episodes: EpisodeEvidence | None = None
        if config.scorer.enabled and config.weights.map == "populations":
            channels = len(config.scorer.channels)
            self.episodes = EpisodeEvidence(config.weights, num_episodes=num_episodes, num_channels=channels)
        with torch.random.fork_rng(devices=[]):  # building PTR leaves the policy's random numbers as they were
            torch.default_generator.manual_seed(config.seed)
            self._build(self.widths)

    def _build(self, widths: Widths) -> None:
        config = self.config
        self.belief: BeliefTokenizer | None = None
        if config.belief.enabled:
            self.belief = BeliefTokenizer(config.belief, state_dim=widths.action_state, action_dim=widths.action)
        self.pool: CandidatePool | None = None
        self.scorer: TransitionScorer | None = None
        if config.scorer.enabled:
            joins = self.belief is not None and config.belief.informs_scorer
            extra_dim = widths.action_target + INSTRUCTION_DIM if config.scorer.needs_recorded_actions else 0
            self.pool = CandidatePool(config.pool, target_dim=widths.target + extra_dim, state_dim=widths.state)
            self.scorer = TransitionScorer(
                config.scorer,
                context_dim=widths.context,
                summary_dim=widths.action * (2 if joins else 1),
                target_dim=widths.target,
                state_dim=widths.state,
                action_target_dim=widths.action_target,
            )
        self.controller = ScaleController(
            config.controller, temperature=config.scorer.temperature, beta=config.weights.beta
        )

    def segment(self, chunk_step: ChunkStep, samples: Samples, *, num_chunks: int) -> PTROutput:
        """Algorithm 1 for B segments; ``chunk_step(t, z_t)`` is the policy, ``samples`` are flat in (B, T) order.

        The belief recursion runs chunk by chunk (lines 1 to 4 and 10). Lines 5 to 9 do not depend on it and are taken
        for all chunks at once, so that every chunk of the batch is a candidate for every other.
        """
        batch_size, rest = divmod(samples.sample_ids.shape[0], num_chunks)
        if rest:
            raise ShapeError(f"{samples.sample_ids.shape[0]} samples cannot be segments of {num_chunks} chunks each")
        belief = self.initial_belief(batch_size)  # line 1
        padding = None if samples.chunk_is_pad is None else samples.chunk_is_pad.view(batch_size, num_chunks)
        chunks = []
        for index in range(num_chunks):  # line 2
            chunk = chunk_step(index, belief)  # lines 3 and 4
            chunks.append(chunk)
            if index + 1 < num_chunks:
                belief = self.next_belief(chunk, None if padding is None else padding[:, index])  # line 10
        output: PTROutput = self(ChunkForward.stack(chunks), samples)  # lines 5 to 9, and the loss of line 12
        return output

    @runs_eagerly  # the step count and the controller's numbers are Python's
    def forward(self, chunk: ChunkForward, samples: Samples) -> PTROutput:
        """Scores, weights and the total loss of ``N`` chunks; under several processes all of them must call it."""
        problem = self._problem(chunk, samples)
        check_values = self.config.check_inputs
        layout = agree_on_layout(chunk, samples, problem=problem, check_values=check_values)
        samples, chunk = without_padding_targets(samples), without_padding_values(chunk, samples.chunk_is_pad)
        tokenized = self._tokenize(chunk, samples.chunk_is_pad)
        evidence, rows = self._identify(chunk, samples, tokenized, layout)  # lines 5 to 8
        weights = self._weigh(evidence, samples, layout)  # line 9
        terms = self._terms(chunk, samples, tokenized, evidence, weights)
        objective = total_objective(terms, self.config.belief, self.config.scorer, layout.world_size)  # line 12
        if self.belief is not None:  # a policy may ignore belief tokens; DDP wants a gradient for z_init all the same
            objective = replace(
                objective, auxiliary_loss=objective.auxiliary_loss + 0 * self.belief.initial_tokens.sum()
            )
        if self.training and torch.is_grad_enabled():
            mean_weight = objective.weight_sum / objective.sample_count
            scored = self._scored_episodes(evidence, samples, layout)
            self._remember(_Pending(rows, _statistics(evidence, terms.is_real), mean_weight.detach(), scored))
        return PTROutput(
            loss=objective.loss,
            weighted_action_sum=objective.weighted_action_sum,
            weight_sum=objective.weight_sum,
            auxiliary_loss=objective.auxiliary_loss,
            sample_count=objective.sample_count,
            action_loss=objective.action_loss,
            plain_action_loss=objective.plain_action_loss,
            identification_loss=objective.identification_loss,
            ranking_loss=objective.ranking_loss,
            tokenizer_loss=objective.tokenizer_loss(self.config.belief),
            token_entropy=objective.entropy,
            token_overlap=objective.overlap,
            weights=weights,
            scores=evidence.scores,
            log_posteriors=evidence.log_posteriors,
            margins=evidence.margins,
            candidate_counts=evidence.candidate_counts,
            is_scored=evidence.is_scored,
        )

    def _identify(
        self, chunk: ChunkForward, samples: Samples, tokenized: BeliefOutput | None, layout: RankLayout
    ) -> tuple[Evidence, TargetRows | None]:
        """Lines 5 to 8: targets of all ranks, candidate sets, posterior and score."""
        config = self.config.scorer
        if self.scorer is None or self.pool is None:
            count = chunk.action_losses.shape[0]
            return Evidence.none(count, config, chunk.action_losses.device), None
        joins = self.belief if self.config.belief.informs_scorer else None
        summarizer = ActionSummaries(chunk, real_steps(chunk.action_is_pad, samples.chunk_is_pad), joins)
        contexts, summaries = chunk.contexts, summarizer.recorded(tokenized)  # h_t, e_t
        if config.is_detached:
            # Cuts the path into the policy and the tokenizer: the scorer's losses train its heads alone.
            contexts, summaries = contexts.detach(), summaries.detach()
        eps = self.config.targets.normalize_eps
        extra = extra_targets(samples, eps) if config.needs_recorded_actions else None
        rows = TargetRows.gather(samples, layout, state_dim=self.widths.state, eps=eps, extra=extra)  # line 5
        candidates = self.pool(rows, layout, hard_ratio=self.controller.hard_ratio, step=self.step)  # line 6
        own = slice(layout.first_row, layout.first_row + layout.counts[layout.rank])
        partners, has_other = other_samples(rows.sample_ids, rows.valid, self.config.pool.seed, self.step)
        other_summaries = summarizer.exchanged(partners[own], layout)
        evidence: Evidence = self.scorer(  # lines 7 and 8
            contexts,
            summaries,
            other_summaries,
            candidates,
            is_valid=rows.valid[own],
            has_other=has_other,
            folds=self._folds(samples),
            temperature=self.controller.temperature,
            channel_inputs={name: channel_inputs(name, contexts, samples) for name in self.scorer.channels},
        )
        return evidence, rows

    @torch.no_grad()  # weights are constants of the action loss
    def _weigh(self, evidence: Evidence, samples: Samples, layout: RankLayout) -> Tensor:  # (N,)
        """Line 9: the conservative weight, exactly one during warm-up and, by default, without a target."""
        config = self.config.weights
        weights = torch.ones_like(evidence.scores)
        if self.scorer is not None and self.step >= config.warmup_steps:
            if self.episodes is not None:
                assert samples.episode_ids is not None  # seen by _problem
                return self._finish_weights(self.episodes.weights[samples.episode_ids], samples, layout)
            mapped = self._map_scores(evidence, layout)
            if samples.offsets is not None and config.offset_discount < 1:
                mapped = discount_weights(mapped, samples.offsets, config.offset_discount)
            weights = torch.where(evidence.is_scored, mapped, weights)
            if config.fallback == "mean":
                scored = evidence.is_scored.float()
                total, count = sum_over_ranks(torch.stack([(weights * scored).sum(), scored.sum()])).unbind()
                mean = torch.where(count > 0, total / count.clamp(min=1), 1.0)
                weights = torch.where(evidence.is_scored, weights, mean)
        return self._finish_weights(weights, samples, layout)

    def _finish_weights(self, weights: Tensor, samples: Samples, layout: RankLayout) -> Tensor:  # (N,)
        """The placebo's permutation, the user's own factors, and nothing for padding."""
        if self.config.weights.permute and self.scorer is not None:
            weights = self._permuted(weights, samples, layout)
        if samples.prior_weights is not None:
            weights = weights * samples.prior_weights
        if samples.chunk_is_pad is not None:
            weights = weights.masked_fill(samples.chunk_is_pad, 0.0)
        return weights

    def _permuted(self, weights: Tensor, samples: Samples, layout: RankLayout) -> Tensor:  # (N,)
        """The weights of all ranks' real samples, handed on along a random cycle: values stay, owners go."""
        is_real = torch.ones_like(samples.has_target) if samples.chunk_is_pad is None else ~samples.chunk_is_pad
        rows = gather_rows(torch.stack([samples.sample_ids, is_real.long()], dim=1), layout)
        partners, _ = other_samples(rows[:, 0], rows[:, 1].bool(), self.config.seed, self.step)
        own = slice(layout.first_row, layout.first_row + layout.counts[layout.rank])
        return torch.where(is_real, gather_rows(weights, layout)[partners[own]], weights)

    def _scored_episodes(
        self, evidence: Evidence, samples: Samples, layout: RankLayout
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Episodes, tasks and channel scores of all ranks' scored samples, for the episodes' record."""
        if self.episodes is None:
            return None
        assert samples.episode_ids is not None
        tasks = samples.task_ids if samples.task_ids is not None else torch.zeros_like(samples.sample_ids)
        scored = gather_rows(evidence.is_scored, layout)
        integers = gather_rows(torch.stack([samples.episode_ids, tasks], dim=1), layout)[scored]
        return integers[:, 0], integers[:, 1], gather_rows(evidence.channel_scores, layout)[scored]

    def _map_scores(self, evidence: Evidence, layout: RankLayout) -> Tensor:  # (N,); one where not scored
        """The map sees the scored samples of all ranks, so that it may compare them."""
        is_scored = gather_rows(evidence.is_scored, layout)
        mapped = torch.ones(len(is_scored), device=is_scored.device)
        mapped[is_scored] = self.weight_map(gather_rows(evidence.scores, layout)[is_scored], self.controller.beta)
        low, high = self.weight_map.bounds
        if (
            self.config.check_inputs
            and not ((mapped >= min(low, 1.0) - 1e-5) & (mapped <= max(high, 1.0) * 1.00001)).all()
        ):
            raise ConfigError(f"{type(self.weight_map).__name__} gave weights outside its bounds [{low}, {high}]")
        return mapped[layout.first_row : layout.first_row + layout.counts[layout.rank]]

    def _terms(
        self,
        chunk: ChunkForward,
        samples: Samples,
        tokenized: BeliefOutput | None,
        evidence: Evidence,
        weights: Tensor,
    ) -> SampleTerms:
        discount = self.config.scorer.offset_discount
        identification = evidence.identification
        if samples.offsets is not None and discount < 1:
            identification = identification * discount**samples.offsets
        is_real = torch.ones_like(samples.has_target) if samples.chunk_is_pad is None else ~samples.chunk_is_pad
        zeros = torch.zeros_like(weights)
        if self.config.weights.apply == "sampler":  # the batch is drawn by weight already
            weights = is_real.to(weights)
        return SampleTerms(
            weighted_action=weights * chunk.action_losses,
            plain_action=chunk.action_losses.detach() * is_real,
            weights=weights,
            identification=identification,
            ranking=evidence.ranking,
            entropies=zeros if tokenized is None else tokenized.entropies * is_real,
            overlaps=zeros if tokenized is None else tokenized.overlaps * is_real,
            is_real=is_real,
            is_valid=evidence.is_valid,
        )

    @property
    def weight_bounds(self) -> tuple[float, float]:
        """The smallest and the largest weight that a scored sample can get, before the user's own factors."""
        return self.weight_map.bounds if self.episodes is None else self.episodes.bounds

    def initial_belief(self, batch_size: int) -> Tensor | None:  # (B, M, Da)
        """z_init for each sample, or None where belief tokens are off."""
        return None if self.belief is None else self.belief.initial(batch_size)

    def next_belief(self, chunk: ChunkForward, chunk_is_pad: Tensor | None = None) -> Tensor | None:  # (N, M, Da)
        """z_{t+1} = sg(B(C_t, A_t)): between the chunks of a segment, and between predictions at inference."""
        if self.belief is None:
            return None
        if chunk.action_states is None:
            raise ConfigError(_NEEDS_STATES)
        with without_gradients():  # nothing of the next chunk's loss may come back this way
            states = without_padding_rows(chunk.action_states, chunk_is_pad)
            actions = without_padding_rows(chunk.action_tokens, chunk_is_pad)
            _, tokens = self.belief.merge(states, actions, real_steps(chunk.action_is_pad, chunk_is_pad))
        return tokens

    def encode(self, images: Tensor) -> Tensor:  # (..., V, 3, H, W) -> (..., Dy)
        """Features of observations under the EMA encoder; encode a segment's frames once, then ``make_targets``."""
        if self.target_encoder is None:
            raise ConfigError("this PTR has no target_encoder; give it one, or bring target features of your own")
        features: Tensor = self.target_encoder(images)
        return features

    def make_targets(self, features_after: Tensor, features_before: Tensor | None = None) -> Tensor:
        """Consequences of the configured kind, from features (..., Dy) after and, for a change, before the chunk."""
        config = self.config.targets
        return make_targets(features_after, features_before, kind=config.kind, eps=config.normalize_eps)

    @torch.no_grad()
    def update(self, vision_tower: nn.Module | None = None) -> None:
        """After the optimiser's step: move the EMA encoder, the queue, the averages and the controller."""
        if self.target_encoder is not None:
            if vision_tower is None:
                raise ConfigError("update() needs the policy's vision tower, which the EMA encoder follows")
            self.target_encoder.update(vision_tower, self.config.targets.ema_decay)
        self.step += 1
        for pending in self._pending:
            self._commit(pending)
        if self._pending:
            self.mean_weight.copy_(torch.stack([pending.mean_weight for pending in self._pending]).mean())
        self._pending.clear()
        if self.step % self.config.controller.interval_steps == 0:
            self.controller.adjust()
            if self.episodes is not None:
                self.episodes.reweigh()

    def _remember(self, pending: _Pending) -> None:
        if len(self._pending) >= MAX_PENDING:
            raise ConfigError(
                f"{MAX_PENDING} forward passes without update(); call it after each step of the optimiser, or score "
                "under eval() or torch.no_grad()"
            )
        self._pending.append(pending)

    def _commit(self, pending: _Pending) -> None:
        if self.scorer is None or self.pool is None or pending.rows is None:
            return
        self.pool.queue.push(pending.rows)
        if self.episodes is not None and pending.scored_episodes is not None:
            self.episodes.observe(*pending.scored_episodes)
        self.controller.observe(pending.statistics[:4], pending.statistics[4] > 0)
        self.scorer.samples_seen += pending.statistics[5:]

    def _tokenize(self, chunk: ChunkForward, chunk_is_pad: Tensor | None) -> BeliefOutput | None:
        if self.belief is None:
            return None
        if chunk.action_states is None:
            raise ConfigError(_NEEDS_STATES)
        mask = real_steps(chunk.action_is_pad, chunk_is_pad)
        tokenized: BeliefOutput = self.belief(chunk.action_states, chunk.action_tokens, mask)
        return tokenized

    def _folds(self, samples: Samples) -> Tensor:  # (N,) int64
        num_folds = self.config.scorer.num_folds
        if num_folds == 1:
            return torch.zeros_like(samples.sample_ids)
        assert samples.episode_ids is not None  # seen by _problem
        return assign_folds(samples.episode_ids, num_folds, self.config.seed)

    def _problem(self, chunk: ChunkForward, samples: Samples) -> PTRError | None:
        """What keeps this rank from going on; raised only once the other ranks know."""
        num_folds = self.config.scorer.num_folds
        try:
            check_shapes(chunk, samples, self.widths)
        except PTRError as error:
            return error
        if self.belief is not None and chunk.action_states is None:
            return ConfigError(_NEEDS_STATES)
        if self.scorer is not None and num_folds > 1 and samples.episode_ids is None:
            return ConfigError(f"scorer.num_folds is {num_folds}: cross-fitted heads need samples.episode_ids")
        if self.episodes is not None and samples.episode_ids is None:
            return ConfigError("weights.map is populations: it needs samples.episode_ids")
        if self.episodes is not None and samples.episode_ids is not None and self.config.check_inputs:
            low, high = (int(bound) for bound in samples.episode_ids.aminmax())
            if low < 0 or high >= len(self.episodes.weights):
                return ConfigError(
                    f"samples.episode_ids run from {low} to {high}, but PTR was built with "
                    f"num_episodes={len(self.episodes.weights)}; episodes count from 0"
                )
        if self.scorer is not None and self.config.scorer.needs_recorded_actions and samples.task_ids is None:
            return ConfigError("the channels action and instruction need samples.task_ids")
        return None

    def get_extra_state(self) -> Tensor:
        """The step count; buffers and parameters hold the rest of what a resumed run needs."""
        return torch.tensor(self.step)

    def set_extra_state(self, state: Tensor) -> None:
        """Take back what ``get_extra_state`` gave."""
        self.step = int(state)
        self._pending.clear()


@dataclass(frozen=True)
class _Pending:
    """What one forward pass leaves for ``update`` to take in."""

    rows: TargetRows | None
    statistics: Tensor  # (5 + F,) the controller's four, the number scored, the samples that trained each head
    mean_weight: Tensor  # ()
    scored_episodes: tuple[Tensor, Tensor, Tensor] | None = None  # (n,), (n,), (n, channels)


def _check_channels(config: PTRConfig, widths: Widths, num_episodes: int) -> None:
    if not config.scorer.enabled:
        return
    if config.scorer.needs_recorded_actions and not widths.action_target:
        raise ConfigError("the channels action and instruction read recorded chunks; give PTR(action_target_dim=...)")
    if config.weights.map == "populations" and not num_episodes:
        raise ConfigError("weights.map is populations: it keeps a record of every episode; give PTR(num_episodes=...)")


def _statistics(evidence: Evidence, is_real: Tensor) -> Tensor:  # (5 + F,)
    """Global means over the scored samples, as ``controller.STATISTICS`` orders them."""
    # A sample without negatives is identified trivially: it says nothing about the scorer.
    scored = (evidence.is_scored & (evidence.candidate_counts > 1)).float()
    accurate = (evidence.margins > 0).float()
    sums = [(accurate * scored).sum(), (evidence.margins * scored).sum(), (evidence.scores * scored).sum()]
    counts = [evidence.is_valid.sum().float(), scored.sum(), is_real.sum().float()]
    totals = sum_over_ranks(torch.cat([torch.stack([*sums, *counts]), evidence.head_samples]))
    means = totals[:3] / totals[4].clamp(min=1)
    valid_ratio = totals[3:4] / totals[5].clamp(min=1)
    return torch.cat([means, valid_ratio, totals[4:5], totals[6:]])
