from __future__ import annotations

import contextlib

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.errors import DataError
from ptr_robot.serve.messages import flatten, pack, unpack


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "float64"])
def test_openpis_own_packer_is_understood_both_ways(dtype):
    from openpi_client import msgpack_numpy

    values = {"a": np.arange(12).reshape(3, 4).astype(dtype), "b": {"c": "text"}, "d": np.float32(2.5)}
    found = unpack(msgpack_numpy.packb(values))
    np.testing.assert_array_equal(found["a"], values["a"])
    assert found["a"].dtype == values["a"].dtype
    assert found["d"] == 2.5
    back = msgpack_numpy.unpackb(pack({"actions": values["a"]}))
    np.testing.assert_array_equal(back["actions"], values["a"])


def array(data=b"\0" * 8, dtype="<f4", shape=(2,)):
    return msgpack.packb({"a": {b"__ndarray__": True, b"data": data, b"dtype": dtype, b"shape": shape}})


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        msgpack.packb([1, 2]),
        array(dtype="O"),
        array(dtype="V8"),
        array(dtype="S8"),
        array(dtype="[('a', 'O')]"),
        array(dtype=7),
        array(shape=(3,)),
        array(shape=(-2,)),
        array(shape=(2**62, 2)),
        array(shape=(1,) * 40),
        array(data="text"),
        b"\x81" * 5000,
    ],
)
def test_what_is_no_message_is_one_line(message):
    with pytest.raises(DataError):
        unpack(message)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_one_line(data):
    with contextlib.suppress(DataError):
        assert isinstance(unpack(data), dict)


def test_nested_maps_become_one():
    assert flatten({"images": {b"cam_high": 1}, "state": 2}) == {"images/cam_high": 1, "state": 2}
