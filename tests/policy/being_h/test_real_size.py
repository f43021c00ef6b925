"""At the published size, on the meta device: the tiny checkpoint's names and shapes, scaled up."""

from __future__ import annotations

import json
import re

import pytest

from ptr_robot.policy.being_h.config import BeingHConfig
from ptr_robot.policy.being_h.load import build_empty
from ptr_robot.policy.being_h.released import read_released_config
from ptr_robot.policy.being_h.sizes import published_size
from ptr_robot.policy.being_h.tensor_names import LANGUAGE_HEAD, their_names


def expected_shapes(config: BeingHConfig, tower: tuple[int, int, int, int]) -> dict[str, list[int]]:
    """Every name and shape from the sizes alone; ``tower``: width, MLP width, depth, patches."""
    trunk, (width, mlp, depth, patches) = config.trunk, tower
    shapes = {
        "vit_model.embeddings.class_embedding": [1, 1, width],
        "vit_model.embeddings.position_embedding": [1, patches + 1, width],
        "vit_model.embeddings.patch_embedding.weight": [width, 3, 14, 14],
        "vit_model.embeddings.patch_embedding.bias": [width],
    }
    linear = {"attn.qkv": (3 * width, width), "attn.proj": (width, width), "mlp.fc1": (mlp, width)}
    linear["mlp.fc2"] = (width, mlp)
    for block in range(depth):
        place = f"vit_model.encoder.layers.{block}"
        shapes |= {f"{place}.{name}": [width] for name in ("ls1", "ls2")}
        shapes |= {f"{place}.norm{n}.{kind}": [width] for n in (1, 2) for kind in ("weight", "bias")}
        for name, (rows, columns) in linear.items():
            shapes |= {f"{place}.{name}.weight": [rows, columns], f"{place}.{name}.bias": [rows]}
    context, action = trunk.context.width, trunk.action.width
    heads, pairs = trunk.num_heads * trunk.head_dim, trunk.num_key_value_heads * trunk.head_dim
    for suffix, stream in (("", trunk.context), ("_mot_gen", trunk.action)):
        shapes[f"language_model.model.norm{suffix}.weight"] = [stream.width]
        for layer in range(trunk.num_layers):
            place = f"language_model.model.layers.{layer}"
            projections = {"q": [heads, stream.width], "k": [pairs, stream.width], "v": [pairs, stream.width]}
            projections["o"] = [stream.width, heads]
            shapes |= {f"{place}.self_attn.{n}_proj{suffix}.weight": shape for n, shape in projections.items()}
            shapes |= {f"{place}.self_attn.{n}_norm{suffix}.weight": [trunk.head_dim] for n in "qk"}
            shapes |= {f"{place}.mlp{suffix}.{n}_proj.weight": [stream.mlp_width, stream.width] for n in ("gate", "up")}
            shapes[f"{place}.mlp{suffix}.down_proj.weight"] = [stream.width, stream.mlp_width]
            for norm in ("input_layernorm", "post_attention_layernorm"):
                shapes[f"{place}.{norm}{suffix}.weight"] = [stream.width]
    rows = {
        "connector.mlp1.1": [context, 4 * width],
        "connector.mlp1.3": [context, context],
        "proprio_encoder_robot.layer1": [action, 200],
        "proprio_encoder_robot.layer2": [action, action],
        "action_encoder.W1": [action, 200],
        "action_encoder.W2": [action, 2 * action],
        "action_encoder.W3": [action, action],
        "action_decoder.layer1": [action, action],
        "action_decoder.layer2": [200, action],
        "action_to_vlm_proj": [context, action],
        "vlm_to_action_proj": [action, context],
        "mpg.obs_proj": [context, context],
        "mpg.action_proj": [context, action],
        "mpg.enhancement_proj": [context, context],
    }
    for name, shape in rows.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    vocabulary = [config.language.vocabulary_size, context]
    shapes |= {"connector.mlp1.0.weight": [4 * width], "connector.mlp1.0.bias": [4 * width]}
    return shapes | {"language_model.model.embed_tokens.weight": vocabulary, LANGUAGE_HEAD: vocabulary}


def test_the_formula_is_that_of_the_released_layout(reference, checkpoint):
    config = read_released_config(checkpoint)
    assert expected_shapes(config, (32, 64, 3, 36)) == json.loads((reference / "keys.json").read_text())


def test_the_published_size():
    config = published_size("unused", has_gating=True)
    policy = build_empty(config)
    assert all(parameter.is_meta for parameter in policy.parameters())
    state = policy.state_dict()
    names = their_names(state)
    found = {names[name]: list(tensor.shape) for name, tensor in state.items()}
    expected = expected_shapes(config, (1024, 4096, 24, 256))
    assert found == {name: shape for name, shape in expected.items() if name != LANGUAGE_HEAD}
    assert len({re.sub(r"\.\d+\.", ".N.", name) for name in found}) > 50
    total = sum(parameter.numel() for parameter in policy.parameters()) + 151_936 * 2048
    assert total == pytest.approx(2.8e9, rel=0.01)
