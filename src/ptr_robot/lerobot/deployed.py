"""A policy that ``lerobot-train`` saved, as something that acts: raw observations in, the robot's actions out.

The policy and its processors are LeRobot's own, loaded from the checkpoint; what is carried from chunk to chunk of an
episode, which LeRobot's policies keep for one episode at a time, is kept here for each slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptr_robot.errors import ConfigError, ShapeError, did_you_mean
from ptr_robot.lerobot.attached import STATE, PTRPolicyMixin
from ptr_robot.lerobot.saved import SavedLeRobotPolicy, load_saved
from ptr_robot.method.hashing import hash_integers
from ptr_robot.policy.carried_belief import CarriedBelief
from ptr_robot.policy.deployed import RobotObservation

SIZED = ("act", "diffusion")  # these take images as they are; the others bring them to a size of their own


@dataclass(frozen=True)
class _Episode:
    seed: int
    num_chunks: int  # predicted so far
    belief: CarriedBelief


class DeployedLeRobotPolicy:
    """Several episodes side by side, each predicted by itself: its actions depend on its seed and observations alone.

    A policy that looks at a history of frames takes them from the observation; a single frame stands for all of them,
    as LeRobot begins an episode.
    """

    def __init__(self, saved: SavedLeRobotPolicy, n_action_steps: int | None = None) -> None:
        self._saved = saved
        self._num_executed = min(n_action_steps or self.action_horizon, self.action_horizon)
        self._episodes: dict[int, _Episode] = {}

    @staticmethod
    def load(path: Path, device: str = "cpu", n_action_steps: int | None = None) -> DeployedLeRobotPolicy:
        """The policy of a run, of a checkpoint or of its ``pretrained_model`` folder.

        ``n_action_steps`` actions of a chunk are carried out before the next look, all of them if it is unset.
        """
        return DeployedLeRobotPolicy(load_saved(path, device), n_action_steps)

    @property
    def kind(self) -> str:
        """Its type, as ``--policy.type`` names it."""
        return str(self._saved.config.type)

    @property
    def camera_keys(self) -> tuple[str, ...]:
        """The cameras that every observation must bring."""
        return tuple(self._saved.config.image_features)

    @property
    def state_dim(self) -> int:
        """Numbers of the robot's state; 0: the policy is not told it."""
        feature = self._saved.config.robot_state_feature
        return 0 if feature is None else int(feature.shape[0])

    @property
    def action_dim(self) -> int:
        """Numbers of an action."""
        return int(self._saved.config.action_feature.shape[0])

    @property
    def action_horizon(self) -> int:
        """L: actions of a chunk."""
        config = self._saved.config
        return int(config.n_action_steps if self._base == "diffusion" else config.chunk_size)

    @property
    def num_frames(self) -> int:
        """How many frames, the last one the present, the policy looks at."""
        return int(self._saved.config.n_obs_steps)

    @property
    def _belief_period(self) -> int:
        """Steps from chunk to chunk in training."""
        return int(getattr(self._saved.config, "offset_steps", self.action_horizon))

    @property
    def _base(self) -> str:
        return self.kind.removeprefix("ptr_")

    def reset(self, slot: int, seed: int) -> None:
        """An episode begins in ``slot``."""
        self._episodes[slot] = _Episode(seed, num_chunks=0, belief=CarriedBelief())

    @torch.no_grad()
    def act(self, slots: Sequence[int], observations: Sequence[RobotObservation]) -> NDArray[np.float32]:  # (N, L, D)
        """The next chunk of actions of each slot, in the robot's units."""
        batches = [self._batch(seen) for seen in observations]
        return np.stack([self._act(slot, batch) for slot, batch in zip(slots, batches, strict=True)])

    def _act(self, slot: int, batch: dict[str, Any]) -> NDArray[np.float32]:  # (L, D)
        if slot not in self._episodes:
            raise ConfigError(f"no episode has begun in slot {slot}; call reset({slot}, seed) before the first chunk")
        episode, saved = self._episodes[slot], self._saved
        key = int(hash_integers(torch.tensor([episode.seed]), episode.num_chunks))
        devices = [saved.device] if saved.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):  # LeRobot's policies draw from torch's own generator
            torch.manual_seed(key)
            belief = episode.belief.at_look(self._belief_period)
            chunk, found = self._predict(saved.preprocess(batch), belief.now)
        belief = belief.after_look(found, self._num_executed)
        self._episodes[slot] = _Episode(episode.seed, episode.num_chunks + 1, belief)
        actions: Tensor = saved.postprocess(chunk)
        return actions[0].float().cpu().numpy()

    def _predict(self, batch: dict[str, Any], belief: Tensor | None) -> tuple[Tensor, Tensor | None]:
        policy: Any = self._saved.policy
        if self._base == "diffusion":  # its predict_action_chunk reads a queue that only select_action fills
            images = torch.stack([batch[key] for key in self.camera_keys], dim=-4)
            return policy.diffusion.generate_actions(batch | {"observation.images": images}), None
        if isinstance(policy, PTRPolicyMixin):
            return policy.predict_from(belief, batch)
        policy.reset()
        return policy.predict_action_chunk(batch), None

    def _batch(self, seen: RobotObservation) -> dict[str, Any]:
        """As LeRobot hands an observation to the preprocessor: one sample, images in [0, 1] with channels first."""
        batch: dict[str, Any] = {"task": [seen.instruction]}  # tensors are copies: a message's arrays are read-only
        if self.state_dim:
            batch[STATE] = self._frames(torch.tensor(self._state(seen)), num_dims=1, name="state")
        for key in self.camera_keys:
            image = torch.tensor(self._image(seen, key)).movedim(-1, -3).float() / 255
            batch[key] = self._frames(image, num_dims=3, name=f"image {key!r}")
        return batch

    def _frames(self, values: Tensor, *, num_dims: int, name: str) -> Tensor:  # (...) or (n, ...) -> (1, [n,] ...)
        count = self.num_frames
        has_history = values.dim() > num_dims
        if has_history and len(values) != count:
            raise ShapeError(f"the {name} has {len(values)} frames; {self.kind} looks at {count}")
        if count == 1:
            return values if has_history else values.unsqueeze(0)
        return (values if has_history else values.expand(count, *values.shape)).unsqueeze(0)

    def _state(self, seen: RobotObservation) -> NDArray[np.float32]:  # (D,) or (n, D)
        state = np.asarray(seen.state, dtype=np.float32)
        if state.ndim not in (1, 2) or state.shape[-1] != self.state_dim:
            raise ShapeError(f"the state has shape {state.shape}; the policy was trained with ({self.state_dim},)")
        if not np.isfinite(state).all():
            raise ShapeError(f"the state {state.tolist()} is not finite; check the robot that measured it")
        return state

    def _image(self, seen: RobotObservation, key: str) -> NDArray[np.uint8]:  # (H, W, 3) or (n, H, W, 3)
        if key not in seen.images:
            raise ConfigError(
                f"the policy looks through {key!r}, which the observation lacks; {did_you_mean(key, seen.images)}"
            )
        image = seen.images[key]
        if image.ndim not in (3, 4) or image.shape[-1] != 3 or image.dtype != np.uint8:
            raise ShapeError(f"the image {key!r} is {image.dtype} {image.shape}; it must be uint8 (height, width, 3)")
        height, width = self._saved.config.image_features[key].shape[1:]
        if self._base in SIZED and image.shape[-3:-1] != (height, width):
            raise ShapeError(
                f"the image {key!r} is {image.shape[-3]} x {image.shape[-2]}; {self.kind} was trained on "
                f"{height} x {width} and does not resize: send that size"
            )
        return image
