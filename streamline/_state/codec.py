"""Columns of values as msgpack, and back to the same types.

Values are encoded by column: a column of tuples becomes one column for each position, a column of Structs one for each
field, and so on down to columns of plain numbers and texts, which msgspec encodes in C. So the classes and their fields
are written once a column, fields that were added or removed since are seen when it is read, and nothing but data comes
out of a file: a class is looked up by name among those that the program has (never imported, never unpickled), and only
Structs, dataclasses, NamedTuples, enums and subclasses of str, int, float and bytes are made again.
"""

from __future__ import annotations

import datetime as _dt
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import msgspec

from streamline._core.changes import Row, RowKind
from streamline._state.classes import Classes, fields_of
from streamline.errors import CheckpointException, StateEncodingException

__all__ = ("decode_column", "decode_one", "encode_columns", "encode_one", "naming", "read_columns")

_PLAIN: Final = frozenset({int, str, float, bool, bytes, type(None)})
_NUMBERS: Final = frozenset({int, bool, float, type(None)})
_LOW: Final = -(1 << 63)
_HIGH: Final = (1 << 64) - 1
_EPOCH: Final = _dt.datetime(1970, 1, 1)
_EPOCH_UTC: Final = _dt.datetime(1970, 1, 1, tzinfo=_dt.UTC)
_MICRO: Final = _dt.timedelta(microseconds=1)
_UTC: Final = (_dt.UTC,)
_FACTORIES: Final[dict[str, Any]] = {f.__name__: f for f in (int, float, str, bool, list, dict, set, tuple, bytes)}

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder()

Node = list[Any]


