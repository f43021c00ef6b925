"""Published weights and tokenizers, through the libraries' own loading, from small ones the tests write."""

from __future__ import annotations

import dataclasses
import json
import zlib

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from ptr_robot.errors import ConfigError
from ptr_robot.policy.registry import load_policy, save_policy
from ptr_robot.policy.vla.config import WORDS as WORDS_TOKENIZER
from ptr_robot.policy.vla.config import LanguageConfig, VisionConfig
from ptr_robot.policy.vla.language import TextEncoder
from ptr_robot.policy.vla.policy import build_policy
from ptr_robot.policy.vla.presets import preset
from ptr_robot.policy.vla.pretrained import load_action_expert, load_language_model, load_vision_tower
from tests.policy.conftest import make_observation, noise, small_config

WORDS = ["[UNK]", "reach", "push", "the", "puck", "open", "act"]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory):
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path_factory.mktemp("tokenizer")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    return folder


def write_qwen3(folder, *, width, mlp_width, rope_theta=1e4):
    config = Qwen3Config(
        vocab_size=len(WORDS),
        hidden_size=width,
        intermediate_size=mlp_width,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        rope_theta=rope_theta,
        tie_word_embeddings=True,
    )
    model = Qwen3ForCausalLM(config).eval()
    model.save_pretrained(folder)
    return model


@pytest.fixture
def word_config(tokenizer_folder):
    language = LanguageConfig(tokenizer=str(tokenizer_folder), vocabulary_size=len(WORDS), prompt="act")
    return small_config(vision=False, language=language)


def test_a_hugging_face_tokenizer_gives_ids_and_masks(word_config):
    encoder = TextEncoder(word_config.language)
    ids, mask = encoder.instructions(("push the puck", "reach", ""), CPU)
    assert ids.tolist() == [[2, 3, 4], [1, 0, 0], [0, 0, 0]]
    assert mask.tolist() == [[True] * 3, [True, False, False], [False] * 3]
    assert encoder.prompt(2, CPU)[0].tolist() == [[6], [6]]


def test_bytes_give_one_id_a_byte_after_a_start():
    encoder = TextEncoder(LanguageConfig(prompt="é"))
    assert encoder.prompt(1, CPU)[0].tolist() == [[256, 0xC3, 0xA9]]
    ids, mask = encoder.instructions(("ab", ""), CPU)
    assert ids.tolist() == [[97, 98], [0, 0]]
    assert mask.tolist() == [[True, True], [False, False]]


def test_words_give_one_id_a_word_or_mark_that_only_its_spelling_decides():
    size = 50
    encoder = TextEncoder(LanguageConfig(tokenizer=WORDS_TOKENIZER, vocabulary_size=size))
    ids, mask = encoder.instructions(("Put the bowl, the red", "put THE bowl", ""), CPU)
    assert encoder.prompt(1, CPU)[0].tolist() == [[0]]
    expected = [1 + zlib.crc32(word) % (size - 1) for word in (b"put", b"the", b"bowl", b",", b"the", b"red")]
    assert ids[0].tolist() == expected
    assert ids[1, :3].tolist() == expected[:3]
    assert mask.sum(dim=1).tolist() == [6, 3, 0]
    assert ids[mask].min() >= 1
    assert ids.max() < size
    with pytest.raises(ConfigError, match="words need at least 2"):
        TextEncoder(LanguageConfig(tokenizer=WORDS_TOKENIZER, vocabulary_size=1))


def test_a_policy_that_reads_words_comes_back_as_it_was_saved(tmp_path):
    policy = build_policy(preset("micro-words-state"), seed=0)
    loaded = load_policy(save_policy(policy, tmp_path / "policy")).policy
    assert loaded.config == policy.config
    assert not (tmp_path / "policy" / "tokenizer").exists()
    texts = ("turn the knob", "close it")
    assert torch.equal(loaded.text.instructions(texts, CPU)[0], policy.text.instructions(texts, CPU)[0])


