"""From the names that robot stacks use to what the policy was trained with.

A policy knows its own names (``observation.state``, ``observation.images.top``). Clients send others: LIBERO's
``observation/image``, DROID's joint and gripper positions apart, ALOHA's ``images/cam_high`` with channels first. Names
that differ only in their first part and their separators are found; others are given as a map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.errors import DataError, did_you_mean
from ptr_robot.policy.deployed import RobotObservation

STATE_NAMES = ("observation.state", "observation/state", "state")
STATE_PARTS = ("observation/joint_position", "observation/gripper_position")  # DROID sends its state in two
PROMPT_NAMES = ("prompt", "task", "instruction")


class ObservationReader:
    """Reads flat messages into observations of one robot."""

    def __init__(
        self,
        cameras: Sequence[str],
        *,
        keys: Mapping[str, str] | None = None,
        default_instruction: str = "",
        has_state: bool = True,
        has_history: bool = False,
    ) -> None:
        self._cameras = tuple(cameras)
        self._has_state = has_state
        self._has_history = has_history  # states and pictures may be stacks of the last frames, oldest first
        self._keys = dict(keys or {})  # the policy's name -> the client's
        self._default_instruction = default_instruction

    def read(self, message: Mapping[str, Any]) -> RobotObservation:
        """An observation, or a DataError that names what is missing or has the wrong form."""
        images = {key: self._pictures(self._find_image(message, key), key) for key in self._cameras}
        return RobotObservation(state=self._state(message), images=images, instruction=self._instruction(message))

    def _state(self, message: Mapping[str, Any]) -> NDArray[np.float32]:  # (D,) or (n, D)
        if not self._has_state:
            return np.zeros(0, dtype=np.float32)
        own = self._keys.get("observation.state")
        names = (own,) if own else STATE_NAMES
        found = next((message[name] for name in names if name in message), None)
        if found is None and own is None and all(name in message for name in STATE_PARTS):
            found = np.concatenate([np.atleast_1d(np.asarray(message[name])).ravel() for name in STATE_PARTS])
        if found is None:
            raise DataError(f"the observation has no state; send it as {names[0]!r} (it has: {_names(message)})")
        try:
            state = np.asarray(found, dtype=np.float32)
            return state if self._has_history and state.ndim == 2 else state.reshape(-1)
        except (TypeError, ValueError) as error:
            raise DataError(f"the observation's state is not a vector of numbers ({error})") from error

    def _pictures(self, value: Any, key: str) -> NDArray[np.uint8]:  # (H, W, 3) or (n, H, W, 3)
        if self._has_history and isinstance(value, np.ndarray) and value.ndim == 4 and len(value):
            return np.stack([_picture(frame, key) for frame in value])
        return _picture(value, key)

    def _instruction(self, message: Mapping[str, Any]) -> str:
        own = self._keys.get("prompt")
        found = next((message[name] for name in ((own,) if own else PROMPT_NAMES) if name in message), None)
        if isinstance(found, bytes):
            found = found.decode("utf-8", "replace")
        if found is not None and not isinstance(found, str):
            raise DataError(f"the observation's prompt is a {type(found).__name__}; it must be a text")
        return found if found is not None else self._default_instruction

    def _find_image(self, message: Mapping[str, Any], key: str) -> Any:
        if key in self._keys:
            wanted: Sequence[str] = (self._keys[key],)
        else:
            short = key.rpartition(".")[2]
            wanted = (key, key.replace(".", "/"), f"observation/{short}", f"images/{short}", short)
        for name in wanted:
            if name in message:
                return message[name]
        raise DataError(
            f"the observation has no picture of {key!r}; send it as {wanted[0]!r}, or start the server with --keys "
            f"({did_you_mean(wanted[0], message)})"
        )


def _picture(value: Any, key: str) -> NDArray[np.uint8]:  # (H, W, 3)
    """Bytes with channels last, from either order and from floating point in [0, 1]."""
    if not isinstance(value, np.ndarray) or value.ndim != 3:
        shape = value.shape if isinstance(value, np.ndarray) else type(value).__name__
        raise DataError(f"the picture of {key!r} is {shape}; it must be an array (height, width, 3)")
    if value.shape[2] != 3 and value.shape[0] == 3:
        value = value.transpose(1, 2, 0)
    if value.dtype.kind == "f":
        value = (np.clip(np.nan_to_num(value), 0, 1) * 255).round().astype(np.uint8)
    if value.shape[2] != 3 or value.dtype != np.uint8 or 0 in value.shape:
        raise DataError(f"the picture of {key!r} is {value.dtype} {value.shape}; it must be uint8 (height, width, 3)")
    return np.ascontiguousarray(value)


def _names(message: Mapping[str, Any]) -> str:
    return ", ".join(sorted(map(str, message))[:12]) or "nothing"
