"""The mixture of transformers: two stacks of Qwen3 layers whose tokens meet in one attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ptr_robot.errors import require
from ptr_robot.policy.vla.config import StreamConfig, TrunkConfig
from ptr_robot.policy.vla.rms_norm import rms_norm

QWEN3 = "transformers.models.qwen3.modeling_qwen3"
KeysValues = tuple[Tensor, Tensor]  # (N, n, Hkv, head_dim) each


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a pass stand and what they attend to, in the form in which every layer needs it."""

    cosines: Tensor  # (N, n, 1, head_dim) of the rotary positions, in float32 whatever the precision of the pass
    sines: Tensor  # (N, n, 1, head_dim), negative in the first half
    bias: Tensor  # (N, 1, n, P + n): zero where a token attends, else minus infinity

    def split(self, size: int) -> list[Layout]:
        """Those of each ``size`` sequences in turn."""
        parts = (torch.split(part, size) for part in (self.cosines, self.sines, self.bias))
        return [Layout(*part) for part in zip(*parts, strict=True)]

    def after(self, first: int) -> Layout:
        """That of the tokens from ``first`` on."""
        return Layout(self.cosines[:, first:], self.sines[:, first:], self.bias[:, :, first:]) if first else self


@dataclass(frozen=True)
class TrunkOutput:
    """Normed hidden states of both streams, and the keys and values of every layer."""

    und: Tensor  # (N, U, Du) as they enter the last layer
    gen: Tensor  # (N, G, Dg) as they leave it
    keys_values: tuple[KeysValues, ...]  # one a layer, over past and present tokens


