"""Types of a stream's elements: PyFlink's `Types`, Python's own types, and what both are in the type system.

An element type is told by a `TypeInformation`, a Python type or annotation, or a `DataType`; `to_data_type` reads all
three. Where a program says nothing, `infer` looks at elements and `returned` at a function's annotations.
"""

from __future__ import annotations

import collections.abc as _abc
import dataclasses
import datetime as _dt
import inspect
import types as _pytypes
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

from streamline._core import types as t
from streamline._core.changes import Row
from streamline._core.types import DataType, Field
from streamline.errors import ValidationException

__all__ = ("TypeInformation", "Types", "element_text", "from_data_type", "infer", "returned", "to_data_type")


@dataclass(frozen=True, slots=True)
class TypeInformation:
    """What PyFlink's `Types.…()` makes: a name, and for composed types their parts.

    Attributes:
        kind: STRING, LONG, ROW, TUPLE, MAP, LIST, OBJECT_ARRAY, …: the name of the factory.
        parts: the types of the fields, of the elements, or of key and value.
        names: of the fields of a ROW, or None where they have positions only.
    """

    kind: str
    parts: tuple[Any, ...] = ()
    names: tuple[str, ...] | None = None

    def get_field_names(self) -> list[str]:
        """Names of the fields; f0, f1, … where none were given."""
        return list(self.names or (f"f{i}" for i in range(len(self.parts))))

    def get_field_types(self) -> list[Any]:
        """Types of the fields."""
        return list(self.parts)

    def __str__(self) -> str:
        if self.names is not None:
            parts = ", ".join(f"{n}: {element_text(p)}" for n, p in zip(self.names, self.parts))
        else:
            parts = ", ".join(map(element_text, self.parts))
        return f"{self.kind}({parts})" if self.parts else self.kind

    __repr__ = __str__


