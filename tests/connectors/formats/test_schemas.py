"""Schemas of streams: text, bytes, JSON of a class, JSON as rows; the format raw of tables; options."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest

from streamline import Row, Types
from streamline._core import types as t
from streamline._core.types import Field
from streamline.connectors.formats import (
    BytesSchema,
    DeserializationException,
    JsonDeserializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    JsonSerializationSchema,
    SimpleStringSchema,
)
from streamline.connectors.formats.raw import RawFormatFactory
from streamline.connectors.options import Options, boolean, duration, integer, listed, text
from streamline.errors import ValidationException


class Struct(msgspec.Struct):
    name: str
    n: int | None = None


@dataclass
class Data:
    name: str
    n: int | None = None


class Pair(NamedTuple):
    name: str
    n: int


class Typed(TypedDict):
    name: str
    n: int


@pytest.mark.parametrize(("type_", "value"), [
    (Struct, Struct("a", 1)),
    (Data, Data("a", 1)),
    (Typed, {"name": "a", "n": 1}),
    (dict, {"name": "a", "n": 1}),
    (dict[str, Any], {"name": "a", "n": 1}),
])  # fmt: skip
def test_json_of_a_class(type_: Any, value: Any) -> None:
    assert JsonDeserializationSchema(type_).deserialize(b'{"name": "a", "n": 1}') == value
    assert JsonSerializationSchema().serialize(value) == b'{"name":"a","n":1}'


def test_json_arrays_as_named_tuples() -> None:
    assert JsonDeserializationSchema(Pair).deserialize(b'["a", 1]') == Pair("a", 1)


@pytest.mark.parametrize(("message", "said", "column"), [
    (b'{"name": 5}', "as Struct: field 'name': Expected `str`, got `int`", "name"),
    (b'{"n": 5}', "as Struct: Object missing required field `name`", None),
    (b'{"name": "a"', "as Struct: it is no JSON: Input data was truncated", None),
    (b"", "as Struct: it is empty", None),
])  # fmt: skip
def test_what_is_no_such_json(message: bytes, said: str, column: str | None) -> None:
    with pytest.raises(DeserializationException) as e:
        JsonDeserializationSchema(Struct).deserialize(message)
    assert said in str(e.value) and e.value.column == column


def test_lax_json_converts() -> None:
    assert JsonDeserializationSchema(Struct, strict=False).deserialize(b'{"name": "a", "n": "1"}') == Struct("a", 1)


def test_type_that_json_cannot_give() -> None:
    with pytest.raises(ValidationException, match="JSON cannot be read as"):
        JsonDeserializationSchema(dict[int, int] | dict[str, int])


def test_what_json_cannot_hold() -> None:
    with pytest.raises(TypeError, match="a object cannot be written as JSON"):
        JsonSerializationSchema().serialize(object())
    assert JsonSerializationSchema().serialize(None) is None


def test_text_and_bytes() -> None:
    assert SimpleStringSchema().deserialize("é".encode()) == "é"
    assert SimpleStringSchema("latin-1").serialize("é") == b"\xe9"
    assert BytesSchema().deserialize(b"x") == BytesSchema().serialize(b"x") == b"x"
    with pytest.raises(UnicodeDecodeError):
        SimpleStringSchema().deserialize(b"\xff")


# -- rows ----------------------------------------------------------------------------------------------------------

_NAMES = ["id", "name", "price", "day", "at", "tags", "inner"]
_TYPES = [
    Types.LONG(),
    Types.STRING(),
    Types.BIG_DEC(),
    Types.SQL_DATE(),
    Types.SQL_TIMESTAMP(),
    Types.OBJECT_ARRAY(Types.STRING()),
    Types.ROW_NAMED(["x"], [Types.INT()]),
]
_TEXT = (
    b'{"id":1,"name":"a","price":1.500000000000000000,"day":"2024-02-29","at":"2024-02-29 10:00:00.5",'
    b'"tags":["u","v"],"inner":{"x":2}}'
)


def test_rows_there_and_back() -> None:
    type_info = Types.ROW_NAMED(_NAMES, _TYPES)
    read = JsonRowDeserializationSchema.builder().type_info(type_info).build()
    row = read.deserialize(_TEXT)
    assert row == Row(
        id=1,
        name="a",
        price=Decimal("1.500000000000000000"),
        day=dt.date(2024, 2, 29),
        at=dt.datetime(2024, 2, 29, 10, 0, 0, 500_000),
        tags=["u", "v"],
        inner=Row(x=2),
    )
    assert row["inner"]["x"] == 2 and row.name == "a"
    assert read.get_produced_type() is type_info
    write = JsonRowSerializationSchema.builder().with_type_info(type_info).build()
    assert write.serialize(row) == _TEXT
    assert read.deserialize(b"{}") == Row.of(*[None] * 7)


def test_row_options() -> None:
    type_info = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()])
    strict = JsonRowDeserializationSchema.builder().type_info(type_info).fail_on_missing_field().build()
    with pytest.raises(DeserializationException, match="column 'b' is missing"):
        strict.deserialize(b'{"a": 1}')
    assert JsonRowDeserializationSchema.builder().type_info(type_info).ignore_parse_errors().build().ignore_parse_errors
    with pytest.raises(ValidationException, match="needs the type of the rows"):
        JsonRowDeserializationSchema.builder().build()
    with pytest.raises(ValidationException, match="has to be Types.ROW_NAMED"):
        JsonRowSerializationSchema(Types.STRING())
    with pytest.raises(ValidationException, match="a row of 2 fields is expected"):
        JsonRowSerializationSchema(type_info).serialize(Row.of(1))


# -- raw -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("type_", "given", "value", "raw"), [
    (t.STRING, {}, "é", "é".encode()),
    (t.STRING, {"charset": "UTF-16BE"}, "é", b"\x00\xe9"),
    (t.BYTES, {}, b"\x00", b"\x00"),
    (t.BOOLEAN, {}, True, b"\x01"),
    (t.TINYINT, {}, -2, b"\xfe"),
    (t.SMALLINT, {}, 258, b"\x01\x02"),
    (t.INT, {}, 1, b"\x00\x00\x00\x01"),
    (t.INT, {"endianness": "little-endian"}, 1, b"\x01\x00\x00\x00"),
    (t.BIGINT, {}, -1, b"\xff" * 8),
    (t.FLOAT, {}, 1.5, b"\x3f\xc0\x00\x00"),
    (t.DOUBLE, {}, 1.5, b"\x3f\xf8\x00\x00\x00\x00\x00\x00"),
])  # fmt: skip
def test_raw(type_: Any, given: dict[str, str], value: Any, raw: bytes) -> None:
    options = Options("raw", given, optional=RawFormatFactory.options)
    fields = [Field("v", type_)]
    (row,) = RawFormatFactory().decoder(options, fields, ["extra"]).decode([raw])
    row.extra = 1
    assert row.value == value
    encoder = RawFormatFactory().encoder(options, fields)
    assert encoder.encode((value,)) == raw
    assert encoder.encode((None,)) is None


@pytest.mark.parametrize(("fields", "given", "said"), [
    ([("a", t.INT), ("b", t.INT)], {}, "only supports single physical column. However the columns are: `a` INT, `b`"),
    ([("a", t.DATE)], {}, "The 'raw' format doesn't supports 'DATE' as column type."),
    ([("a", t.STRING)], {"charset": "nix"}, "Unsupported 'raw.charset' name: nix."),
    ([("a", t.STRING)], {"endianness": "middle"}, r"Expected one of: \[big-endian, little-endian\]"),
])  # fmt: skip
def test_raw_that_cannot_be(fields: Any, given: dict[str, str], said: str) -> None:
    options = Options("raw", given, optional=RawFormatFactory.options)
    with pytest.raises(ValidationException, match=said):
        encoder = RawFormatFactory().encoder(options, [Field(n, x) for n, x in fields])
        options.get(RawFormatFactory.options[1])
        assert encoder


# -- options -------------------------------------------------------------------------------------------------------


def test_options_have_types_and_defaults() -> None:
    given = {"n": " 5 ", "b": "TRUE", "d": "2 s", "l": "a; b;", "t": "x"}
    known = [integer("n"), boolean("b"), duration("d"), listed("l"), text("t"), integer("absent", 7)]
    options = Options("c", given, optional=known)
    options.validate()
    assert [options.get(o) for o in known] == [5, True, 2000, ["a", "b"], "x", 7]


@pytest.mark.parametrize(("option", "value", "said"), [
    (integer("k"), "five", "A whole number is expected"),
    (boolean("k"), "1", r"Expected one of: \[true, false\]"),
    (duration("k"), "soon", "no duration: 'soon'"),
])  # fmt: skip
def test_option_values_of_another_type(option: Any, value: str, said: str) -> None:
    with pytest.raises(ValidationException, match=said) as e:
        Options("c", {"k": value}, optional=[option]).get(option)
    assert str(e.value).startswith(f"Invalid value for option 'k'.\n\nCould not parse value '{value}' for key 'k'.")
