"""The reference policy: a mixture-of-transformers vision-language-action model after Being-H0.5."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from ptr_robot.data.segments.batch import UNIFIED_DIM
from ptr_robot.errors import ShapeError
from ptr_robot.method.ptr.algorithm import ChunkStep
from ptr_robot.method.types import ChunkForward
from ptr_robot.policy.interface import Policy, PolicySizes, Prediction, TrainingChunk
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation
from ptr_robot.policy.policy_type import initial_weights
from ptr_robot.policy.vla.config import PolicyConfig
from ptr_robot.policy.vla.decoder import CachedDecoder
from ptr_robot.policy.vla.heads import create_head
from ptr_robot.policy.vla.heads.base import ActionHead, per_sample_mean
from ptr_robot.policy.vla.heads.embedder import create_activation
from ptr_robot.policy.vla.language import TextEncoder
from ptr_robot.policy.vla.segment_pass import SegmentPass, mean_tokens, pool_und
from ptr_robot.policy.vla.sequence import Context, Part, action_mask, arrange, joint_mask
from ptr_robot.policy.vla.trunk import MixtureOfTransformers, TrunkOutput
from ptr_robot.policy.vla.vision import VisionEncoder


class MixturePolicy(Policy):
    """Text and vision in one stream, state, belief and actions in the other, one attention over both."""

    config: PolicyConfig

    def __init__(
        self, config: PolicyConfig, *, text: TextEncoder | None = None, head: ActionHead | None = None
    ) -> None:
        """``text`` and ``head``: in place of those that the config describes."""
        super().__init__()
        self.config = config
        context_width, action_width = config.trunk.context.width, config.trunk.action.width
        self.text = text or TextEncoder(config.language)
        self.trunk = MixtureOfTransformers(config.trunk, config.language.vocabulary_size)
        self.state_embedder = nn.Sequential(
            nn.Linear(UNIFIED_DIM, action_width),
            create_activation(config.activation),
            nn.Linear(action_width, config.num_state_tokens * action_width),
        )
        self.vision = VisionEncoder(config.vision, context_width) if config.vision else None
        self.head = head or create_head(config)

    @property
    def sizes(self) -> PolicySizes:
        """The widths that PTR's modules must meet."""
        trunk = self.config.trunk
        return PolicySizes(
            chunk_length=self.config.chunk_length,
            context_dim=trunk.context.width + trunk.action.width,
            action_dim=trunk.action.width,
            action_state_dim=trunk.action.width,
            num_belief_tokens=self.config.num_belief_tokens,
        )

    @property
    def vision_tower(self) -> nn.Module | None:
        """The timm tower with its normalisation; the connector is not part of it."""
        return self.vision.tower if self.vision else None

    @property
    def num_prefix_tokens(self) -> int:
        """Class and register tokens of the tower."""
        return self.vision.tower.num_prefix_tokens if self.vision else 0

    def check_instructions(self, texts: Iterable[str]) -> None:
        """Tokenize texts that will come, so that one too long is named now."""
        self.text.check(texts)

    @property
    def sharded_units(self) -> Sequence[nn.Module]:
        """Each layer of both streams, and each block of a tower that is a list of them."""
        blocks = getattr(self.vision.tower.model, "blocks", ()) if self.vision else ()
        return [*self.trunk.layers, *blocks]

    def forward_chunk(
        self,
        observation: Observation,
        chunk: ActionChunk,
        belief: Tensor | None = None,
        *,
        noise: Noise,
    ) -> ChunkForward:
        """One joint pass over context and noised actions."""
        self.check_chunk(observation, chunk, noise)
        context = self.context(observation, belief, noise if self.training else None)
        prepared = self.head.prepare(chunk.actions, observation.action_mask, noise)
        output, states = self.joint_pass(context, prepared.tokens, ~chunk.action_is_pad)
        errors = self.head.errors(states, prepared, observation.action_mask)
        return ChunkForward(
            action_losses=per_sample_mean(errors, chunk.action_is_pad, observation.action_mask),
            contexts=pool_context(context, output),
            action_tokens=self.head.embed(chunk.actions, observation.action_mask),
            action_states=states,
            action_is_pad=chunk.action_is_pad,
        )

    def restore_buffers(self) -> None:
        """Compute anew what is derived from the config: a policy built on the meta device has lost it."""
        self.trunk.restore_buffers()
        if self.vision is not None:
            self.vision.tower.set_normalisation(self.vision.config)

    def forward_segments(self, chunks: Sequence[TrainingChunk]) -> ChunkStep:
        """All of the trunk up to the belief at once; belief and actions chunk by chunk."""
        return SegmentPass(self, chunks)

    @torch.no_grad()
    def predict(self, observation: Observation, belief: Tensor | None = None, *, noise: Noise) -> Prediction:
        """Encode the context once, then sample a chunk against its keys and values."""
        noise.check(observation.batch_size)
        context = self.sampling_context(observation, belief)
        decoder, output = CachedDecoder.start(self.trunk, context, is_causal=self.head.is_causal)
        sampled = self.head.sample(decoder, observation.action_mask, self.config.chunk_length, noise)
        return Prediction(
            actions=sampled.actions,
            action_tokens=self.head.embed(sampled.actions, observation.action_mask),
            action_states=sampled.states,
            contexts=pool_context(context, output),
        )

    def context(
        self, observation: Observation, belief: Tensor | None = None, augmentation: Noise | None = None
    ) -> Context:
        """The tokens before the actions."""
        device, count = observation.states.device, observation.batch_size
        prompt, prompt_mask = self.text.prompt(count, device)
        instruction, instruction_mask = self.text.instructions(observation.instructions, device)
        parts = [Part(self.trunk.embed_text(prompt), prompt_mask, is_causal=True)]
        if self.vision is not None:
            tokens, valid = self.vision(observation.images, observation.view_mask, augmentation)
            parts.append(Part(tokens, valid, is_causal=False))
        state = self._state_part(observation)
        parts.append(state)
        parts.append(Part(self.trunk.embed_text(instruction), instruction_mask, is_causal=True))
        if belief is not None:
            self.check_belief(belief, count)
            parts.append(Part(belief.to(state.tokens.dtype), _all_true(belief), is_causal=False, is_gen=True))
        return arrange(parts)

    def sampling_context(self, observation: Observation, belief: Tensor | None = None) -> Context:
        """The tokens before the actions at inference, where a policy arranges them differently there."""
        return self.context(observation, belief)

    def joint_pass(
        self, context: Context, tokens: Tensor, is_real_step: Tensor
    ) -> tuple[TrunkOutput, Tensor]:  # hidden states on the action positions: (N, L, Dg)
        """Context and action tokens through the trunk at once."""
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        positions = torch.cat([context.positions, context.num_valid + steps], dim=1)
        mask = joint_mask(context, action_mask(context.valid, is_real_step, is_causal=self.head.is_causal))
        layout = self.trunk.layout(positions, mask)
        output = self.trunk(context.und, torch.cat([context.gen, tokens], dim=1), layout)
        return output, output.gen[:, context.gen.shape[1] :]

    def _state_part(self, observation: Observation) -> Part:
        states = observation.states * observation.state_mask
        tokens = self.state_embedder(states).unflatten(1, (self.config.num_state_tokens, -1))
        hidden = not self.config.context_sees_state
        return Part(tokens, _all_true(tokens), is_causal=False, is_gen=True, is_for_actions=hidden)

    def check_belief(self, belief: Tensor, count: int) -> None:
        """Refuse a belief of another shape."""
        expected = (count, self.config.num_belief_tokens, self.sizes.action_dim)
        if belief.shape != expected:
            raise ShapeError(
                f"the belief has shape {tuple(belief.shape)}; this policy takes {expected}: set num_belief_tokens to "
                "the tokenizer's number of tokens"
            )

    def check_chunk(self, observation: Observation, chunk: ActionChunk, noise: Noise) -> None:
        """Refuse actions and keys of another shape."""
        noise.check(observation.batch_size)
        expected = (observation.batch_size, self.config.chunk_length, UNIFIED_DIM)
        if chunk.actions.shape != expected:
            raise ShapeError(
                f"the recorded actions have shape {tuple(chunk.actions.shape)}; this policy takes {expected}: set the "
                "policy's chunk_length to the data's"
            )


def pool_context(context: Context, output: TrunkOutput) -> Tensor:  # (N, Du + Dg)
    """h_t: the mean over the real context tokens of each stream, side by side; no action position is among them."""
    places = torch.tensor(context.pooled_gen, dtype=torch.int64, device=output.gen.device)
    gen = output.gen.index_select(1, places)
    return torch.cat([pool_und(context, output), mean_tokens(gen)], dim=1)


def _all_true(tokens: Tensor) -> Tensor:  # (N, n, D) -> (N, n)
    return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)


def build_policy(config: PolicyConfig, *, seed: int) -> MixturePolicy:
    """A policy with initial weights that depend on the seed alone; torch's global generator is left as it was."""
    with initial_weights(seed):
        return MixturePolicy(config)
