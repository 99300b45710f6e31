"""The format json of tables: values in the inner form of `_core.types`, by Flink's rules."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline._core import types as t
from streamline._core.types import DataType, Field
from streamline.connectors.formats.base import DeserializationException
from streamline.connectors.formats.json import JsonFormatFactory
from streamline.connectors.options import Options
from streamline.errors import TableException, ValidationException

EPOCH = dt.datetime(1970, 1, 1)
TEN = int((dt.datetime(2024, 1, 1, 10) - EPOCH).total_seconds()) * 10**9


def decoder(fields: dict[str, DataType], **options: str) -> Any:
    given_ = Options("json", {k.replace("_", "-"): v for k, v in options.items()}, optional=JsonFormatFactory.options)
    return JsonFormatFactory().decoder(given_, [Field(n, x) for n, x in fields.items()], ["offset"])


def row(d: Any, record: Any) -> list[Any]:
    return [eval(source, {"r": record, **d.namespace}) for source in d.sources.values()]


def decode(type_: DataType, text: str, **options: str) -> Any:
    """One column `c`, by the way a batch takes: fast first."""
    d = decoder({"c": type_}, **options)
    record = d.decode_one(f'{{"c": {text}}}'.encode())
    return row(d, record)[0]


def refused(type_: DataType, text: str, **options: str) -> str:
    with pytest.raises(DeserializationException) as e:
        decode(type_, text, **options)
    assert e.value.column == "c"
    return str(e.value)


def encode(type_: DataType, value: Any, **options: str) -> str:
    return encode_row({"c": type_}, (value,), **options)


def encode_row(fields: dict[str, DataType], values: tuple[Any, ...], **options: str) -> str:
    given_ = Options("json", options, optional=JsonFormatFactory.options)
    e = JsonFormatFactory().encoder(given_, [Field(n, x) for n, x in fields.items()])
    make: Callable[..., Any] = eval(
        "lambda *a: " + e.template.format(*[f"a[{i}]" for i in range(len(values))]), dict(e.namespace)
    )
    return e.encode(make(*values)).decode()


# -- exact values: the fast way ------------------------------------------------------------------------------------

EXACT = [
    (t.BOOLEAN, "true", True),
    (t.TINYINT, "-128", -128),
    (t.SMALLINT, "32767", 32767),
    (t.INT, "-2147483648", -(2**31)),
    (t.BIGINT, "9223372036854775807", 2**63 - 1),
    (t.DOUBLE, "10.5", 10.5),
    (t.DOUBLE, "10", 10.0),
    (t.FLOAT, "1.1", 1.100000023841858),
    (t.decimal(10, 2), "12.345", Decimal("12.35")),
    (t.decimal(10, 2), '"12.3"', Decimal("12.30")),
    (t.decimal(38, 18), "0.1", Decimal("0.100000000000000000")),
    (t.decimal(4, 2), "100", None),
    (t.STRING, '"消费组 \\u00e9"', "消费组 é"),
    (t.BYTES, '"AP8="', b"\x00\xff"),
    (t.DATE, '"1970-01-02"', 1),
    (t.DATE, '"2024-02-29"', (dt.date(2024, 2, 29) - dt.date(1970, 1, 1)).days),
    (t.time(3), '"10:00:00.123"', 36_000_123),
    (t.timestamp(3), '"2024-01-01 10:00:00.123"', TEN + 123_000_000),
    (t.timestamp(9), '"2024-01-01 10:00:00.123456789"', TEN + 123_456_789),
    (t.timestamp(3), '"2024-01-01 10:00:00.123456789"', TEN + 123_000_000),
    (t.timestamp(0), '"1969-12-31 23:59:59"', -(10**9)),
    (t.timestamp_ltz(3), '"2024-01-01 10:00:00Z"', TEN),
    (t.interval_day_time(), "1500", 1500),
    (t.array(t.INT), "[1, null, 3]", [1, None, 3]),
    (t.array(t.DATE), '["1970-01-02", null]', [1, None]),
    (t.map_of(t.STRING, t.BIGINT), '{"a": 1, "b": null}', {"a": 1, "b": None}),
    (t.map_of(t.STRING, t.decimal(3, 1)), '{"a": 1}', {"a": Decimal("1.0")}),
    (t.multiset(t.STRING), '{"a": 2}', {"a": 2}),
    (t.row(Field("x", t.INT), Field("y", t.DATE)), '{"y": "1970-01-03", "z": 0}', (None, 2)),
    (t.array(t.row(Field("x", t.INT))), '[{"x": 1}, null]', [(1,), None]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "text", "expected"), EXACT, ids=lambda v: str(v)[:40])
def test_values_of_the_declared_type(type_: DataType, text: str, expected: Any) -> None:
    d = decoder({"c": type_})
    (record,) = d.decode([f'{{"c": {text}}}'.encode()])  # the fast way takes them all
    (value,) = row(d, record)
    assert value == expected
    assert str(value) == str(expected), "scale and integer or float matter"


@pytest.mark.parametrize(("type_", "text", "expected"), EXACT, ids=lambda v: str(v)[:40])
def test_both_ways_agree(type_: DataType, text: str, expected: Any) -> None:
    """The slow way gives the same: a second column that the fast way refuses sends the row there."""
    d = decoder({"c": type_, "n": t.INT})
    record = d.decode_one(f'{{"c": {text}, "n": "7"}}'.encode())
    assert row(d, record) == [expected, 7]


@pytest.mark.parametrize("type_", [x for x, _, _ in EXACT], ids=str)
def test_null_and_missing_are_null(type_: DataType) -> None:
    assert decode(type_, "null") is None
    d = decoder({"c": type_, "other": t.INT})
    assert row(d, d.decode_one(b'{"other": 1, "unknown": [1, {"a": 2}]}')) == [None, 1]


# -- values that are not exactly of the type -----------------------------------------------------------------------


@pytest.mark.parametrize(("type_", "text", "expected"), [
    (t.BOOLEAN, '"TRUE"', True),
    (t.BOOLEAN, '" false "', False),
    (t.INT, '" 12 "', 12),
    (t.INT, '"+5"', 5),
    (t.INT, "3.7", 3),
    (t.BIGINT, "-3.7e2", -370),
    (t.DOUBLE, '" 1.5"', 1.5),
    (t.DOUBLE, '"-Infinity"', float("-inf")),
    (t.FLOAT, '"1.1"', 1.100000023841858),
    (t.STRING, "5", "5"),
    (t.STRING, "1.50", "1.50"),
    (t.STRING, "true", "true"),
    (t.STRING, '{"a": [1, 2]}', '{"a":[1,2]}'),
    (t.decimal(5, 2), '" 1e1 "', Decimal("10.00")),
    (t.array(t.INT), '["1"]', [1]),
    (t.map_of(t.STRING, t.STRING), '{"a": 1}', {"a": "1"}),
    (t.row(Field("x", t.INT)), '{"x": "1"}', (1,)),
])  # fmt: skip
def test_leniency_of_flink(type_: DataType, text: str, expected: Any) -> None:
    assert decode(type_, text) == expected


@pytest.mark.parametrize(("type_", "text", "said"), [
    (t.DOUBLE, '"a string"', "column 'c' is DOUBLE, but the value is \"a string\""),
    (t.DOUBLE, '"1_0"', "is DOUBLE"),
    (t.DOUBLE, "true", "is DOUBLE, but the value is true"),
    (t.DOUBLE, "[1]", "is DOUBLE"),
    (t.BOOLEAN, '"yes"', "is BOOLEAN"),
    (t.BOOLEAN, "1", "is BOOLEAN"),
    (t.INT, "2147483648", "is INT, but the value is 2147483648"),
    (t.INT, '"1.5"', "is INT"),
    (t.INT, "1e999999999", "is INT"),
    (t.TINYINT, "1.0", "is TINYINT"),
    (t.TINYINT, "128", "is TINYINT"),
    (t.BIGINT, "9223372036854775808", "is BIGINT"),
    (t.BYTES, '"?"', "is BYTES"),
    (t.DATE, '"2024-2-29"', "'2024-2-29' is no date like '2024-02-29'"),
    (t.DATE, '"2023-02-29"', "is DATE"),
    (t.DATE, "19000", "is DATE"),
    (t.time(), '"10:00"', "is no time like"),
    (t.timestamp(3), '"2024-01-01T10:00:00"', "is no timestamp like '2024-01-01 10:00:00'"),
    (t.timestamp(3), '"2024-01-01 10:00:00Z"', "is TIMESTAMP(3)"),
    (t.timestamp(3), '"2024-01-01 10:00:00.1234567890"', "is TIMESTAMP(3)"),
    (t.timestamp(3), '"2024-01-01 10:00:00+01"', "is TIMESTAMP(3)"),
    (t.timestamp_ltz(3), '"2024-01-01 10:00:00"', "is TIMESTAMP_LTZ(3)"),
    (t.array(t.INT), "1", "is ARRAY<INT>"),
    (t.map_of(t.STRING, t.INT), "[]", "is MAP<STRING, INT>"),
    (t.row(Field("x", t.INT)), "[]", "column 'c' is a ROW, but the value is [], no JSON object"),
])  # fmt: skip
def test_what_is_refused_names_column_type_and_value(type_: DataType, text: str, said: str) -> None:
    message = refused(type_, text)
    assert said in message
    assert message.startswith(f"Failed to deserialize JSON '{{\"c\": {text}}}': ")
    assert "'json.ignore-parse-errors' = 'true'" in message


@pytest.mark.parametrize(("text", "path"), [
    ('{"c": [{"x": 1}, {"x": "?"}]}', "c[1].x"),
    ('{"c": [1]}', "c[0]"),
])  # fmt: skip
def test_path_leads_to_the_nested_value(text: str, path: str) -> None:
    d = decoder({"c": t.array(t.row(Field("x", t.INT)))})
    with pytest.raises(DeserializationException) as e:
        d.decode_one(text.encode())
    assert e.value.column == path


@pytest.mark.parametrize(("value", "said"), [
    (b"", "it is empty"),
    (b"   ", "it is no JSON"),
    (b"\x00\xff", "it is no JSON"),
    (b'{"c": 1', "it is no JSON: Input data was truncated"),
    (b'{"c": 1} {"c": 2}', "it is no JSON"),
    (b"[1]", "a row is expected, but the value is [1], no JSON object"),
    (b'"text"', "a row is expected"),
])  # fmt: skip
def test_no_json_object(value: bytes, said: str) -> None:
    with pytest.raises(DeserializationException) as e:
        decoder({"c": t.INT}).decode_one(value)
    assert said in str(e.value)
    assert e.value.column is None and e.value.value == value


def test_json_null_is_no_row() -> None:
    assert decoder({"c": t.INT}).decode_one(b" null ") is None


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(DeserializationException) as e:
        decoder({"c": t.INT}).decode_one(b'{"c": "' + b"x" * 100_000 + b'"}')
    assert len(str(e.value)) < 600
    assert "(100009 bytes)" in str(e.value)


# -- options -------------------------------------------------------------------------------------------------------


def test_iso_timestamps() -> None:
    iso = {"timestamp-format.standard": "ISO-8601"}
    assert decode(t.timestamp(3), '"2024-01-01T10:00:00.5"', **iso) == TEN + 500_000_000
    assert decode(t.timestamp(3), '"2024-01-01T10:00"', **iso) == TEN
    assert decode(t.timestamp_ltz(3), '"2024-01-01T10:00:00Z"', **iso) == TEN
    assert "is TIMESTAMP(3)" in refused(t.timestamp(3), '"2024-01-01 10:00:00"', **iso)
    assert encode(t.timestamp(3), TEN + 500_000_000, **iso) == '{"c":"2024-01-01T10:00:00.5"}'
    assert encode(t.timestamp_ltz(3), TEN, **iso) == '{"c":"2024-01-01T10:00:00Z"}'


def test_missing_field_may_be_an_error() -> None:
    d = decoder({"a": t.INT, "b": t.INT}, fail_on_missing_field="true")
    assert row(d, d.decode_one(b'{"a": null, "b": 1}')) == [None, 1]
    with pytest.raises(DeserializationException, match="column 'b' is missing") as e:
        d.decode_one(b'{"a": 1}')
    assert e.value.column == "b"


def test_fast_way_refuses_what_misses_a_field() -> None:
    d = decoder({"a": t.INT, "b": t.INT}, fail_on_missing_field="true")
    with pytest.raises(Exception, match="missing required field"):
        d.decode([b'{"a": 1}'])


def test_options_are_checked() -> None:
    with pytest.raises(ValidationException, match=r"Expected one of: \[SQL, ISO-8601\]"):
        decoder({"c": t.INT}, **{"timestamp-format.standard": "UNIX"})
    with pytest.raises(ValidationException, match=r"Expected one of: \[true, false\]"):
        decoder({"c": t.INT}, ignore_parse_errors="yes")


def test_types_without_json() -> None:
    with pytest.raises(ValidationException, match="JSON format doesn't support non-string as key type of map"):
        decoder({"c": t.map_of(t.INT, t.INT)})
    with pytest.raises(ValidationException, match="no values of type RAW"):
        decoder({"c": t.raw()})
    with pytest.raises(ValidationException, match="cannot write values of type RAW"):
        encode(t.raw(), object())


def test_extras_are_attributes_that_json_cannot_set() -> None:
    d = decoder({"c": t.INT})
    record = d.decode_one(b'{"c": 1, "offset": 5}')
    assert record.offset is None
    record.offset = 7
    assert record.offset == 7


def test_column_names_of_any_kind() -> None:
    names = {"class": t.INT, "a b": t.INT, "f1": t.INT, "消费": t.INT, 'q"uote': t.INT}
    d = decoder(names)
    text = json.dumps({n: i for i, n in enumerate(names)}).encode()
    assert row(d, d.decode_one(text)) == [0, 1, 2, 3, 4]
    assert json.loads(encode_row(names, (0, 1, 2, 3, 4))) == {n: i for i, n in enumerate(names)}


# -- encoding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("type_", "value", "text"), [
    (t.BOOLEAN, True, "true"),
    (t.BIGINT, -5, "-5"),
    (t.DOUBLE, 12.5, "12.5"),
    (t.DOUBLE, float("nan"), '"NaN"'),
    (t.DOUBLE, float("-inf"), '"-Infinity"'),
    (t.FLOAT, 1.100000023841858, "1.1"),
    (t.FLOAT, float("inf"), '"Infinity"'),
    (t.decimal(10, 2), Decimal("12.50"), "12.50"),
    (t.decimal(10, 8), Decimal("0.00000003"), "3E-8"),
    (t.STRING, "é\n", '"é\\n"'),
    (t.BYTES, b"\x00\xff", '"AP8="'),
    (t.DATE, 1, '"1970-01-02"'),
    (t.time(3), 36_000_120, '"10:00:00.12"'),
    (t.time(0), 1000, '"00:00:01"'),
    (t.timestamp(3), TEN, '"2024-01-01 10:00:00"'),
    (t.timestamp(9), TEN + 1, '"2024-01-01 10:00:00.000000001"'),
    (t.timestamp(3), -1_000_000, '"1969-12-31 23:59:59.999"'),
    (t.timestamp_ltz(3), TEN + 120_000_000, '"2024-01-01 10:00:00.12Z"'),
    (t.array(t.DATE), [1, None], '["1970-01-02",null]'),
    (t.array(t.INT), [1, None], "[1,null]"),
    (t.map_of(t.STRING, t.DATE), {"a": 1, "b": None}, '{"a":"1970-01-02","b":null}'),
    (t.multiset(t.STRING), {"a": 2}, '{"a":2}'),
    (t.row(Field("x", t.INT), Field("y", t.DATE)), (None, 1), '{"x":null,"y":"1970-01-02"}'),
])  # fmt: skip
def test_encoding(type_: DataType, value: Any, text: str) -> None:
    assert encode(type_, value) == f'{{"c":{text}}}'
    assert encode(type_, None) == '{"c":null}'


def test_plain_decimals() -> None:
    assert encode(t.decimal(10, 8), Decimal("0.00000003"), **{"encode.decimal-as-plain-number": "true"}) == (
        '{"c":0.00000003}'
    )


def test_null_fields_may_be_left_out() -> None:
    fields = {"a": t.INT, "b": t.row(Field("x", t.INT), Field("y", t.INT)), "c": t.DOUBLE}
    text = encode_row(fields, (None, (None, 1), None), **{"encode.ignore-null-fields": "true"})
    assert text == '{"b":{"y":1}}'


def test_null_keys_of_maps() -> None:
    map_, value = t.map_of(t.STRING, t.INT), {None: 1, "a": 2}
    with pytest.raises(TableException, match="map data with null keys"):
        encode(map_, value)
    assert encode(map_, value, **{"map-null-key.mode": "DROP"}) == '{"c":{"a":2}}'
    literal = {"map-null-key.mode": "LITERAL", "map-null-key.literal": "none"}
    assert encode(map_, value, **literal) == '{"c":{"none":1,"a":2}}'


def test_same_json_name_twice_is_refused() -> None:
    given_ = Options("json", {}, optional=JsonFormatFactory.options)
    with pytest.raises(ValidationException, match="two columns have one name in the JSON: a, a"):
        JsonFormatFactory().encoder(given_, [Field("a", t.INT), Field("a", t.INT)])


# -- there and back ------------------------------------------------------------------------------------------------

_VALUES: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    (t.BOOLEAN, st.booleans()),
    (t.INT, st.integers(-(2**31), 2**31 - 1)),
    (t.BIGINT, st.integers(-(2**63), 2**63 - 1)),
    (t.DOUBLE, st.floats()),
    (t.FLOAT, st.floats(width=32)),
    (t.STRING, st.text()),
    (t.BYTES, st.binary()),
    (t.DATE, st.dates().map(lambda d: (d - dt.date(1970, 1, 1)).days)),
    (t.time(3), st.integers(0, 86_399_999)),
    (t.timestamp(9), st.integers(-62_135_596_800, 253_402_300_799).map(lambda s: s * 10**9 + s % 10**9)),
    (t.timestamp_ltz(3), st.integers(-62_135_596_800_000, 253_402_300_799_999).map(lambda ms: ms * 10**6)),
    (t.decimal(20, 5), st.decimals(-(10**14), 10**14, places=5)),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values"), _VALUES, ids=lambda v: str(v)[:30])
def test_what_is_written_is_read_again(type_: DataType, values: st.SearchStrategy[Any]) -> None:
    d = decoder({"c": type_, "l": t.array(type_), "m": t.map_of(t.STRING, type_)})

    @given(values)
    def check(value: Any) -> None:
        fields = {"c": type_, "l": t.array(type_), "m": t.map_of(t.STRING, type_)}
        text = encode_row(fields, (value, [value, None], {"k": value}))
        c, (first, none), m = row(d, d.decode_one(text.encode()))
        assert none is None
        for found in (c, first, m["k"]):
            assert found == value or (math.isnan(found) and math.isnan(value))
            assert type(found) is type(value)

    check()


@given(st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner),
    max_leaves=6,
))  # fmt: skip
def test_any_json_gives_a_row_or_an_error_that_names_a_column(value: Any) -> None:
    d = decoder({"a": t.INT, "b": t.array(t.DOUBLE), "c": t.row(Field("a", t.timestamp(3)))})
    try:
        record = d.decode_one(json.dumps(value).encode())
    except DeserializationException as e:
        assert not isinstance(value, dict) or "NaN" in json.dumps(value) or "Infinity" in json.dumps(value) or e.column
    else:
        assert record is None or len(row(d, record)) == 3
