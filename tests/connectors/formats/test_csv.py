"""CSV: what Flink reads and writes, what a class reads and writes, and errors that name the column."""

from __future__ import annotations

import csv
import datetime as dt
import io
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline import Row
from streamline._core import types as t
from streamline._core.types import DataType, Field
from streamline.connectors.files.framing import cut
from streamline.connectors.formats.base import DeserializationException
from streamline.connectors.formats.csv import (
    CsvDeserializationSchema,
    CsvDialect,
    CsvFormatFactory,
    CsvSerializationSchema,
)
from streamline.connectors.formats.csv.dialect import MalformedRecord
from streamline.connectors.options import Options
from streamline.connectors.registry import format_factory
from streamline.errors import TableException, ValidationException

DAY = 86_400_000_000_000


def decoder(*types: DataType, **given_options: str) -> Any:
    return CsvFormatFactory().decoder(options(given_options), fields(*types))


def encoder(*types: DataType, **given_options: str) -> Any:
    return CsvFormatFactory().encoder(options(given_options), fields(*types))


def options(given_options: dict[str, str]) -> Options:
    return Options("csv", {k.replace("_", "-"): v for k, v in given_options.items()}, optional=CsvFormatFactory.options)


def fields(*types: DataType) -> list[Field]:
    return [Field("abcdefgh"[i], kind) for i, kind in enumerate(types)]


def read(source: str | bytes, *types: DataType, **given_options: str) -> Any:
    """The values of a record; both ways agree."""
    made = decoder(*types, **given_options)
    record = source.encode() if isinstance(source, str) else source
    row = made.decode_one(record)
    if row is None:
        return None
    assert msgspec.structs.astuple(made._judged(record)) == msgspec.structs.astuple(row)
    return list(msgspec.structs.astuple(row))


def written(values: list[Any], *types: DataType, **given_options: str) -> str:
    made = encoder(*types, **given_options)
    namespace = {**made.namespace, **{f"x{i}": v for i, v in enumerate(values)}}
    source = made.template.format(*[f"x{i}" for i in range(len(values))])
    return made.encode(eval(source, namespace)).decode()


# -- values ----------------------------------------------------------------------------------------------------------

VALUES = [
    (t.BOOLEAN, "true", True),
    (t.BOOLEAN, "false", False),
    (t.TINYINT, "-128", -128),
    (t.SMALLINT, "32767", 32767),
    (t.INT, "-7", -7),
    (t.BIGINT, "9223372036854775807", (1 << 63) - 1),
    (t.FLOAT, "1.5", 1.5),
    (t.DOUBLE, "-0.1", -0.1),
    (t.DOUBLE, "1e+300", 1e300),
    (t.decimal(7, 3), "12.500", Decimal("12.500")),
    (t.STRING, "plain", "plain"),
    (t.STRING, '"a,b"', "a,b"),
    (t.STRING, '"say ""x"""', 'say "x"'),
    (t.char(3), "abc", "abc"),
    (t.BYTES, "AQI=", b"\x01\x02"),
    (t.DATE, "1970-01-02", 1),
    (t.time(0), "10:00:01", 36_001_000),
    (t.time(3), "10:00:01.25", 36_001_250),
    (t.timestamp(3), "1970-01-02 00:00:00.5", DAY + 500_000_000),
    (t.timestamp_ltz(3), "1970-01-02 00:00:00Z", DAY),
    (t.array(t.INT), "1;2;3", [1, 2, 3]),
    (t.array(t.STRING), "a;b", ["a", "b"]),
    (t.row(Field("x", t.INT), Field("y", t.STRING)), "1;b", (1, "b")),
    (t.interval_day_time(), "1500", 1500),
]


