"""Damaged forms of sound files: values of other types, names that lead elsewhere, fields gone, bytes turned."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

DEEPEST_PLACE = 20
DEEP: Any = "end"
for _ in range(200):
    DEEP = [DEEP]

HOSTILE_TEXTS = (
    "",
    "..",
    "../../evil",
    "/etc/passwd",
    "a\x00b",
    "{chunk_index.__class__}",
    "{episode_index:09999999999d}",
    "{",
    "%s%n",
    "n" * 5000,
    "\ud800",
    "<script>alert(1)</script>",
    "Ω≈ç√",
)
HOSTILE_NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 1e308, float("nan"), float("inf"), -float("inf"), 0.5)
VALUES = (
    st.sampled_from([None, True, False, [], {}, DEEP])
    | st.sampled_from(HOSTILE_NUMBERS)
    | st.sampled_from(HOSTILE_TEXTS)
    | st.text(max_size=8)
    | st.integers()
    | st.lists(st.integers() | st.text(max_size=3), max_size=3)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)


def places(value: Any, here: tuple = ()) -> list[tuple]:
    """The ways to every value inside a JSON document, itself included, down to what nobody nests by hand."""
    if len(here) == DEEPEST_PLACE:
        return [here]
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, inner in entries for place in places(inner, (*here, key)))]


@st.composite
def changed(draw, document: Any, most: int = 3) -> Any:
    """The document with up to ``most`` values replaced or taken away."""
    result = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, most))):
        place = draw(st.sampled_from(places(result)))
        value = copy.deepcopy(draw(VALUES))  # what is put in here may be changed in turn, and is drawn again
        if not place:
            result = value if draw(st.integers(0, 9)) == 0 else result
            continue
        inner = result
        for key in place[:-1]:
            inner = inner[key]
        if draw(st.booleans()):
            inner[place[-1]] = value
        else:
            del inner[place[-1]]
    return result


@st.composite
def turned(draw, content: bytes) -> bytes:
    """The bytes cut short, or with a few others in them."""
    result = bytearray(content)
    for _ in range(draw(st.integers(0, 4))):
        result[draw(st.integers(0, len(result) - 1))] = draw(st.integers(0, 255))
    return bytes(result[: draw(st.integers(0, len(result)))]) if draw(st.booleans()) else bytes(result)


def texts(document: Any) -> st.SearchStrategy[bytes]:
    """A JSON document, changed as a document or as bytes."""
    sound = json.dumps(document).encode()
    return changed(document).map(lambda value: json.dumps(value).encode(errors="surrogatepass")) | turned(sound)


@st.composite
def tables(draw, file: Path) -> pa.Table:
    """A parquet table with a column gone, renamed, of another type, or with hostile cells."""
    table = pq.read_table(file)
    name = draw(st.sampled_from(table.column_names))
    place = table.schema.get_field_index(name)
    way = draw(st.sampled_from(["drop", "rename", "cells", "fewer", "twice"]))
    if way == "drop":
        return table.drop_columns([name])
    if way == "rename":
        return table.rename_columns(["x" if column == name else column for column in table.column_names])
    if way == "fewer":
        return table.slice(0, draw(st.integers(0, len(table))))
    if way == "twice":
        return pa.concat_tables([table, table])
    kind = draw(st.sampled_from([table.schema.field(name).type, pa.int64(), pa.float64(), pa.string(), pa.bool_()]))
    values = table[name].to_pylist()
    values[draw(st.integers(0, len(values) - 1))] = draw(VALUES)
    return table.set_column(place, name, _array(values, kind))


def _array(values: list, kind: pa.DataType) -> pa.Array:
    """The values as a column of the kind; those that do not fit are empty cells."""
    return pa.array([value if _fits(value, kind) else None for value in values], type=kind)


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True
