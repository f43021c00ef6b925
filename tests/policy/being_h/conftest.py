"""The tiny checkpoint in Being-H0.5's layout, and its reference cases as inputs of our own policy."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ptr_robot.policy.noise import Noise, Purpose
from ptr_robot.policy.observation import ActionChunk, Observation

CASES = ("libero_one_view", "arm_hand_two_views")


@pytest.fixture(scope="session")
def reference() -> Path:
    folder = os.environ.get("PTR_ROBOT_BEING_H_TINY")
    if not folder or not Path(folder).is_dir():
        pytest.skip("PTR_ROBOT_BEING_H_TINY is not set: it names the folder of the tiny Being-H0.5 checkpoint")
    return Path(folder)


@pytest.fixture(scope="session")
def checkpoint(reference) -> Path:
    return reference / "checkpoint"


@pytest.fixture
def own_copy(checkpoint, tmp_path) -> Path:
    """The checkpoint where a test may damage it."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for file in checkpoint.iterdir():
        shutil.copyfile(file, folder / file.name)
    return folder


class GivenNoise(Noise):
    """Numbers from a table in place of drawn ones, so that the reference's draws can be replayed."""

    table: dict[int, torch.Tensor]

    @staticmethod
    def of(**table: torch.Tensor) -> GivenNoise:
        noise = GivenNoise(torch.zeros(1, dtype=torch.int64))
        object.__setattr__(noise, "table", {Purpose[name]: values.flatten() for name, values in table.items()})
        return noise

    def uniform(self, purpose: int, places: torch.Tensor) -> torch.Tensor:
        return self.table[purpose][places].unsqueeze(0)

    normal = uniform


@dataclasses.dataclass(frozen=True)
class Case:
    """One reference case."""

    tensors: dict[str, torch.Tensor]
    facts: dict
    observation: Observation
    chunk: ActionChunk

    @property
    def training_noise(self) -> GivenNoise:
        """σ is drawn as (s − u)/s with u = uniform^(1/a): the uniform number that gives the reference's."""
        uniform = (0.999 - 0.999 * self.tensors["time"].double()).pow(1.5).float()
        return GivenNoise.of(
            TIME=uniform, ACTIONS=self.tensors["noise"], DIRECTIONS=self.tensors["mpg.train.directions"]
        )

    @property
    def sampling_noise(self) -> GivenNoise:
        return GivenNoise.of(
            ACTIONS=self.tensors["start_noise"],
            REFINEMENT=self.tensors["start_noise_refinement"],
            DIRECTIONS=self.tensors["mpg.infer.directions"],
        )


def read_case(reference: Path, name: str) -> Case:
    tensors, facts = load_file(reference / f"{name}.safetensors"), json.loads((reference / "cases.json").read_text())
    state_mask = torch.zeros(1, 200, dtype=torch.bool)
    for first, end in facts[name]["state_slots"]:
        state_mask[:, first:end] = True
    observation = Observation(
        images=tensors["images_uint8"].permute(0, 3, 1, 2).unsqueeze(0),  # (1, V, 3, 100, 120)
        view_mask=torch.ones(1, facts[name]["views"], dtype=torch.bool),
        states=tensors["state"],
        state_mask=state_mask,
        action_mask=tensors["action_mask"][:1].bool(),
        instructions=(facts[name]["instruction"],),
    )
    chunk = ActionChunk(tensors["action"].unsqueeze(0), action_is_pad=torch.zeros(1, 16, dtype=torch.bool))
    return Case(tensors, facts[name], observation, chunk)


@pytest.fixture(params=CASES)
def case(request, reference) -> Case:
    return read_case(reference, request.param)
