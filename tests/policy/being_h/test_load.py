"""A checkpoint of the released layout is read whole, and one that is not is refused in a line."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from ptr_robot.errors import DataError, PTRError
from ptr_robot.policy.being_h.load import load_released
from ptr_robot.policy.being_h.released import is_released, read_released_config
from ptr_robot.policy.being_h.tensor_names import our_name, permute_in, permute_out, their_names, to_released

HEAD = "language_model.lm_head.weight"


def change_config(folder, **changes) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def change_tensors(folder, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def assert_same_weights(first, second) -> None:
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


def test_every_tensor_has_a_place_or_is_named(checkpoint, reference):
    keys = json.loads((reference / "keys.json").read_text())
    loaded = load_released(checkpoint, has_gating=True)
    assert loaded.left_out == (HEAD,)
    assert set(their_names(loaded.policy.state_dict()).values()) == set(keys) - {HEAD}
    plain = load_released(checkpoint)
    assert len(plain.left_out) == 11
    assert "language head" in plain.describe_left_out()
    assert "MPG (10 tensors)" in plain.describe_left_out()


def test_names_are_inverse(checkpoint):
    state = load_released(checkpoint, has_gating=True).policy.state_dict()
    for ours, theirs in their_names(state).items():
        assert our_name(theirs) == ours
    stored = load_file(checkpoint / "model.safetensors")
    for name, tensor in to_released(state).items():
        assert torch.equal(tensor, stored[name]), name


def test_the_permutation_is_that_of_the_pixel_shuffle():
    """Their channel (row, column, c) of a 2 x 2 square lands where pixel_unshuffle puts it."""
    channels = 3
    features = torch.arange(channels * 4.0).view(1, channels, 2, 2)
    theirs = torch.stack([features[0, c, row, column] for row in (0, 1) for column in (0, 1) for c in range(channels)])
    name = "connector.mlp1.0.weight"
    ours = torch.nn.functional.pixel_unshuffle(features, 2).flatten()
    assert torch.equal(permute_in(name, theirs), ours)
    assert torch.equal(permute_out(name, ours), theirs)


def test_shards_and_the_legacy_name(own_copy, checkpoint):
    tensors = load_file(own_copy / "model.safetensors")
    tensors = {name.replace("proprio_encoder_robot.", "state_encoder."): value for name, value in tensors.items()}
    (own_copy / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"model-00001-of-00002.safetensors": names[:70], "model-00002-of-00002.safetensors": names[70:]}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, own_copy / file)
    assert_same_weights(load_released(own_copy).policy, load_released(checkpoint).policy)
    weight_map = {name: file for file, part in shards.items() for name in part}
    index = own_copy / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    assert_same_weights(load_released(own_copy).policy, load_released(checkpoint).policy)
    index.write_text(json.dumps({"weight_map": weight_map | {names[0]: "../elsewhere.safetensors"}}))
    with pytest.raises(DataError, match="not a file of its own folder"):
        load_released(own_copy)
    index.write_text(json.dumps({"weight_map": weight_map | {names[0]: "model-00003.safetensors"}}))
    with pytest.raises(DataError, match="lacks the shard 'model-00003"):
        load_released(own_copy)


def test_bfloat16_becomes_float32(own_copy):
    change_tensors(own_copy, lambda tensors: tensors.update({n: t.bfloat16() for n, t in tensors.items()}))
    policy = load_released(own_copy).policy
    assert {parameter.dtype for parameter in policy.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("action_encoder.W2.bias"), "lacks the tensor 'action_encoder.W2.bias'"),
        (lambda t: t.update({"action_encoder.W2.bias": torch.zeros(3)}), r"has shape \(3,\).*\(48,\)"),
        (lambda t: t.update({"surprise.weight": torch.zeros(3)}), "'surprise.weight', which Being-H0.5 lacks"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(own_copy, change, message):
    change_tensors(own_copy, change)
    with pytest.raises(DataError, match=message) as raised:
        load_released(own_copy)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attn_mode": "full"}, "attn_mode is 'full'"),
        ({"template": "vicuna"}, "template is 'vicuna'"),
        ({"llm_config": None}, "llm_config is None"),
        ({"action_chunk_length": "16"}, "action_chunk_length is '16'"),
        ({"num_timestep_buckets": 0}, "num_timestep_buckets is 0"),
        ({"force_image_size": 224}, "image_size is 84"),
    ],
)
def test_a_config_that_we_cannot_honour_is_refused(own_copy, changes, message):
    change_config(own_copy, **changes)
    with pytest.raises(PTRError, match=message) as raised:
        load_released(own_copy)
    assert "\n" not in str(raised.value)


def test_gating_that_is_not_there(own_copy):
    change_config(own_copy, use_mpg=False)
    assert read_released_config(own_copy).gating is None
    with pytest.raises(DataError, match="no MPG to load"):
        load_released(own_copy, has_gating=True)


def test_a_broken_file_is_named(own_copy):
    content = (own_copy / "model.safetensors").read_bytes()
    (own_copy / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"model\.safetensors is not a whole safetensors file"):
        load_released(own_copy)
    (own_copy / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"holds no \.safetensors file"):
        load_released(own_copy)


def test_other_folders_are_not_recognised(own_copy, tmp_path):
    assert is_released(own_copy)
    assert not is_released(tmp_path)
    (own_copy / "config.json").write_text("{")
    assert not is_released(own_copy)
    with pytest.raises(DataError, match=r"is not the config of a Being-H0\.5 checkpoint"):
        read_released_config(own_copy)


def test_a_tokenizer_without_its_markers_is_refused(own_copy):
    for name in ("added_tokens.json", "tokenizer_config.json", "special_tokens_map.json"):
        file = own_copy / name
        file.write_text(file.read_text().replace("<|state_start|>", "<|other|>"))
    policy = load_released(own_copy).policy
    with pytest.raises(PTRError, match="has no token '<|state_start|>'".replace("|", r"\|")):
        policy.text.marker("<|state_start|>", 1, torch.device("cpu"))