class Types:
    """Factories of type information, under PyFlink's names."""

    @staticmethod
    def STRING() -> TypeInformation:
        """Text: str."""
        return TypeInformation("STRING")

    @staticmethod
    def BYTE() -> TypeInformation:
        """Whole numbers of 8 bits: int."""
        return TypeInformation("BYTE")

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """True and False: bool."""
        return TypeInformation("BOOLEAN")

    @staticmethod
    def SHORT() -> TypeInformation:
        """Whole numbers of 16 bits: int."""
        return TypeInformation("SHORT")

    @staticmethod
    def INT() -> TypeInformation:
        """Whole numbers of 32 bits: int."""
        return TypeInformation("INT")

    @staticmethod
    def LONG() -> TypeInformation:
        """Whole numbers of 64 bits: int."""
        return TypeInformation("LONG")

    @staticmethod
    def FLOAT() -> TypeInformation:
        """Floating point of 32 bits: float."""
        return TypeInformation("FLOAT")

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """Floating point of 64 bits: float."""
        return TypeInformation("DOUBLE")

    @staticmethod
    def CHAR() -> TypeInformation:
        """One character: str."""
        return TypeInformation("CHAR")

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """Whole numbers of any size: int."""
        return TypeInformation("BIG_INT")

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """Decimal numbers: Decimal."""
        return TypeInformation("BIG_DEC")

    @staticmethod
    def INSTANT() -> TypeInformation:
        """A point in time: aware datetime."""
        return TypeInformation("INSTANT")

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """A day: date."""
        return TypeInformation("SQL_DATE")

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """A time of day: time."""
        return TypeInformation("SQL_TIME")

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """Date and time without a zone: naive datetime."""
        return TypeInformation("SQL_TIMESTAMP")

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any object; no columns can be made of it."""
        return TypeInformation("PICKLED_BYTE_ARRAY")

    @staticmethod
    def ROW(field_types: Sequence[Any]) -> TypeInformation:
        """A Row of fields by position."""
        return TypeInformation("ROW", tuple(field_types))

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[Any]) -> TypeInformation:
        """A Row of named fields; as many names as types."""
        if len(field_names) != len(field_types):
            raise ValidationException(
                f"Types.ROW_NAMED has {len(field_names)} names for {len(field_types)} types: {list(field_names)}"
            )
        return TypeInformation("ROW", tuple(field_types), tuple(field_names))

    @staticmethod
    def TUPLE(field_types: Sequence[Any]) -> TypeInformation:
        """A tuple."""
        return TypeInformation("TUPLE", tuple(field_types))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> TypeInformation:
        """A list of numbers or bools without None; of BYTE: bytes."""
        return TypeInformation("PRIMITIVE_ARRAY", (element_type,))

    @staticmethod
    def BASIC_ARRAY(element_type: Any) -> TypeInformation:
        """A list."""
        return TypeInformation("BASIC_ARRAY", (element_type,))

    @staticmethod
    def OBJECT_ARRAY(element_type: Any) -> TypeInformation:
        """A list."""
        return TypeInformation("OBJECT_ARRAY", (element_type,))

    @staticmethod
    def LIST(element_type_info: Any) -> TypeInformation:
        """A list."""
        return TypeInformation("LIST", (element_type_info,))

    @staticmethod
    def MAP(key_type_info: Any, value_type_info: Any) -> TypeInformation:
        """A dict."""
        return TypeInformation("MAP", (key_type_info, value_type_info))


# -- to the type system --------------------------------------------------------------------------------------------

_NAMED: Final[dict[str, DataType]] = {
    "STRING": t.STRING,
    "BYTE": t.TINYINT,
    "BOOLEAN": t.BOOLEAN,
    "SHORT": t.SMALLINT,
    "INT": t.INT,
    "LONG": t.BIGINT,
    "FLOAT": t.FLOAT,
    "DOUBLE": t.DOUBLE,
    "CHAR": t.char(1),
    "BIG_INT": t.decimal(38, 0),
    "BIG_DEC": t.decimal(38, 18),
    "INSTANT": t.timestamp_ltz(3),
    "SQL_DATE": t.DATE,
    "SQL_TIME": t.time(0),
    "SQL_TIMESTAMP": t.timestamp(3),
    "PICKLED_BYTE_ARRAY": t.raw(),
}
_PRIMITIVE: Final = frozenset({"BYTE", "BOOLEAN", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE"})
_PYTHON: Final[dict[Any, DataType]] = {
    str: t.STRING,
    bool: t.BOOLEAN.not_null(),
    int: t.BIGINT.not_null(),
    float: t.DOUBLE.not_null(),
    bytes: t.BYTES,
    bytearray: t.BYTES,
    Decimal: t.decimal(38, 18),
    _dt.datetime: t.timestamp_ltz(6),
    _dt.date: t.DATE,
    _dt.time: t.time(6),
    _dt.timedelta: t.interval_day_time("SECOND(3)"),
}
_HOW: Final = (
    "declare it by type_info= or output_type= (a Types.…, a Python type such as tuple[str, int], or an annotated "
    "class: dataclass, msgspec.Struct, NamedTuple, TypedDict), or map the elements to such a class"
)


def to_data_type(spec: Any, what: str = "the element type") -> DataType:
    """The type of an element in the type system.

    int, float and bool are NOT NULL in tuples, scalars and classes, nullable in Rows; all else is nullable.

    Args:
        spec: a TypeInformation, a Python type or annotation, or a DataType.
        what: what it is the type of, for the message.

    Raises:
        ValidationException: no columns can be made of it, or it is None (not known); the message says how to declare.
    """
    if spec is None or spec is Any or spec is object:
        raise ValidationException(f"{what} is not known: {_HOW}")
    found = _to(spec)
    if found is None:
        raise ValidationException(f"{what} {element_text(spec)} has no known columns: {_HOW}")
    return found


def _to(spec: Any) -> DataType | None:
    """The data type, None where no columns can be made of it."""
    if isinstance(spec, DataType):
        return spec
    if isinstance(spec, TypeInformation):
        return _of_info(spec)
    plain = _PYTHON.get(spec) if isinstance(spec, _abc.Hashable) else None
    if plain is not None:
        return plain
    origin, args = get_origin(spec), get_args(spec)
    if origin is typing.Annotated:
        return _to(args[0])
    if origin in (typing.Union, _pytypes.UnionType):
        rest = [a for a in args if a is not type(None)]
        inner = _to(rest[0]) if len(rest) == 1 else None
        return None if inner is None or len(rest) == len(args) else inner.null()
    if origin in (list, _abc.Sequence, _abc.Iterable, _abc.MutableSequence):
        return t.array(_part(args[0]).null())
    if origin in (dict, _abc.Mapping, _abc.MutableMapping):
        return t.map_of(_part(args[0]).null(), _part(args[1]).null())
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return t.array(_part(args[0]).null())
        return t.row(*(Field(f"f{i}", _part(a)) for i, a in enumerate(args)))
    if origin is typing.Literal:
        kinds = {type(a) for a in args}
        return _to(kinds.pop()) if len(kinds) == 1 else None
    if isinstance(spec, type):
        hints = annotations_of(spec)
        if hints:
            return t.structured(spec, tuple(Field(n, _part(h)) for n, h in hints.items()))
    return _to(origin) if isinstance(origin, type) and annotations_of(origin) else None


def _part(spec: Any) -> DataType:
    """The type of a component: RAW where nothing better is known."""
    return _to(spec) or t.raw(spec if isinstance(spec, type) else None)


def _of_info(info: TypeInformation) -> DataType:
    named = _NAMED.get(info.kind)
    if named is not None:
        return named.not_null() if info.kind in _PRIMITIVE else named
    if info.kind in ("ROW", "TUPLE"):
        parts = [_part(p).null() if info.kind == "ROW" else _part(p) for p in info.parts]
        return t.row(*(Field(n, p) for n, p in zip(info.get_field_names(), parts)))
    if info.kind == "PRIMITIVE_ARRAY":
        part = info.parts[0]
        if isinstance(part, TypeInformation) and part.kind == "BYTE":
            return t.BYTES
        return t.array(_part(part).not_null())
    if info.kind == "MAP":
        return t.map_of(_part(info.parts[0]).null(), _part(info.parts[1]).null())
    return t.array(_part(info.parts[0]).null())


def annotations_of(cls: type) -> dict[str, Any]:
    """The annotated fields of a dataclass, Struct, NamedTuple, TypedDict or plain class, in declared order."""
    if cls.__module__ == "builtins" or issubclass(cls, Row):
        return {}
    try:
        hints = typing.get_type_hints(cls, localns={cls.__name__: cls})
    except (NameError, TypeError):
        # A class made inside a function whose annotations name other classes made there: text is all there is.
        hints = {k: v for base in reversed(cls.__mro__) for k, v in inspect.get_annotations(base).items()}
    if dataclasses.is_dataclass(cls):
        return {f.name: hints[f.name] for f in dataclasses.fields(cls)}
    if issubclass(cls, msgspec.Struct):
        return {n: hints[n] for n in cls.__struct_fields__}
    return {n: h for n, h in hints.items() if get_origin(h) is not typing.ClassVar and not n.startswith("_")}


_FROM: Final[dict[str, str]] = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "BYTE",
    "SMALLINT": "SHORT",
    "INT": "INT",
    "BIGINT": "LONG",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DECIMAL": "BIG_DEC",
    "CHAR": "STRING",
    "VARCHAR": "STRING",
    "DATE": "SQL_DATE",
    "TIME": "SQL_TIME",
    "TIMESTAMP": "SQL_TIMESTAMP",
    "TIMESTAMP_LTZ": "INSTANT",
    "INTERVAL_DAY_TIME": "LONG",
    "INTERVAL_YEAR_MONTH": "INT",
}


def from_data_type(data_type: DataType) -> Any:
    """The type information of a data type; lengths, precisions and NOT NULL are lost. A structured type's is its class.

    Raises:
        ValidationException: there is none.
    """
    simple = _FROM.get(data_type.root)
    if simple is not None:
        return TypeInformation(simple)
    if data_type.is_binary:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if data_type.root == "ARRAY" and data_type.element is not None:
        return Types.OBJECT_ARRAY(from_data_type(data_type.element))
    if data_type.root == "MAP" and data_type.key is not None and data_type.element is not None:
        return Types.MAP(from_data_type(data_type.key), from_data_type(data_type.element))
    if data_type.root == "MULTISET" and data_type.element is not None:
        return Types.MAP(from_data_type(data_type.element), Types.INT())
    if data_type.root == "ROW":
        return Types.ROW_NAMED([f.name for f in data_type.fields], [from_data_type(f.type) for f in data_type.fields])
    if data_type.root == "STRUCTURED":
        return data_type.cls
    if data_type.root == "RAW":
        return data_type.cls or Types.PICKLED_BYTE_ARRAY()
    raise ValidationException(f"{data_type} has no type information")


def element_text(spec: Any) -> str:
    """An element type as people write it."""
    if spec is None:
        return "unknown"
    return spec.__qualname__ if isinstance(spec, type) and not get_args(spec) else str(spec)


# -- inference -----------------------------------------------------------------------------------------------------

_SCALARS: Final = (bool, int, float, str, bytes, Decimal, _dt.datetime, _dt.date, _dt.time, _dt.timedelta)


def infer(values: Iterable[Any], limit: int = 100) -> Any:
    """The element type that the values show, or None.

    The first value decides; values after it (at most `limit`) only fill in what it leaves open, e.g. a None in a tuple.
    """
    known: Any = None
    for i, value in enumerate(values):
        known = _fill(known, _infer(value))
        if i >= limit or not _open(known):
            break
    return None if _open(known) and not isinstance(known, TypeInformation) and get_origin(known) is None else known


def _infer(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return kind
    if value is None:
        return None
    if isinstance(value, Row):
        names = value.get_field_names()
        parts = [_infer(v) for v in value]
        return Types.ROW(parts) if names is None else Types.ROW_NAMED(names, parts)
    if kind is tuple:
        return Types.TUPLE([_infer(v) for v in value])
    if kind is list:
        return Types.LIST(next((k for v in value if (k := _infer(v)) is not None), None))
    if kind is dict:
        return None
    if annotations_of(kind):
        return kind
    return next((s for s in _SCALARS if isinstance(value, s)), None)


def _open(spec: Any) -> bool:
    if isinstance(spec, TypeInformation):
        return any(map(_open, spec.parts))
    return spec is None


def _fill(known: Any, more: Any) -> Any:
    if known is None:
        return more
    if (
        isinstance(known, TypeInformation)
        and isinstance(more, TypeInformation)
        and (known.kind, len(known.parts)) == (more.kind, len(more.parts))
    ):
        return TypeInformation(known.kind, tuple(map(_fill, known.parts, more.parts)), known.names)
    return known


_ITERATORS: Final = frozenset(
    {
        _abc.Iterator,
        _abc.Iterable,
        _abc.Generator,
        _abc.AsyncIterator,
        _abc.AsyncIterable,
        _abc.AsyncGenerator,
        _abc.Sequence,
        _abc.Collection,
        list,
    }
)
_AWAITABLES: Final = frozenset({_abc.Awaitable, _abc.Coroutine})


def returned(function: Callable[..., Any], elements: bool = False) -> Any:
    """The type that a function's return annotation tells, or None.

    Args:
        function: what is called; for `async def` it is what awaiting gives.
        elements: the function gives many: take the element type of an iterator or list it returns.
    """
    if isinstance(function, type):
        return None if elements else function
    while hasattr(function, "func") and not inspect.isroutine(function):  # functools.partial
        function = function.func
    if not inspect.isroutine(function):
        function = getattr(type(function), "__call__", function)  # noqa: B004
    try:
        hint = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None
    origin, args = get_origin(hint), get_args(hint)
    if origin in _AWAITABLES:
        hint = args[-1]
        origin, args = get_origin(hint), get_args(hint)
    if elements and origin in _ITERATORS:
        hint = args[0]
    elif elements and origin in (typing.Union, _pytypes.UnionType):
        rest = [a for a in args if a is not type(None)]
        hint = rest[0] if len(rest) == 1 else None
        if get_origin(hint) in _ITERATORS:
            hint = get_args(hint)[0]
    if hint in (None, type(None), Any, object) or isinstance(hint, TypeVar):
        return None
    return hint
