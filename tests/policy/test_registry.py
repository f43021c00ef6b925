"""Types of policies are found by name, by entry point and by the layout of a folder."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from ptr_robot.errors import ConfigError, DataError
from ptr_robot.policy import registry
from ptr_robot.policy.policy_files import load_weights, save_weights
from ptr_robot.policy.policy_type import PolicyChoice, PolicyType, SavedPolicy
from ptr_robot.policy.registry import load_policy, policy_type, recognised_type, register_policy, save_policy
from ptr_robot.policy.vla.config import PolicyConfig
from ptr_robot.policy.vla.policy import MixturePolicy
from tests.policy.conftest import make_observation, noise, small_config


class OtherPolicy(MixturePolicy):
    """The same with another layout on disk."""


@dataclass(frozen=True)
class OtherChoice(PolicyChoice):
    """No flags of its own."""

    type: str = "other"

    def configure(self, num_belief_tokens: int | None) -> PolicyConfig:
        return small_config(vision=False, num_belief_tokens=num_belief_tokens or 0)


class OtherType(PolicyType):
    """Keeps its configuration under a name that another project chose."""

    def recognises(self, folder: Path) -> bool:
        return (folder / "architecture.json").is_file()

    def save(self, policy, folder, robots):
        (folder / "architecture.json").write_text(json.dumps(dataclasses.asdict(policy.config)))
        save_weights(policy, folder / "weights.safetensors")

    def load(self, folder: Path) -> SavedPolicy:
        policy = OtherPolicy(self.read_config(folder))
        load_weights(policy, folder / "weights.safetensors")
        return SavedPolicy(policy.eval(), robots=None)

    def read_config(self, folder: Path) -> PolicyConfig:
        return PolicyConfig.from_dict(json.loads((folder / "architecture.json").read_text()))


OTHER = OtherType(name="other", choice=OtherChoice, config=PolicyConfig, policy=OtherPolicy)


@pytest.fixture(autouse=True)
def _registry_of_its_own(monkeypatch):
    monkeypatch.setattr(registry, "_types", {name: policy_type(name) for name in registry._OWN_MODULES})


def test_a_layout_of_its_own_is_recognised(tmp_path):
    register_policy(OTHER)
    policy = OTHER.build(small_config(vision=False), seed=0).eval()
    folder = save_policy(policy, tmp_path / "policy")
    assert sorted(path.name for path in folder.iterdir()) == ["architecture.json", "weights.safetensors"]
    assert recognised_type(folder) is OTHER
    loaded = load_policy(folder)
    assert loaded.robots is None
    before, after = (p.predict(make_observation(), noise=noise(3)).actions for p in (policy, loaded.policy))
    torch.testing.assert_close(before, after, rtol=0, atol=0)


def test_a_folder_of_the_first_format_is_the_reference_policy(flow_policy, tmp_path):
    folder = save_policy(flow_policy, tmp_path / "policy")
    record = json.loads((folder / "config.json").read_text())
    assert record["format"] == 2
    assert record.pop("type") == "vla"
    (folder / "config.json").write_text(json.dumps(record | {"format": 1}))
    assert isinstance(load_policy(folder).policy, MixturePolicy)


def test_a_type_that_is_not_registered_is_named(flow_policy, tmp_path):
    folder = save_policy(flow_policy, tmp_path / "policy")
    record = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(record | {"type": "octopus"}))
    with pytest.raises(ConfigError, match=r"no policy type 'octopus' .*discover_packages_path"):
        load_policy(folder)
    for wrong in ({"type": ["vla"]}, {"format": [2]}, {"format": 99}):
        (folder / "config.json").write_text(json.dumps(record | wrong))
        with pytest.raises(DataError, match="format 2 or 1"):
            load_policy(folder)


def test_a_policy_of_no_type_is_not_saved(tmp_path):
    with pytest.raises(ConfigError, match="OtherPolicy belongs to no registered policy type"):
        save_policy(OtherPolicy(small_config(vision=False)), tmp_path / "policy")


def test_registration_is_checked():
    register_policy(OTHER)
    register_policy(OTHER)  # importing a module twice does no harm
    with pytest.raises(ConfigError, match="two policy types 'other'"):
        register_policy(dataclasses.replace(OTHER, policy=MixturePolicy))
    with pytest.raises(ConfigError, match=r"OtherChoice.type is 'other'; .* 'else'"):
        register_policy(dataclasses.replace(OTHER, name="else"))


def test_entry_points_are_imported_when_they_are_asked_for(monkeypatch):
    class Point:
        name, value = "other", "their_package"

        def load(self):
            register_policy(OTHER)

    class Broken(Point):
        name = "broken"

        def load(self):
            raise ImportError("no such thing")

    points = [Point(), Broken()]

    def entry_points(*, group, name=None):
        assert group == "ptr_robot.policies"
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert policy_type("other") is OTHER
    with pytest.raises(ConfigError, match=r"policy type 'broken' cannot be imported \(ImportError: no such thing\)"):
        policy_type("broken")