@pytest.mark.parametrize(("kind", "text", "value"), VALUES, ids=[f"{k} {x}" for k, x, _ in VALUES])
def test_values_both_ways(kind: DataType, text: str, value: Any) -> None:
    assert read(text, kind) == [value]
    assert written([value], kind) == text


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (t.INT, " 7 ", 7),
        (t.INT, "+7", 7),
        (t.BOOLEAN, " TRUE ", True),
        (t.DOUBLE, "NaN", "nan"),
        (t.DOUBLE, "-Infinity", float("-inf")),
        (t.decimal(5, 2), "1.005", Decimal("1.01")),
        (t.decimal(5, 2), "12345", None),  # as Flink: what is too large is NULL
        (t.timestamp(0), "1970-01-02 00:00:00.9", DAY),
        (t.time(0), "10:00", 36_000_000),
    ],
)
def test_other_texts_that_are_read(kind: DataType, text: str, value: Any) -> None:
    if value == "nan":
        (found,) = read_unchecked(text, kind)
        assert found != found
    else:
        assert read(text, kind) == [value]


def read_unchecked(text: str, kind: DataType) -> list[Any]:
    return list(msgspec.structs.astuple(decoder(kind).decode_one(text.encode())))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (t.INT, "x"),
        (t.INT, "1_000"),
        (t.INT, "\u0663"),  # a digit, of Arabic
        (t.INT, "1.5"),
        (t.INT, "2147483648"),
        (t.TINYINT, "128"),
        (t.BOOLEAN, "yes"),
        (t.DOUBLE, "1_5"),
        (t.DOUBLE, "nan"),
        (t.DATE, "1970-1-2"),
        (t.timestamp(3), "1970-01-02T00:00:00"),
        (t.timestamp_ltz(3), "1970-01-02 00:00:00"),
        (t.BYTES, "!"),
        (t.array(t.INT), "1;x"),
        (t.row(Field("x", t.INT), Field("y", t.INT)), "1"),
        (t.INT, ""),
    ],
)
def test_texts_that_are_no_values_name_their_column(kind: DataType, text: str) -> None:
    with pytest.raises(DeserializationException) as e:
        decoder(t.STRING, kind).decode_one(f"before,{text}".encode())
    assert e.value.column == "b"
    assert str(e.value).startswith("Failed to deserialize CSV row 'before,")
    assert "column 'b' is" in str(e.value)
    assert read(f"before,{text}", t.STRING, kind, ignore_parse_errors="true") == ["before", None]


# -- options ---------------------------------------------------------------------------------------------------------


def test_an_empty_text_is_no_null_unless_asked_for() -> None:
    assert read(",", t.STRING, t.STRING) == ["", ""]
    with pytest.raises(DeserializationException, match="'csv.empty-string-as-null' = 'true' reads an empty"):
        read(",", t.STRING, t.INT)
    assert read(",", t.STRING, t.INT, empty_string_as_null="true") == [None, None]
    assert read("n/a,n/a", t.STRING, t.INT, null_literal="n/a") == [None, None]
    assert read("1;n/a", t.array(t.INT), null_literal="n/a") == [[1, None]]


def test_an_empty_array() -> None:
    assert read("x,", t.STRING, t.array(t.INT)) == ["x", []]


def test_null_is_written_as_the_literal() -> None:
    assert written([None, None, "x"], t.INT, t.STRING, t.STRING) == ",,x"
    assert written([None, None, [1, None]], t.INT, t.STRING, t.array(t.INT), null_literal="n/a") == "n/a,n/a,1;n/a"


def test_delimiters_quotes_and_escapes() -> None:
    assert read("1|a,b", t.INT, t.STRING, field_delimiter="|") == [1, "a,b"]
    assert read("1\ta", t.INT, t.STRING, field_delimiter="\\t") == [1, "a"]
    assert read("1\x01a", t.INT, t.STRING, field_delimiter="\\u0001") == [1, "a"]
    assert read("1,'a,b'", t.INT, t.STRING, quote_character="'") == [1, "a,b"]
    assert read('1,"a', t.INT, t.STRING, disable_quote_character="true") == [1, '"a']
    assert read(r"1,a\,b\nc\\", t.INT, t.STRING, escape_character="\\") == [1, "a,b\nc\\"]
    assert read(r'1,"a\"b"', t.INT, t.STRING, escape_character="\\") == [1, 'a"b']
    assert read("1/2", t.array(t.INT), array_element_delimiter="/") == [[1, 2]]
    assert written([1, "a,b"], t.INT, t.STRING, quote_character="'") == "1,'a,b'"
    assert written([1, 'a"b'], t.INT, t.STRING, escape_character="\\") == r'1,"a\"b"'
    assert written([1, "a,b"], t.INT, t.STRING, disable_quote_character="true", escape_character="\\") == r"1,a\,b"