class MixtureOfTransformers(nn.Module):
    """Each stream has its own projections, norms and MLPs (they are Qwen3 models); attention is joint.

    ``und`` carries text and vision, ``gen`` carries state, belief and actions. A stream may have no tokens in a
    pass: at inference the context's keys and values are kept, and the passes over actions run ``gen`` alone.

    Of the last layer ``und`` has keys and values only: what it would attend to there reaches no action, and as the
    context that PTR scores it would cost a forward and a backward pass that SFT does not need.
    """

    def __init__(self, config: TrunkConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        self.und = create_stream(config, config.context, vocabulary_size)
        self.gen = create_stream(config, config.action, vocabulary_size=1)
        del self.gen.embed_tokens  # state and actions have embedders of their own
        pairs = enumerate(zip(self.und.layers, self.gen.layers, strict=True), start=1)
        # A tuple, which torch does not register: the weights keep their names as those of two Qwen3 models.
        self.layers = tuple(JointLayer(*pair, is_last=number == config.num_layers) for number, pair in pairs)
        last = self.und.layers[-1]
        for idle in (last.self_attn.q_proj, last.self_attn.q_norm, last.self_attn.o_proj, last.mlp):
            idle.requires_grad_(False)
        last.post_attention_layernorm.requires_grad_(False)

    def restore_buffers(self) -> None:
        """The frequencies of the rotary positions, which no checkpoint holds."""
        rotary = require(QWEN3, "lerobot").Qwen3RotaryEmbedding
        for stream in (self.und, self.gen):
            stream.rotary_emb = rotary(config=stream.config, device="cpu")

    def embed_text(self, ids: Tensor) -> Tensor:  # (N, n) -> (N, n, Du)
        """The language model's own token embeddings."""
        tokens: Tensor = self.und.embed_tokens(ids)
        return tokens

    def forward(
        self,
        und: Tensor,  # (N, U, Du)
        gen: Tensor,  # (N, G, Dg)
        layout: Layout,  # of U + G tokens
        past: Sequence[KeysValues] | None = None,  # over P earlier tokens
    ) -> TrunkOutput:
        """One pass over the tokens of both streams, after the ``past`` ones if any."""
        keys_values: list[KeysValues] = []
        is_checkpointed = self.config.checkpoint_activations and torch.is_grad_enabled()
        for index, layer in enumerate(self.layers):
            before = past[index] if past is not None else None
            (und, gen), pair = layer((und, gen), layout, before, is_checkpointed)
            keys_values.append(pair)
        return TrunkOutput(rms_norm(self.und.norm, und), rms_norm(self.gen.norm, gen), tuple(keys_values))

    def layout(
        self,
        positions: Tensor,  # (N, n) int64
        mask: Tensor,  # (N, n, P + n) bool; True: attends
    ) -> Layout:
        """What the layers share is computed once a pass, or once for several passes of the same shape."""
        angles = positions.unsqueeze(2).float() * self.und.rotary_emb.inv_freq  # (N, n, head_dim / 2)
        cosines, sines = angles.cos(), angles.sin()
        bias = torch.zeros(mask.shape, dtype=self.gen.norm.weight.dtype, device=mask.device)
        return Layout(
            torch.cat([cosines, cosines], dim=2).unsqueeze(2),
            torch.cat([-sines, sines], dim=2).unsqueeze(2),
            bias.masked_fill_(~mask, float("-inf")).unsqueeze(1),
        )


class JointLayer(nn.Module):
    """A layer of both streams as one module: what sharding gathers and lets go of together."""

    def __init__(self, und: nn.Module, gen: nn.Module, *, is_last: bool) -> None:
        super().__init__()
        self.und = und
        self.gen = gen
        self.is_last = is_last

    def forward(
        self, streams: tuple[Tensor, Tensor], layout: Layout, past: KeysValues | None, is_checkpointed: bool
    ) -> tuple[tuple[Tensor, Tensor], KeysValues]:
        """See ``joint_layer``; ``is_checkpointed``: keep its inputs, compute the rest again on the way back."""
        arguments = ((self.und, self.gen), streams, layout, past, self.is_last)
        if not is_checkpointed:
            return joint_layer(*arguments)
        computed: tuple[tuple[Tensor, Tensor], KeysValues]
        computed = checkpoint(joint_layer, *arguments, use_reentrant=False)
        return computed


def create_stream(config: TrunkConfig, stream: StreamConfig, vocabulary_size: int) -> Any:
    """A Qwen3 model of the stream's size; initial weights scale as the inverse root of its width (0.022 at 2048)."""
    qwen3_config = require("transformers", "lerobot").Qwen3Config(
        vocab_size=vocabulary_size,
        hidden_size=stream.width,
        intermediate_size=stream.mlp_width,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        rope_theta=config.rope_theta,
        initializer_range=stream.width**-0.5,
        pad_token_id=None,
    )
    return require(QWEN3, "lerobot").Qwen3Model(qwen3_config)


def joint_layer(
    layers: tuple[Any, Any],  # the Qwen3 layers of und and gen
    streams: tuple[Tensor, Tensor],
    layout: Layout,
    past: KeysValues | None,
    is_last: bool,
) -> tuple[tuple[Tensor, Tensor], KeysValues]:
    """One layer of both streams; returns the streams and the keys and values over past and present.

    The last one returns ``und`` as it came.
    """
    boundary = streams[0].shape[1]
    first = boundary if is_last else 0  # the first token that attends
    present = [(layer, tokens) for layer, tokens in zip(layers, streams, strict=True) if tokens.shape[1]]
    normed = [(layer.self_attn, rms_norm(layer.input_layernorm, tokens)) for layer, tokens in present]
    keys = _rotate(_join([_heads(attention, "k", tokens) for attention, tokens in normed]), layout)
    values = _join([_heads(attention, "v", tokens) for attention, tokens in normed])
    keys = keys.to(values.dtype)  # norms and rotations run in float32
    if past is not None:
        keys, values = torch.cat([past[0], keys], dim=1), torch.cat([past[1], values], dim=1)
    attending = normed[1:] if is_last and boundary else normed
    if not attending:
        return streams, (keys, values)
    layout = layout.after(first)
    queries = _rotate(_join([_heads(attention, "q", tokens) for attention, tokens in attending]), layout)
    attended = F.scaled_dot_product_attention(  # over (N, heads, n, head_dim)
        queries.to(values.dtype).transpose(1, 2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=layout.bias.to(values.dtype),
        enable_gqa=True,
    )
    attended = attended.transpose(1, 2).flatten(2)  # (N, n, H head_dim)
    und = streams[0] if is_last else _finish(layers[0], streams[0], attended[:, :boundary])
    gen = _finish(layers[1], streams[1], attended[:, boundary - first :])
    return (und, gen), (keys, values)


def _heads(attention: Any, name: str, tokens: Tensor) -> Tensor:  # (N, n, D) -> (N, n, heads, head_dim)
    """Queries, keys or values of one stream; Qwen3 norms each head of the first two."""
    heads: Tensor = getattr(attention, f"{name}_proj")(tokens).view(*tokens.shape[:2], -1, attention.head_dim)
    return heads if name == "v" else rms_norm(getattr(attention, f"{name}_norm"), heads)


def _rotate(heads: Tensor, layout: Layout) -> Tensor:  # (N, n, heads, head_dim)
    """The halves of each head turn as pairs: Qwen3's rotation, with the sign in the sines instead of a copy."""
    return heads * layout.cosines + heads.roll(heads.shape[-1] // 2, dims=-1) * layout.sines


def _join(streams: list[Tensor]) -> Tensor:  # (N, n, heads, head_dim) each
    """The tokens of all streams in one sequence."""
    return streams[0] if len(streams) == 1 else torch.cat(streams, dim=1)


def _finish(layer: Any, hidden: Tensor, attended: Tensor) -> Tensor:  # (N, n, D)
    """The rest of a Qwen3 layer after attention: output projection and MLP, both residual."""
    if not hidden.shape[1]:
        return hidden
    hidden = hidden + layer.self_attn.o_proj(attended)
    finished: Tensor = hidden + layer.mlp(rms_norm(layer.post_attention_layernorm, hidden))
    return finished
