"""Messages as openpi's clients pack them: msgpack with NumPy arrays, read with care and never unpickled.

An array is a map with the keys ``__ndarray__``, ``data`` (bytes), ``dtype`` (NumPy's short form) and ``shape``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ptr_robot.errors import DataError, require

PLAIN_KINDS = "biuf"  # booleans, integers, floating point: no objects, no strings, no records
MAX_DIMENSIONS = 5
MAX_ENTRIES = 1000  # of a map or a list in a message


def pack(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    packed: bytes = require("msgpack", "serve").packb(message, default=_pack_array)
    return packed


def unpack(data: bytes) -> dict[str, Any]:
    """A message of a client; what is not one is a DataError."""
    msgpack = require("msgpack", "serve")
    try:
        message = msgpack.unpackb(
            data, object_hook=_unpack_array, max_map_len=MAX_ENTRIES, max_array_len=MAX_ENTRIES, strict_map_key=False
        )
    except DataError:
        raise
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise DataError(f"the message is not msgpack as openpi's client packs it ({error})") from error
    if not isinstance(message, dict):
        raise DataError(f"the message holds a {type(message).__name__}; an observation is a map of names to values")
    return message


def flatten(message: dict[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Nested maps as one, names joined by ``/``: ALOHA's clients nest their images."""
    flat: dict[str, Any] = {}
    for key, value in message.items():
        name = f"{prefix}{key.decode('utf-8', 'replace') if isinstance(key, bytes) else key}"
        if isinstance(value, dict):
            flat.update(flatten(value, f"{name}/"))
        else:
            flat[name] = value
    return flat


def _pack_array(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in PLAIN_KINDS:
        return {
            b"__ndarray__": True,
            b"data": np.ascontiguousarray(value).tobytes(),
            b"dtype": value.dtype.str,
            b"shape": value.shape,
        }
    if isinstance(value, np.generic) and value.dtype.kind in PLAIN_KINDS:
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def _unpack_array(value: dict[Any, Any]) -> Any:
    if b"__ndarray__" in value or "__ndarray__" in value:
        fields = {key.decode() if isinstance(key, bytes) else key: entry for key, entry in value.items()}
        return _checked_array(fields.get("data"), fields.get("dtype"), fields.get("shape"))
    if b"__npgeneric__" in value or "__npgeneric__" in value:
        return value.get(b"data", value.get("data"))
    return value


def _checked_array(data: Any, dtype: Any, shape: Any) -> np.ndarray[Any, Any]:
    """The array, if its type is plain and its shape is that of its bytes."""
    try:
        kind = np.dtype(dtype)
        sizes = [int(size) for size in shape]
    except (TypeError, ValueError) as error:
        raise DataError(f"an array of the message has the type {dtype!r} and the shape {shape!r}") from error
    if kind.kind not in PLAIN_KINDS:
        raise DataError(f"an array of the message has the type {kind}; numbers and booleans alone are read")
    if not isinstance(data, bytes) or len(sizes) > MAX_DIMENSIONS or any(size < 0 for size in sizes):
        raise DataError(f"an array of the message has no bytes, or the shape {sizes}")
    if math.prod(sizes) * kind.itemsize != len(data):
        raise DataError(f"an array of the message has {len(data)} bytes and the shape {sizes} of {kind}")
    return np.frombuffer(data, dtype=kind).reshape(sizes)