def test_spaces_are_text_unless_they_are_trimmed() -> None:
    assert read(' a , "b "', t.STRING, t.STRING) == [" a ", ' "b "']
    assert read(' a , " b " ', t.STRING, t.STRING, trim_spaces="true") == ["a", " b "]


def test_comments_and_empty_lines_are_no_rows() -> None:
    assert read("", t.STRING) is None
    assert read("\r\n", t.STRING) is None
    assert read("# 1,2", t.STRING, t.STRING, allow_comments="true") is None
    assert read("# 1,2", t.STRING, t.STRING) == ["# 1", "2"]


def test_too_few_and_too_many_fields() -> None:
    with pytest.raises(
        DeserializationException, match="has 1 fields, and the table has 2 columns: 'b' is missing"
    ) as e:
        read("1", t.INT, t.INT)
    assert e.value.column == "b"
    with pytest.raises(DeserializationException, match="it has 3 fields, and the table has 2 columns"):
        read("1,2,3", t.INT, t.INT)
    with pytest.raises(DeserializationException, match="allow-trailing-comma"):
        read("1,2,", t.INT, t.INT)
    assert read("1,2,", t.INT, t.INT, allow_trailing_comma="true") == [1, 2]
    assert read("1,2,3,4", t.INT, t.INT, ignore_trailing_unmappable="true") == [1, 2]
    assert read("1", t.INT, t.INT, ignore_parse_errors="true") == [1, None]
    with pytest.raises(DeserializationException):
        read("1", t.INT, t.INT, ignore_parse_errors="true", fail_on_missing_columns="true")


