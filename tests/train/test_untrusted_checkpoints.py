"""A checkpoint from elsewhere: read, or refused in one line that names the file; nothing is run or fetched."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ptr_robot.errors import ConfigError, DataError
from ptr_robot.policy.registry import load_policy
from ptr_robot.policy.vla.config import VisionConfig
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.loop import train
from ptr_robot.train.sources import check_same_sources, read_sources
from ptr_robot.train.trained import load_trained

MODEL = "pretrained_model/model.safetensors"
ADAM = "training_state/optimizer_state.safetensors"


@pytest.fixture
def own(settings, trained, tmp_path):
    """A copy of the run that a test may damage: the settings that resume it, and its checkpoint."""
    config = trained(settings())
    run = shutil.copytree(config.output_dir, tmp_path / "copy", symlinks=True)
    return dataclasses.replace(config, output_dir=str(run), resume=True, steps=4), latest_checkpoint(Path(run))


def change_tensors(file: Path, change) -> None:
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def change_json(file: Path, change) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def test_weights_of_another_type_are_refused(own):
    _, checkpoint = own
    change_tensors(checkpoint / MODEL, lambda t: t.update({k: v.to(torch.int8) for k, v in list(t.items())[:1]}))
    with pytest.raises(DataError, match=r"model\.safetensors: the tensor .* holds I8 values"):
        load_trained(checkpoint)


def test_weights_that_are_not_finite_are_refused(own):
    _, checkpoint = own
    name = next(name for name, value in load_file(checkpoint / MODEL).items() if value.is_floating_point())
    change_tensors(checkpoint / MODEL, lambda t: t[name].fill_(float("nan")))
    with pytest.raises(DataError, match="holds NaN or infinity"):
        load_trained(checkpoint)


def test_a_missing_or_misshapen_moment_is_named(own):
    config, checkpoint = own
    name = next(name for name in load_file(checkpoint / ADAM) if name.endswith("/exp_avg"))
    change_tensors(checkpoint / ADAM, lambda t: t.pop(name))
    with pytest.raises(DataError, match=r"optimizer_state\.safetensors: the parameter .* has the moments"):
        train(config)
    change_tensors(checkpoint / ADAM, lambda t: t.update({name: torch.zeros(1, 2, 3)}))
    with pytest.raises(DataError, match="has the moments"):
        train(config)


@pytest.mark.parametrize("field", ["scheduler", "loader", "step"])
@pytest.mark.parametrize("value", [None, [], "x", {}, float("inf")])
def test_a_damaged_state_is_one_line(own, field, value):
    config, checkpoint = own
    change_json(checkpoint / "training_state/state.json", lambda content: content.update({field: value}))
    with pytest.raises((DataError, ConfigError)) as caught:
        train(config)
    assert "\n" not in str(caught.value)


def test_a_size_without_end_is_refused(own):
    _, checkpoint = own
    change_json(checkpoint / "pretrained_model/sources.json", lambda content: content[0].update(image_size=1e999))
    with pytest.raises(DataError, match=r"sources\.json cannot be read"):
        read_sources(checkpoint / "pretrained_model")


@pytest.mark.parametrize("scale", [0, [0.0] * 4, [1.0] * 3, [-1.0, 1, 1, 1], [1e999, 1, 1, 1], "x", None])
def test_scales_that_no_robot_moves_by_are_refused(own, scale):
    _, checkpoint = own
    change_json(checkpoint / "pretrained_model/sources.json", lambda content: content[0]["action"].update(scale=scale))
    with pytest.raises(DataError, match=r"sources\.json cannot be read"):
        read_sources(checkpoint / "pretrained_model")


def test_a_run_does_not_go_on_with_other_instructions(own):
    _, checkpoint = own
    begun = read_sources(checkpoint / "pretrained_model")
    renamed = [dataclasses.replace(source, tasks=("something else", *source.tasks[1:])) for source in begun]
    with pytest.raises(ConfigError, match="the list of instructions was another one"):
        check_same_sources(begun, renamed)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("trunk", "num_layers"), 10**9),
        (("trunk", "context", "width"), 10**12),
        (("trunk", "head_dim"), 0),
        (("trunk", "num_heads"), "many"),
        (("language", "vocabulary_size"), 10**15),
        (("chunk_length",), 10**9),
        (("flow",), 3),
        (("trunk",), None),
        (("language",), None),
        (("flow",), None),
    ],
)
def test_a_configuration_beyond_its_weights_takes_no_memory(own, place, value):
    _, checkpoint = own

    def change(content):
        inner = content["policy"]
        for name in place[:-1]:
            inner = inner[name]
        inner[place[-1]] = value

    change_json(checkpoint / "pretrained_model/config.json", change)
    with pytest.raises((DataError, ConfigError)) as caught:
        load_policy(checkpoint / "pretrained_model")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["checkpoint_path", "pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"])
def test_a_tower_loads_no_files(name):
    with pytest.raises(ConfigError, match=f"tower_arguments has '{name}'"):
        VisionConfig(tower_arguments={name: "/etc/passwd"})
    with pytest.raises(ConfigError, match="plain values"):
        VisionConfig(tower_arguments={"act_layer": {"a": 1}})


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", "[" * 100_000, '{"format": 2}'])
@pytest.mark.parametrize("name", ["config.json", "sources.json", "belief.json"])
def test_damaged_json_of_a_policy_is_one_line_that_names_the_file(own, name, content):
    _, checkpoint = own
    (checkpoint / "pretrained_model" / name).write_text(content)
    if (name, content) == ("belief.json", "{}"):
        return  # every setting of it has a default
    with pytest.raises((DataError, ConfigError), match=name) as caught:
        load_trained(checkpoint)
    assert "\n" not in str(caught.value)
