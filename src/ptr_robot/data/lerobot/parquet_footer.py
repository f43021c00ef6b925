"""What a parquet file says of its own size: read from its footer by hand, since it may be anybody's.

Arrow reads the same numbers (``RowGroupMetaData.column``), but ends the process where a damaged footer does not fit its
schema. The footer is a struct of Thrift's compact protocol; of its fields only those that count something are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"PAR1"
_TRAILER = 8  # bytes: the footer's length and the magic
_DEEPEST = 16  # structs within structs; parquet's own go to six
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_WHOLE_NUMBERS = (4, 5, 6)
# Places of fields in FileMetaData, RowGroup, ColumnChunk and ColumnMetaData of the format's definition.
_ROW_GROUPS, _COLUMNS, _COLUMN_METADATA, _NUM_VALUES, _UNPACKED_SIZE = 4, 1, 3, 5, 6


@dataclass(frozen=True)
class ColumnSize:
    """Of one column in one group of rows."""

    num_values: int
    num_bytes: int  # once they are unpacked


def column_sizes(path: Path) -> list[list[ColumnSize]]:
    """By groups of rows and columns; ValueError where the footer is not one."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < _TRAILER:
            raise ValueError("too short for a footer")
        file.seek(size - _TRAILER)
        trailer = file.read(_TRAILER)
        length = int.from_bytes(trailer[:4], "little")
        if trailer[4:] != _MAGIC or length > size - _TRAILER:
            raise ValueError("no footer where it should be")
        file.seek(size - _TRAILER - length)
        reader = _CompactReader(file.read(length))
    try:
        return [group for field, kind in reader.fields() for group in _row_groups(reader, field, kind)]
    except IndexError as error:
        raise ValueError("the footer ends too early") from error


def _row_groups(reader: _CompactReader, field: int, kind: int) -> Iterator[list[ColumnSize]]:
    if (field, kind) != (_ROW_GROUPS, _LIST):
        reader.skip(kind)
        return
    for _ in reader.structs():
        columns: list[ColumnSize] = []
        for inner, inner_kind in reader.fields():
            if (inner, inner_kind) == (_COLUMNS, _LIST):
                columns = [_column(reader) for _ in reader.structs()]
            else:
                reader.skip(inner_kind)
        yield columns


def _column(reader: _CompactReader) -> ColumnSize:
    found = {_NUM_VALUES: 0, _UNPACKED_SIZE: 0}
    for field, kind in reader.fields():
        if (field, kind) != (_COLUMN_METADATA, _STRUCT):
            reader.skip(kind)
            continue
        for inner, inner_kind in reader.fields():
            if inner in found and inner_kind in _WHOLE_NUMBERS:
                found[inner] = reader.signed()
            else:
                reader.skip(inner_kind)
    return ColumnSize(found[_NUM_VALUES], found[_UNPACKED_SIZE])


class _CompactReader:
    """Goes through the bytes once; beyond their end is an IndexError, so that nothing claims more than there is."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and kind of each field of a struct, whose value the caller takes or skips."""
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self.signed()
            yield number, head & 15

    def structs(self) -> Iterator[None]:
        """Once for each struct of a list."""
        count, kind = self._list_head()
        if kind != _STRUCT and count:
            raise ValueError("the footer has other lists than parquet's")
        for _ in range(count):
            yield

    def signed(self) -> int:
        """A whole number, written so that small ones of either sign are short."""
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def skip(self, kind: int, depth: int = 0) -> None:
        """A value of that kind."""
        if depth > _DEEPEST:
            raise ValueError("the footer is nested too deeply")
        if kind in _WHOLE_NUMBERS:
            self._unsigned()
        elif kind in (_TRUE, _FALSE):
            return
        elif kind == _BYTE:
            self._forward(1)
        elif kind == _DOUBLE:
            self._forward(8)
        elif kind == _BINARY:
            self._forward(self._unsigned())
        elif kind in (_LIST, _SET):
            count, inner = self._list_head()
            for _ in range(count):
                self._skip_element(inner, depth)
        elif kind == _MAP:
            count = self._unsigned()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip_element(kinds >> 4, depth)
                self._skip_element(kinds & 15, depth)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        else:
            raise ValueError("the footer has a value of no known kind")

    def _skip_element(self, kind: int, depth: int) -> None:
        """Unlike a field's, a truth value in a list has a byte of its own."""
        self.skip(_BYTE if kind in (_TRUE, _FALSE) else kind, depth + 1)

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        return (self._unsigned() if count == 15 else count), head & 15

    def _unsigned(self) -> int:
        value = self.content[self.place]
        self.place += 1
        if value < 128:  # nearly all of them
            return value
        value, shift = value & 127, 7
        while shift <= 63:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("the footer has a number of more than 64 bits")

    def _byte(self) -> int:
        byte = self.content[self.place]
        self.place += 1
        return byte

    def _forward(self, count: int) -> None:
        self.place += count
        if self.place > len(self.content):
            raise IndexError