def test_decimals_in_scientific_notation() -> None:
    assert written([Decimal("0.0000000001")], t.decimal(20, 10)) == "1E-10"
    plain = {"write_bigdecimal_in_scientific_notation": "false"}
    assert written([Decimal("0.0000000001")], t.decimal(20, 10), **plain) == "0.0000000001"


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"field_delimiter": "ab"}, "'csv.field-delimiter' must be a string with single character, but was: ab"),
        ({"quote_character": ""}, "'csv.quote-character' must be a string with single character"),
        ({"quote_character": "'", "disable_quote_character": "true"}, "cannot define a quote character and disabled"),
        ({"quote_character": ","}, "have to differ"),
        ({"field_delimiter": "\\n"}, "no line ends"),
    ],
)
def test_options_that_do_not_fit(given_options: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        decoder(t.INT, **given_options)


@pytest.mark.parametrize("kind", [t.map_of(t.STRING, t.INT), t.array(t.array(t.INT)), t.raw(), t.time(6)])
def test_types_that_there_are_not(kind: DataType) -> None:
    with pytest.raises(ValidationException):
        decoder(kind)
    if kind.root != "TIME":
        with pytest.raises(ValidationException):
            encoder(kind)


def test_it_is_found_by_name() -> None:
    assert isinstance(format_factory("csv"), CsvFormatFactory)


def test_an_open_quote_does_not_join_two_messages() -> None:
    made = decoder(t.STRING)
    with pytest.raises(ValueError, match="joined"):
        made.decode([b'"a', b'b"'])
    with pytest.raises(DeserializationException, match="field 1: a quote is opened and never closed"):
        made.decode_one(b'"a')


# -- dialects: the standard library as oracle, and properties ----------------------------------------------------------

CHARACTERS = st.text(st.sampled_from("ab ,;\"'\\\n#é"), max_size=8)
DIALECTS = st.builds(
    lambda delimiter, quote, escape, comments, trim: CsvDialect(delimiter, quote, escape, comments, trim),
    st.sampled_from([",", ";", "é"]),
    st.sampled_from(['"', "'", None]),
    st.sampled_from(["\\", None]),
    st.booleans(),
    st.booleans(),
)


@given(DIALECTS, st.lists(CHARACTERS, min_size=1, max_size=4))
def test_what_is_written_is_read(dialect: CsvDialect, values: list[str]) -> None:
    try:
        record = dialect.join(values)
    except TableException:
        assert dialect.quote is None and dialect.escape is None
        return
    if not record or (dialect.trim and dialect.quote is None):
        return  # an empty line is no record; without quotes nothing protects blanks
    assert not dialect.is_comment(record)
    assert dialect.split(record) == values
    if dialect.is_plain:
        assert list(dialect.reader([record])) == [values]


@given(DIALECTS, st.text(st.sampled_from("ab ,;\"'\\#é"), max_size=12))
def test_both_ways_of_reading_agree(dialect: CsvDialect, record: str) -> None:
    if not dialect.is_plain or not record:
        return
    try:
        expected = dialect.split(record)
    except MalformedRecord:
        with pytest.raises(csv.Error):
            list(dialect.reader([record]))
        return
    try:
        found = list(dialect.reader([record]))
    except csv.Error:
        return  # it is stricter: blanks behind a closed quote; the other way then judges
    assert found == [expected]


@given(
    DIALECTS,
    st.lists(st.lists(CHARACTERS, min_size=1, max_size=3), max_size=12),
    st.lists(st.integers(0, 200), max_size=6),
    st.booleans(),
)
def test_records_are_cut_where_they_end(
    dialect: CsvDialect, rows: list[list[str]], cuts: list[int], last_ended: bool
) -> None:
    try:
        records = [dialect.join(values) for values in rows]
    except TableException:
        return
    if dialect.quote is None:
        records = [r.replace("\n", " ") for r in records]
    data = "\n".join(records).encode() + (b"\n" if last_ended and records else b"")
    framing, found, rest = dialect.framing(), list[bytes](), b""
    pieces = sorted({0, len(data), *[c for c in cuts if c < len(data)]})
    for start, stop in pairwise(pieces):
        rest += data[start:stop]
        some, used = cut(rest, stop == len(data), framing)
        found += some
        rest = rest[used:]
    expected = [r.encode() for r in records]
    if expected and not expected[-1] and not last_ended:
        expected.pop()  # nothing stands behind the last line end
    assert found == expected


# -- classes ---------------------------------------------------------------------------------------------------------


class Trade(msgspec.Struct):
    id: int
    symbol: str
    price: float | None = None
    at: dt.datetime | None = None
    note: str = "none"


@dataclass
class Point:
    x: int
    y: Decimal = Decimal(1)


class Pair(NamedTuple):
    a: int
    b: str = "b"


class Named(TypedDict):
    a: int
    b: bool


def test_classes_are_read_by_position() -> None:
    schema = CsvDeserializationSchema(Trade)
    assert schema.get_produced_type() is Trade
    assert schema.deserialize(b'7,"A,B",1.5,2024-01-01T00:00:00Z,x\r\n') == Trade(
        7, "A,B", 1.5, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "x"
    )
    # An empty text is None where the field may be that, and text where it is text.
    assert schema.deserialize(b"7,,,,") == Trade(7, "", None, None, "")
    assert CsvDeserializationSchema(Point).deserialize(b"1,") == Point(1)
    assert CsvDeserializationSchema(Pair).deserialize(b"1,x") == Pair(1, "x")
    assert CsvDeserializationSchema(Named).deserialize(b"1,true") == {"a": 1, "b": True}
    assert CsvDeserializationSchema(tuple[int, str | None, float]).deserialize(b"1,x,2") == (1, "x", 2.0)


def test_columns_by_name() -> None:
    schema = CsvDeserializationSchema(Trade, columns=["symbol", "other", "id"])
    assert schema.deserialize(b"A,-,3") == Trade(3, "A")
    assert CsvDeserializationSchema(Pair, columns=["x", "a"]).deserialize(b"-,3") == Pair(3)
    assert CsvDeserializationSchema(dict[str, int], columns=["p", "q"]).deserialize(b"1,2") == {"p": 1, "q": 2}
    assert CsvDeserializationSchema(dict, columns=["p", "q"], null_literal="-").deserialize(b"-,2") == {
        "p": None,
        "q": "2",
    }


def test_renamed_fields_have_their_names() -> None:
    class Renamed(msgspec.Struct, rename="camel"):
        user_id: int

    assert CsvDeserializationSchema(Renamed, columns=["x", "userId"]).deserialize(b"-,3") == Renamed(3)
    assert CsvSerializationSchema(Renamed, header=True).header == b"userId"
    assert CsvSerializationSchema(Renamed).serialize(Renamed(3)) == b"3"


@pytest.mark.parametrize(
    ("record", "column", "message"),
    [
        (b"x,A,1,,", "id", "column 'id': Expected `int`, got `str`"),
        (b"1,A", None, "it has 2 fields, and there are 5 columns: 'price' is missing"),
        (b"1,A,1,,,6", None, "it has 6 fields, and there are 5 columns"),
        (b'1,"A', "symbol", "field 2: a quote is opened and never closed"),
        (b"1,\xff,1,,", None, "it is no UTF-8"),
    ],
)
def test_errors_of_classes_name_the_column(record: bytes, column: str | None, message: str) -> None:
    with pytest.raises(DeserializationException, match=message) as e:
        CsvDeserializationSchema(Trade).deserialize(record)
    assert e.value.column == column
    assert "as Trade" in str(e.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"type_": int}, "CSV cannot be read as"),
        ({"type_": Row}, "does not say the types"),
        ({"type_": dict}, "does not say which columns"),
        ({"type_": Trade, "columns": ["symbol"]}, "there is no column id"),
        ({"type_": Trade, "columns": ["id", "symbol", "id"]}, "two columns have one name"),
        ({"type_": Trade, "columns": ["id"], "header": True}, "give one of them"),
        ({"type_": Trade, "delimiter": ""}, "single characters"),
    ],
)
def test_schemas_that_do_not_fit(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationException, match=message):
        CsvDeserializationSchema(**arguments)


