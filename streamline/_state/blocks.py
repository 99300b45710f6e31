"""From the blocks of a snapshot to entries, whatever form they have."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec

from streamline._state.classes import Classes, fields_of
from streamline._state.codec import decode_column, read_columns
from streamline._state.rows import RowCodec
from streamline._state.snapshot import TableSnapshot
from streamline._state.table import Piece, keep
from streamline.errors import StateMigrationException

__all__ = ("Block", "Owns", "decode", "own_rows", "rows_of_block")

#: A run of columns as bytes, or rows: keys and values.
Block: TypeAlias = bytes | tuple[list[bytes], list[bytes]]
#: Whether a key belongs to a subtask; None: all do.
Owns: TypeAlias = Callable[[Any], bool] | None

_rows: Final = msgspec.msgpack.Decoder(tuple[list[bytes], list[bytes]])
_first: Final = itemgetter(0)


def rows_of_block(block: Block) -> tuple[list[bytes], list[bytes]]:
    """The rows of a block that has rows."""
    return _rows.decode(block) if isinstance(block, bytes) else block


def decode(table: TableSnapshot, block: Block, classes: Classes, owns: Owns) -> Piece:
    """A block as entries; only those whose key `owns` accepts.

    Raises:
        CheckpointException: a class is not known to the program.
    """
    if table.form == "columns":
        assert isinstance(block, bytes)
        nodes = read_columns(block)
        _check_key(table, nodes[-2][1], classes)
        columns = [decode_column(n, node, classes) for n, node in nodes]
        keys, values = columns[-2:]
        spaces, counts = (columns[0], columns[1]) if len(columns) == 4 else (None, None)
        if owns is None:
            return spaces, counts, keys, values
        return keep(list(map(owns, keys)), spaces, counts, keys, values)
    codec = RowCodec(classes, table.classes)
    raw_keys, raw_values = rows_of_block(block)
    _check_raw(table, raw_keys, classes)
    if nested(table):
        return _nested(table, codec, raw_keys, raw_values, owns)
    keys = list(map(codec.decode, raw_keys))
    values = list(map(codec.decode, raw_values))
    return (None, None, keys, values) if owns is None else keep(list(map(owns, keys)), None, None, keys, values)


def _nested(table: TableSnapshot, codec: RowCodec, raw_keys: list[bytes], raw_values: list[bytes], owns: Owns) -> Piece:
    """Rows of two parts: namespace and key, or key and key of a map."""
    spaces: list[Any] = []
    counts: list[int] = []
    keys: list[Any] = []
    values: list[Any] = []
    rows = [(*split(raw), value) for raw, value in zip(raw_keys, raw_values)]
    for raw_outer, group in groupby(rows, _first):
        outer = codec.decode(raw_outer)
        inner = [(codec.decode(raw), codec.decode(value)) for _, raw, value in group]
        if not table.namespaced:
            if owns is None or owns(outer):
                keys.append(outer)
                values.append(dict(inner))
            continue
        if owns is not None:
            inner = [pair for pair in inner if owns(pair[0])]
        if inner:
            spaces.append(outer)
            counts.append(len(inner))
            keys += [k for k, _ in inner]
            values += [v for _, v in inner]
    return (spaces, counts, keys, values) if table.namespaced else (None, None, keys, values)


def nested(table: TableSnapshot) -> bool:
    """Whether its rows have two parts: namespace and key, or key and key of the map."""
    return table.namespaced or table.kind == "map"


def split(raw: bytes) -> tuple[bytes, bytes]:
    """The two parts of the key of a nested row."""
    cut = 4 + int.from_bytes(raw[:4], "big")
    return raw[4:cut], raw[cut:]


def own_rows(
    table: TableSnapshot, classes: Classes, raw_keys: list[bytes], raw_values: list[bytes], owns: Owns
) -> tuple[list[bytes], list[bytes]]:
    """The rows whose key `owns` accepts, as they are."""
    _check_raw(table, raw_keys, classes)
    if owns is None:
        return raw_keys, raw_values
    codec = RowCodec(classes, table.classes)
    kept = [(key, value) for key, value in zip(raw_keys, raw_values) if owns(codec.decode(_key_of(table, key)))]
    return [k for k, _ in kept], [v for _, v in kept]


def _key_of(table: TableSnapshot, raw: bytes) -> bytes:
    """The key in the key of a row."""
    if not nested(table):
        return raw
    return split(raw)[1 if table.namespaced else 0]


# Where a key belongs, and whether two are the same, goes by what is in it: a key that is read with other fields than it
# was written with is another one, and what it had is not found any more.


def _check_raw(table: TableSnapshot, raw_keys: list[bytes], classes: Classes) -> None:
    """Refuse rows whose keys (those of the first, all are of one kind) have other fields now."""
    if not raw_keys:
        return
    node = RowCodec(classes, table.classes).node(_key_of(table, raw_keys[0]))
    if node is not None:
        _check_key(table, node, classes)


def _check_key(table: TableSnapshot, node: list[Any], classes: Classes) -> None:
    """Refuse a column of keys whose class has other fields now."""
    tag = node[0]
    if tag == "S":
        description = node[1] if type(node[1]) is not int else classes.numbered[node[1]]
        before, now = list(description[2]), list(fields_of(classes.resolve(description)))
        if before != now:
            raise StateMigrationException(
                f"state {table.name!r}: the class of its keys, {description[1]}, had the fields {', '.join(before)} "
                f"when the state was written, and has {', '.join(now)} now. A key cannot change, as where it belongs "
                "goes by its content: keep the class, or key by a new one and give the operator a new uid"
            )
    match tag:
        case "S":
            columns = node[2]
        case "t":
            columns = node[1]
        case "M":
            columns = [column for _, column in node[2]]
        case _:
            return
    for column in columns:
        _check_key(table, column, classes)