def test_the_streams_are_the_language_model(word_config, tmp_path):
    """Text alone must give the language model's own hidden states: und as they enter its last layer, gen at its end."""
    und = write_qwen3(tmp_path / "und", width=48, mlp_width=64)
    gen = write_qwen3(tmp_path / "gen", width=32, mlp_width=48)
    policy = build_policy(word_config, seed=0).eval()
    load_language_model(policy, tmp_path / "und")
    load_action_expert(policy, tmp_path / "gen")
    ids = torch.tensor([[6, 2, 3, 4, 1]])
    causal = torch.ones(1, 5, 5, dtype=torch.bool).tril()
    with torch.no_grad():
        for name, reference in (("und", und), ("gen", gen)):
            tokens = {"und": torch.zeros(1, 0, 48), "gen": torch.zeros(1, 0, 32)}
            tokens[name] = reference.model.embed_tokens(ids)
            layout = policy.trunk.layout(torch.arange(5).unsqueeze(0), causal)
            output = policy.trunk(tokens["und"], tokens["gen"], layout)
            hidden = reference.model(inputs_embeds=tokens[name], output_hidden_states=True).hidden_states
            expected = reference.model.norm(hidden[-2]) if name == "und" else hidden[-1]
            torch.testing.assert_close(getattr(output, name), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(policy.trunk.embed_text(ids), und.model.embed_tokens(ids))


def test_a_model_of_another_size_is_refused_by_its_first_tensor(word_config, tmp_path):
    write_qwen3(tmp_path / "wide", width=64, mlp_width=64)
    policy = build_policy(word_config, seed=0)
    with pytest.raises(ConfigError, match=r"differ at the tensor 'embed_tokens.weight': \(7, 64\) against \(7, 48\)"):
        load_language_model(policy, tmp_path / "wide")
    with pytest.raises(ConfigError, match="cannot be loaded as a Qwen3 model"):
        load_language_model(policy, tmp_path / "missing")
    with pytest.raises(ConfigError, match="no vision tower"):
        load_vision_tower(policy)
    seeing = build_policy(dataclasses.replace(word_config, vision=small_config().vision), seed=0)
    with pytest.raises(ConfigError, match=r"vision tower 'local-dir:.*missing' cannot be loaded"):
        load_vision_tower(seeing, f"local-dir:{tmp_path / 'missing'}")


def test_a_model_with_lost_or_renamed_tensors_is_refused_and_not_filled_at_random(word_config, tmp_path):
    write_qwen3(tmp_path, width=48, mlp_width=64)
    policy = build_policy(word_config, seed=0)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    save_file({name: tensor for name, tensor in tensors.items() if ".layers.1." not in name}, file, {"format": "pt"})
    with pytest.raises(ConfigError, match=r"lacks 11 tensors of a Qwen3 model .*'layers\.1\.input_layernorm\.weight'"):
        load_language_model(policy, tmp_path)
    save_file({f"language.{name}": tensor for name, tensor in tensors.items()}, file, {"format": "pt"})
    with pytest.raises(ConfigError, match=r"lacks 24 tensors"):
        load_language_model(policy, tmp_path)


@pytest.mark.parametrize(("load", "width"), [(load_language_model, 48), (load_action_expert, 32)])
def test_a_model_of_other_positions_is_refused(word_config, tmp_path, load, width):
    write_qwen3(tmp_path, width=width, mlp_width=width + 16, rope_theta=1e6)
    with pytest.raises(ConfigError, match=r"was trained with rope_theta=1000000\.0 and this policy has 10000.0"):
        load(build_policy(word_config, seed=0), tmp_path)


def test_the_tokenizer_travels_with_the_policy(word_config, tokenizer_folder, tmp_path):
    policy = build_policy(word_config, seed=0).eval()
    folder = save_policy(policy, tmp_path / "policy")
    loaded = load_policy(folder).policy
    assert loaded.config.language.tokenizer == str(folder / "tokenizer")
    before, after = (p.predict(make_observation(), noise=noise()).actions for p in (policy, loaded))
    torch.testing.assert_close(before, after, rtol=0, atol=0)


def test_tokenizers_that_cannot_serve_are_named(word_config):
    missing = dataclasses.replace(word_config.language, tokenizer="no/such-folder")
    with pytest.raises(ConfigError, match=r"language.tokenizer='no/such-folder' cannot be loaded"):
        TextEncoder(missing).prompt(1, CPU)
    small = dataclasses.replace(word_config.language, vocabulary_size=3)
    with pytest.raises(ConfigError, match=r"gives the id 6, but language.vocabulary_size is 3"):
        TextEncoder(small).prompt(1, CPU)
    silent = dataclasses.replace(word_config.language, prompt="")
    with pytest.raises(ConfigError, match="prompt is empty"):
        TextEncoder(silent).prompt(1, CPU)


def test_timm_weights_fill_the_tower(tmp_path):
    config = dataclasses.replace(small_config(), vision=VisionConfig(tower="test_vit", image_size=160))
    model = timm.create_model("test_vit", num_classes=0, img_size=160)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    record = {
        "architecture": "test_vit",
        "num_classes": 0,
        "pretrained_cfg": {"input_size": [3, 160, 160], "num_classes": 0, "mean": [0.5] * 3, "std": [0.25] * 3},
    }
    (tmp_path / "config.json").write_text(json.dumps(record))
    policy = build_policy(config, seed=0).eval()
    load_vision_tower(policy, f"local-dir:{tmp_path}")
    loaded = policy.vision.tower.model.state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())
    white = torch.full((1, 3, 160, 160), 255, dtype=torch.uint8)
    again = load_policy(save_policy(policy, tmp_path / "policy")).policy
    for side in (policy, again):  # pixels as these weights know them
        assert torch.equal(side.vision.tower.normalise(white), torch.full((1, 3, 160, 160), 2.0))