def test_a_header_belongs_to_files() -> None:
    with pytest.raises(ValidationException, match="a CSV header belongs to files"):
        CsvDeserializationSchema(Trade, header=True).deserialize(b"1,A")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Trade(1, "a,b", 0.5, dt.datetime(2024, 1, 1, tzinfo=dt.UTC)), '1,"a,b",0.5,2024-01-01T00:00:00+00:00,none'),
        (Point(1), "1,1"),
        (Pair(1, 'say "x"'), '1,"say ""x"""'),
        ({"a": 1, "b": None}, "1,"),
        ((True, b"\x01", [1, 2]), "true,AQ==,1;2"),
        (Row(a=1, b="x"), "1,x"),
        (7, "7"),
        ("", '""'),
        (float("inf"), "Infinity"),
    ],
)
def test_what_classes_are_written_as(value: Any, text: str) -> None:
    schema = CsvSerializationSchema()
    assert schema.serialize(value) == text.encode()
    assert schema.serialize(None) is None


def test_written_columns_and_headers() -> None:
    schema = CsvSerializationSchema(columns=["symbol", "id"], header=True, delimiter=";", null_literal="-")
    assert schema.header == b"symbol;id"
    assert schema.serialize(Trade(1, "A")) == b"A;1"
    assert schema.serialize({"id": None, "symbol": "x;y"}) == b'"x;y";-'
    with pytest.raises(ValidationException, match="needs to know the columns"):
        CsvSerializationSchema(header=True)


PRICES = st.floats(allow_nan=False, allow_infinity=False) | st.none()


@given(st.lists(st.builds(Trade, st.integers(-(1 << 63), (1 << 63) - 1), CHARACTERS, PRICES)))
def test_classes_both_ways(trades: list[Trade]) -> None:
    out, into = CsvSerializationSchema(Trade), CsvDeserializationSchema(Trade)
    for trade in trades:
        assert into.deserialize(out.serialize(trade) or b"") == trade


def test_the_standard_library_reads_what_is_written() -> None:
    rows = [["a,b", 'say "x"', "two\nlines", ""], ["", " ", "é", "#"]]
    dialect = CsvDialect()
    text = "\r\n".join([dialect.join(r) for r in rows])
    assert list(csv.reader(io.StringIO(text, newline=""))) == rows