class naming:
    """Says what could not be encoded: encoding only looks at values, so whatever it raises is about them."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, StateEncodingException):
            raise StateEncodingException(f"{self._what}: {error}") from None
        if isinstance(error, Exception):
            raise StateEncodingException(f"{self._what} cannot be encoded: {type(error).__name__}: {error}") from error


class Context:
    """How to encode.

    Attributes:
        describe: what stands for a class in the bytes.
        safe: look for ints beyond 64 bits and for lone surrogates.
    """

    __slots__ = ("describe", "safe")

    def __init__(self, describe: Callable[[type], Any], safe: bool = False) -> None:
        self.describe = describe
        self.safe = safe

    def safely(self) -> Context:
        """The same, looking for what msgpack does not take."""
        return Context(self.describe, True)


_QUICK: Final = Context(Classes.describe)


def encode_columns(columns: Sequence[Sequence[Any]]) -> bytes:
    """Columns of equal or different length as bytes.

    Raises:
        StateEncodingException: a value of a type that cannot be kept; the message names the type.
    """
    try:
        return _encoder.encode([[len(c), _encode(c, _QUICK)] for c in columns])
    except (OverflowError, UnicodeEncodeError):  # ints beyond 64 bits, lone surrogates: seldom, so found out late
        return _encoder.encode([[len(c), _encode(c, _QUICK.safely())] for c in columns])


def encode_one(value: Any, describe: Callable[[type], Any]) -> bytes:
    """One value as bytes, its classes described by `describe` (by a number in a list kept elsewhere).

    Raises:
        StateEncodingException: a value of a type that cannot be kept.
    """
    ctx = Context(describe)
    try:
        return _encoder.encode(_encode([value], ctx))
    except (OverflowError, UnicodeEncodeError):
        return _encoder.encode(_encode([value], ctx.safely()))


def decode_one(data: bytes, classes: Classes) -> Any:
    """What `encode_one` wrote."""
    return decode_column(1, _decoder.decode(data), classes)[0]


def read_columns(data: bytes | memoryview) -> list[tuple[int, Node]]:
    """What `encode_columns` wrote, still as nodes for `decode_column`.

    Raises:
        CheckpointException: the bytes are not what was written.
    """
    try:
        return [(n, node) for n, node in _decoder.decode(data)]
    except (msgspec.DecodeError, ValueError, TypeError) as e:
        raise CheckpointException(f"a block of state cannot be read: {e}") from e


def decode_column(n: int, node: Node, classes: Classes) -> list[Any]:
    """The values of one column.

    Raises:
        CheckpointException: a class is not known to the program, or does not fit what was written.
    """
    return _DECODERS[node[0]](n, node, classes)


# -- encoding ------------------------------------------------------------------------------------------------------


def _encode(values: Sequence[Any], ctx: Context) -> Node:
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        if ctx.safe and not kinds <= {float, bool, bytes, type(None)}:
            return _encode_odd(values, kinds, ctx)
        return ["p", values if type(values) is list else list(values)]
    if len(kinds) > 1:
        return _encode_mixed(values, ctx, type)
    (kind,) = kinds
    encode = _ENCODERS.get(kind)
    if encode is not None:
        return encode(values, ctx)
    return _encode_class(kind, values, ctx)


def _encode_odd(values: Sequence[Any], kinds: set[type], ctx: Context) -> Node:
    """Plain values among which there may be ints beyond 64 bits or text with lone surrogates."""
    if len(kinds) > 1:
        return _encode_mixed(values, ctx, type)
    if kinds == {int} and (min(values) < _LOW or max(values) > _HIGH):
        return ["I", list(map(hex, values))]
    if kinds == {str}:
        return ["Z", [v.encode("utf-8", "surrogatepass") for v in values]]
    return ["p", list(values)]


def _encode_mixed(values: Sequence[Any], ctx: Context, group: Callable[[Any], Any]) -> Node:
    """A column for each kind, and which of them each value is in."""
    plain = [] if ctx.safe else [i for i, v in enumerate(values) if type(v) in _PLAIN]
    numbers: dict[Any, int] = {}
    columns: list[list[Any]] = []
    index: list[int] = []
    plain_group = object()
    for v in values:
        key = plain_group if plain and type(v) in _PLAIN else group(v)
        at = numbers.get(key)
        if at is None:
            at = numbers[key] = len(columns)
            columns.append([])
        columns[at].append(v)
        index.append(at)
    packed = bytes(index) if len(columns) <= 256 else index
    return ["M", packed, [[len(c), _encode(c, ctx)] for c in columns]]


def _encode_tuple(values: Sequence[Any], ctx: Context) -> Node:
    widths = set(map(len, values))
    if len(widths) == 1 and (width := widths.pop()) <= 64:
        return ["t", [_encode(c, ctx) for c in zip(*values)] if width else []]
    return ["T", list(map(len, values)), _encode_flat(values, ctx)]


def _encode_flat(values: Iterable[Any], ctx: Context) -> Node:
    flat = list(chain.from_iterable(values))
    return [len(flat), _encode(flat, ctx)]


def _encode_collection(tag: str) -> Callable[[Sequence[Any], Context], Node]:
    return lambda values, ctx: [tag, list(map(len, values)), _encode_flat(values, ctx)]


def _encode_dict(values: Sequence[Any], ctx: Context) -> Node:
    keys = list(chain.from_iterable(values))
    items = list(chain.from_iterable(v.values() for v in values))
    return ["d", list(map(len, values)), [len(keys), _encode(keys, ctx), _encode(items, ctx)]]


def _encode_default_dict(values: Sequence[Any], ctx: Context) -> Node:
    names = [None if v.default_factory is None else getattr(v.default_factory, "__name__", "?") for v in values]
    for value, name in zip(values, names):
        if name is not None and _FACTORIES.get(name) is not value.default_factory:
            raise StateEncodingException(
                f"a defaultdict with the factory {value.default_factory!r} cannot be kept in state: use one of "
                f"{', '.join(_FACTORIES)} as factory, or a plain dict"
            )
    return ["dd", names, _encode_dict(values, ctx)]


def _encode_deque(values: Sequence[Any], ctx: Context) -> Node:
    return ["q", [v.maxlen for v in values], _encode_collection("l")(values, ctx)]


def _encode_datetime(values: Sequence[Any], ctx: Context) -> Node:
    zones = set(map(attrgetter("tzinfo"), values))
    if zones == {None} and not any(map(attrgetter("fold"), values)):
        return ["N", [(v - _EPOCH) // _MICRO for v in values]]
    if zones == {_dt.UTC}:
        return ["u", [(v - _EPOCH_UTC) // _MICRO for v in values]]
    keys = [getattr(v.tzinfo, "key", None) for v in values]
    return ["z", [v.isoformat() for v in values], keys, [v.fold for v in values]]


def _encode_row(values: Sequence[Any], ctx: Context) -> Node:
    names, width = values[0]._names, len(values[0])
    if any(v._names != names or len(v) != width for v in values):
        return _encode_mixed(values, ctx, lambda v: (v._names, len(v)))
    kinds = bytes(v.kind.value for v in values)
    columns = [_encode(c, ctx) for c in zip(*map(attrgetter("_values"), values))]
    return ["R", None if names is None else list(names), kinds, columns]


def _encode_class(kind: type, values: Sequence[Any], ctx: Context) -> Node:
    if issubclass(kind, Enum):
        return ["E", ctx.describe(kind), list(map(attrgetter("name"), values))]
    if issubclass(kind, msgspec.Struct) or is_dataclass(kind):
        description = ctx.describe(kind)
        columns = [_encode(list(map(attrgetter(name), values)), ctx) for name in fields_of(kind)]
        return ["S", description, columns]
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return ["S", ctx.describe(kind), [_encode(c, ctx) for c in zip(*values)]]
    for base in (str, int, float, bytes):
        if issubclass(kind, base):
            plain: list[Any] = [base.__str__(v) if base is str else base(v) for v in values]
            return ["W", ctx.describe(kind), _encode(plain, ctx)]
    if issubclass(kind, _dt.datetime):
        return _encode_datetime([_dt.datetime.combine(v.date(), v.timetz()).replace(fold=v.fold) for v in values], ctx)
    if hasattr(kind, "under") and issubclass(kind, dict):  # a mapping with an overlay
        return _encode_dict(values, ctx)
    raise StateEncodingException(
        f"{kind.__module__}.{kind.__qualname__} cannot be kept in state: {_shortened(values[0])}. Make it a "
        "msgspec.Struct, a dataclass or a NamedTuple (or keep its fields as a tuple or dict)"
    )


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


_ENCODERS: Final[dict[type, Callable[[Sequence[Any], Context], Node]]] = {
    tuple: _encode_tuple,
    list: _encode_collection("l"),
    set: _encode_collection("s"),
    frozenset: _encode_collection("f"),
    dict: _encode_dict,
    OrderedDict: lambda v, ctx: ["od", _encode_dict(v, ctx)],
    Counter: lambda v, ctx: ["cd", _encode_dict(v, ctx)],
    defaultdict: _encode_default_dict,
    deque: _encode_deque,
    Decimal: lambda v, ctx: ["D", list(map(str, v))],
    complex: lambda v, ctx: ["c", [c.real for c in v], [c.imag for c in v]],
    bytearray: lambda v, ctx: ["B", list(map(bytes, v))],
    UUID: lambda v, ctx: ["U", [u.bytes for u in v]],
    _dt.date: lambda v, ctx: ["da", [d.toordinal() for d in v]],
    _dt.time: lambda v, ctx: ["ti", [t.isoformat() for t in v], [t.fold for t in v]],
    _dt.timedelta: lambda v, ctx: ["td", _encode([d // _MICRO for d in v], ctx.safely())],
    _dt.datetime: _encode_datetime,
    Row: _encode_row,
    RowKind: lambda v, ctx: ["K", bytes(k.value for k in v)],
}


# -- decoding ------------------------------------------------------------------------------------------------------


def _decode_mixed(n: int, node: Node, classes: Classes) -> list[Any]:
    columns = [iter(decode_column(count, column, classes)) for count, column in node[2]]
    return [next(columns[at]) for at in node[1]]


def _decode_tuple(n: int, node: Node, classes: Classes) -> list[Any]:
    if not node[1]:
        return [()] * n
    return list(zip(*(decode_column(n, column, classes) for column in node[1])))


def _cut(lengths: list[int], flat: Node, classes: Classes) -> Iterable[list[Any]]:
    values = decode_column(flat[0], flat[1], classes)
    start = 0
    for length in lengths:
        yield values[start : start + length]
        start += length


def _decode_collection(make: Callable[[list[Any]], Any]) -> Callable[[int, Node, Classes], list[Any]]:
    return lambda n, node, classes: [make(part) for part in _cut(node[1], node[2], classes)]


def _decode_dict(n: int, node: Node, classes: Classes) -> list[Any]:
    count, keys_node, values_node = node[2]
    keys = decode_column(count, keys_node, classes)
    values = decode_column(count, values_node, classes)
    made = []
    start = 0
    for length in node[1]:
        stop = start + length
        made.append(dict(zip(keys[start:stop], values[start:stop])))
        start = stop
    return made


def _decode_default_dict(n: int, node: Node, classes: Classes) -> list[Any]:
    made = _decode_dict(n, node[2], classes)
    return [defaultdict(None if name is None else _FACTORIES[name], d) for name, d in zip(node[1], made)]


def _decode_deque(n: int, node: Node, classes: Classes) -> list[Any]:
    return [deque(part, maxlen) for maxlen, part in zip(node[1], decode_column(n, node[2], classes))]


def _decode_zoned(n: int, node: Node, classes: Classes) -> list[Any]:
    made = []
    for text, key, fold in zip(*node[1:]):
        value = _dt.datetime.fromisoformat(text)
        if key is not None:
            value = value.replace(tzinfo=zoneinfo.ZoneInfo(key))
        made.append(value.replace(fold=fold))
    return made


def _decode_row(n: int, node: Node, classes: Classes) -> list[Any]:
    _, names, kinds, columns = node
    kind_of = list(RowKind)
    shared = None if names is None else tuple(names)
    decoded: Iterable[Any] = zip(*(decode_column(n, c, classes) for c in columns)) if columns else repeat((), n)
    made = []
    for values, kind in zip(decoded, kinds):
        row = Row(*values)
        row._names, row.kind = shared, kind_of[kind]
        made.append(row)
    return made


def _decode_enum(n: int, node: Node, classes: Classes) -> list[Any]:
    members = classes.resolve(node[1]).__members__
    try:
        return [members[name] for name in node[2]]
    except KeyError as e:
        raise CheckpointException(
            f"the state holds {node[1][1]}.{e.args[0]}, which is no member any more; it has {', '.join(members)}"
        ) from None


def _decode_class(n: int, node: Node, classes: Classes) -> list[Any]:
    columns = [decode_column(n, column, classes) for column in node[2]]
    return classes.build(node[1], columns, n)


def _decode_wrapped(n: int, node: Node, classes: Classes) -> list[Any]:
    return list(map(classes.resolve(node[1]), decode_column(n, node[2], classes)))


_DECODERS: Final[dict[str, Callable[[int, Node, Classes], list[Any]]]] = {
    "p": lambda n, node, classes: node[1],
    "I": lambda n, node, classes: [int(v, 16) for v in node[1]],
    "Z": lambda n, node, classes: [v.decode("utf-8", "surrogatepass") for v in node[1]],
    "M": _decode_mixed,
    "t": _decode_tuple,
    "T": _decode_collection(tuple),
    "l": _decode_collection(list),
    "s": _decode_collection(set),
    "f": _decode_collection(frozenset),
    "d": _decode_dict,
    "od": lambda n, node, classes: list(map(OrderedDict, _decode_dict(n, node[1], classes))),
    "cd": lambda n, node, classes: list(map(Counter, _decode_dict(n, node[1], classes))),
    "dd": _decode_default_dict,
    "q": _decode_deque,
    "D": lambda n, node, classes: list(map(Decimal, node[1])),
    "c": lambda n, node, classes: list(map(complex, node[1], node[2])),
    "B": lambda n, node, classes: list(map(bytearray, node[1])),
    "U": lambda n, node, classes: [UUID(bytes=v) for v in node[1]],
    "da": lambda n, node, classes: list(map(_dt.date.fromordinal, node[1])),
    "ti": lambda n, node, classes: [_dt.time.fromisoformat(t).replace(fold=f) for t, f in zip(node[1], node[2])],
    "td": lambda n, node, classes: [_dt.timedelta(microseconds=v) for v in decode_column(n, node[1], classes)],
    "N": lambda n, node, classes: [_EPOCH + _dt.timedelta(microseconds=v) for v in node[1]],
    "u": lambda n, node, classes: [_EPOCH_UTC + _dt.timedelta(microseconds=v) for v in node[1]],
    "z": _decode_zoned,
    "R": _decode_row,
    "K": lambda n, node, classes: [RowKind(k) for k in node[1]],
    "E": _decode_enum,
    "S": _decode_class,
    "W": _decode_wrapped,
}