@pytest.mark.parametrize("source", ["resnet18", "local-dir:FOLDER", "hf-hub:not an id"])
def test_weights_that_are_no_tower_are_one_line(tmp_path, source):
    (tmp_path / "config.json").write_text('{"model_type": "siglip"}')
    policy = build_policy(small_config(), seed=0)
    with pytest.raises(ConfigError, match="cannot be loaded") as caught:
        load_vision_tower(policy, source.replace("FOLDER", str(tmp_path)))
    assert "\n" not in str(caught.value)


def test_presets_normalise_pixels_as_the_published_weights_of_their_towers_expect():
    for name in ("small", "being-h05"):
        vision = preset(name).vision
        published = timm.models.get_pretrained_cfg(vision.tower)
        assert (vision.mean, vision.std) == (published.mean, published.std)


@pytest.mark.parametrize(
    ("vision", "line"),
    [
        ({"image_size": 7}, r"vision\.image_size is 7, smaller than a patch of the vision tower"),
        ({"image_size": 8}, r"gives 1 x 1 patches, which vision\.shuffle=2 does not divide"),
        ({"image_size": 24}, r"gives 3 x 3 patches, which vision\.shuffle=2 does not divide"),
        ({"image_size": 0}, r"vision\.image_size is 0; it must be from 1 to 16384"),
        ({"shuffle": 0}, r"vision\.shuffle is 0; it must be from 1 to 16384"),
        ({"tower": "test_convnext", "tower_arguments": {}, "image_size": 31}, r"vision\.image_size is 31, smaller"),
        ({"tower": "test_vit", "tower_arguments": {}, "image_size": 40}, r"is 40, which .*divisible by patch size"),
    ],
)
def test_an_image_size_that_does_not_fit_is_refused_when_the_tower_is_built(vision, line):
    config = small_config()
    with pytest.raises(ConfigError, match=line) as caught:
        build_policy(dataclasses.replace(config, vision=dataclasses.replace(config.vision, **vision)), seed=0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [16, 20, 32, 39])
def test_an_image_size_need_not_be_a_multiple_of_a_patch(size):
    config = small_config()
    vision = dataclasses.replace(config.vision, image_size=size)
    policy = build_policy(dataclasses.replace(config, vision=vision), seed=0).eval()
    assert policy.predict(make_observation(), noise=noise()).actions.isfinite().all()


def test_a_convolutional_tower_serves_as_well():
    vision = VisionConfig(tower="test_convnext", image_size=64)
    policy = build_policy(dataclasses.replace(small_config(), vision=vision), seed=0).eval()
    assert policy.num_prefix_tokens == 0
    actions = policy.predict(make_observation(), noise=noise()).actions
    assert actions.isfinite().all()
