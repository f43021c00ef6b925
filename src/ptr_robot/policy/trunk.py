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
from ptr_robot.policy.config import StreamConfig, TrunkConfig

QWEN3 = "transformers.models.qwen3.modeling_qwen3"
KeysValues = tuple[Tensor, Tensor]  # (N, n, Hkv, head_dim) each


@dataclass(frozen=True)
class TrunkOutput:
    """Final-norm hidden states of both streams, and the keys and values of every layer."""

    und: Tensor  # (N, U, Du)
    gen: Tensor  # (N, G, Dg)
    keys_values: tuple[KeysValues, ...]  # one a layer, over past and present tokens


class MixtureOfTransformers(nn.Module):
    """Each stream has its own projections, norms and MLPs (they are Qwen3 models); attention is joint.

    ``und`` carries text and vision, ``gen`` carries state, belief and actions. A stream may have no tokens in a
    pass: at inference the context's keys and values are kept, and the passes over actions run ``gen`` alone.
    """

    def __init__(self, config: TrunkConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        self.und = create_stream(config, config.context, vocabulary_size)
        self.gen = create_stream(config, config.action, vocabulary_size=1)
        del self.gen.embed_tokens  # state and actions have embedders of their own

    def embed_text(self, ids: Tensor) -> Tensor:  # (N, n) -> (N, n, Du)
        """The language model's own token embeddings."""
        tokens: Tensor = self.und.embed_tokens(ids)
        return tokens

    def forward(
        self,
        und: Tensor,  # (N, U, Du)
        gen: Tensor,  # (N, G, Dg)
        positions: Tensor,  # (N, U + G) int64
        mask: Tensor,  # (N, U + G, P + U + G) bool; True: attends
        past: Sequence[KeysValues] | None = None,  # over P earlier tokens
    ) -> TrunkOutput:
        """One pass over the tokens of both streams, after the ``past`` ones if any."""
        rotation = self._rotation(positions)
        keys_values: list[KeysValues] = []
        for index, layers in enumerate(zip(self.und.layers, self.gen.layers, strict=True)):
            arguments = (layers, (und, gen), rotation, mask.unsqueeze(1), past[index] if past is not None else None)
            if self.config.checkpoint_activations and torch.is_grad_enabled():
                (und, gen), pair = checkpoint(joint_layer, *arguments, use_reentrant=False)
            else:
                (und, gen), pair = joint_layer(*arguments)
            keys_values.append(pair)
        return TrunkOutput(self.und.norm(und), self.gen.norm(gen), tuple(keys_values))

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:  # (N, n, head_dim) each
        """Cosines and sines of the rotary positions, in float32 whatever the precision of the pass."""
        angles = positions.unsqueeze(2).float() * self.und.rotary_emb.inv_freq
        angles = torch.cat([angles, angles], dim=2)
        return angles.cos(), angles.sin()


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
    rotation: tuple[Tensor, Tensor],  # cosines and sines
    mask: Tensor,  # (N, 1, n, P + n)
    past: KeysValues | None,
) -> tuple[tuple[Tensor, Tensor], KeysValues]:
    """One layer of both streams; returns the streams and the keys and values over past and present."""
    heads = [_project(*pair) for pair in zip(layers, streams, strict=True) if pair[1].shape[1]]
    queries, keys, values = (_join(kind) for kind in zip(*heads, strict=True))
    queries, keys = require(QWEN3, "lerobot").apply_rotary_pos_emb(queries, keys, *rotation, unsqueeze_dim=2)
    queries, keys = queries.to(values.dtype), keys.to(values.dtype)  # norms and rotations run in float32
    if past is not None:
        keys, values = torch.cat([past[0], keys], dim=1), torch.cat([past[1], values], dim=1)
    attended = F.scaled_dot_product_attention(  # over (N, heads, n, head_dim)
        queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), attn_mask=mask, enable_gqa=True
    )
    attended = attended.transpose(1, 2).flatten(2)  # (N, n, H head_dim)
    boundary = streams[0].shape[1]
    und = _finish(layers[0], streams[0], attended[:, :boundary])
    gen = _finish(layers[1], streams[1], attended[:, boundary:])
    return (und, gen), (keys, values)


def _project(layer: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (N, n, heads, head_dim) each
    """Queries, keys and values of one stream, with Qwen3's norms."""
    attention = layer.self_attn
    normed = layer.input_layernorm(hidden)
    shape = (*normed.shape[:2], -1, attention.head_dim)
    queries = attention.q_norm(attention.q_proj(normed).view(shape))
    keys = attention.k_norm(attention.k_proj(normed).view(shape))
    values = attention.v_proj(normed).view(shape)
    return queries, keys, values


def _join(streams: tuple[Tensor, ...]) -> Tensor:  # (N, n, heads, head_dim) each
    """The tokens of all streams in one sequence."""
    return streams[0] if len(streams) == 1 else torch.cat(streams, dim=1)


def _finish(layer: Any, hidden: Tensor, attended: Tensor) -> Tensor:  # (N, n, D)
    """The rest of a Qwen3 layer after attention: output projection and MLP, both residual."""
    if not hidden.shape[1]:
        return hidden
    hidden = hidden + layer.self_attn.o_proj(attended)
    finished: Tensor = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    return finished
