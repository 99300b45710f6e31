"""Rows of a table to JSON.

The planner's generated projection builds a Struct made for the table (`template`); msgspec writes it in one call. What
JSON has no type for is put into text by the template's own expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from streamline._core.types import DataType, Field
from streamline.connectors.formats.json.decode import check_map_key, is_plain_name
from streamline.connectors.formats.json.lenient import map_value_type
from streamline.connectors.formats.json.options import JsonOptions
from streamline.connectors.formats.numbers import short_float32
from streamline.connectors.formats.times import date_text, time_text, timestamp_text
from streamline.errors import TableException, ValidationException

__all__ = ("JsonRowEncoder",)

Convert = Callable[[Any], Any]


class JsonRowEncoder:
    """Encodes the rows of one table; see `RowEncoder`."""

    def __init__(self, options: JsonOptions, fields: Sequence[Field]) -> None:
        namespace: dict[str, Any] = {"JsonRow": _struct("JsonRow", fields, options)}
        arguments = []
        for i, f in enumerate(fields):
            convert = _converter(f.type, options)
            if convert is None:
                arguments.append(f"{{{i}}}")
            elif f.type.root == "DOUBLE":
                # JSON has no NaN and no infinities; the test is cheaper than the call that few values need.
                arguments.append(f"(v{i} if (v{i} := {{{i}}}) is None or v{i} - v{i} == 0.0 else json_{i}(v{i}))")
            else:
                arguments.append(f"json_{i}({{{i}}})")
            if convert is not None:
                namespace[f"json_{i}"] = _or_none(convert)
        self.template: Final = f"JsonRow({', '.join(arguments)})"
        self.namespace: Final[Mapping[str, Any]] = namespace
        self.encode: Final = msgspec.json.Encoder(decimal_format="number").encode


def _or_none(convert: Convert) -> Convert:
    return lambda v: None if v is None else convert(v)


def _struct(name: str, fields: Sequence[Field], options: JsonOptions) -> Any:
    rename = {f"f{i}": f.name for i, f in enumerate(fields)}
    if len(set(rename.values())) < len(rename):
        raise ValidationException(f"two columns have one name in the JSON: {', '.join(rename.values())}")
    if not all(map(is_plain_name, rename.values())):
        return _dict_maker(tuple(rename.values()), options.ignore_null_fields)
    definition = [(f"f{i}", Any, None) for i in range(len(fields))]
    return msgspec.defstruct(name, definition, rename=rename, gc=False, omit_defaults=options.ignore_null_fields)


def _dict_maker(names: tuple[str, ...], ignore_nulls: bool) -> Any:
    """What stands in for the Struct where a name is one that msgspec does not take."""
    return lambda *values: {n: v for n, v in zip(names, values) if v is not None or not ignore_nulls}


def _converter(type_: DataType, options: JsonOptions) -> Convert | None:
    """Puts a value that is not None into what msgspec writes as it should be; None where it is so already."""
    match type_.root:
        case "BOOLEAN" | "TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            return None
        case "INTERVAL_DAY_TIME" | "INTERVAL_YEAR_MONTH" | "NULL":
            return None
        case "DOUBLE":
            return lambda v: v if v - v == 0.0 else _non_finite(v)
        case "FLOAT":
            return lambda v: short_float32(v) if v - v == 0.0 else _non_finite(v)
        case "DECIMAL":
            return _plain_decimal if options.plain_decimals else None
        case "DATE":
            return date_text
        case "TIME":
            return time_text
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            separator, utc = options.separator, type_.root == "TIMESTAMP_LTZ"
            return lambda v: timestamp_text(v, separator, utc)
        case "ARRAY":
            assert type_.element is not None
            of_element = _converter(type_.element, options)
            if of_element is None:
                return None
            return lambda v: [None if e is None else of_element(e) for e in v]
        case "MAP" | "MULTISET":
            check_map_key(type_)
            return _map_converter(map_value_type(type_), options)
        case "ROW" | "STRUCTURED":
            make = _struct("JsonNested", type_.fields, options)
            converters = [_converter(f.type, options) for f in type_.fields]
            return lambda v: make(*[e if e is None or c is None else c(e) for e, c in zip(v, converters)])
    raise ValidationException(f"The format json cannot write values of type {type_}.")


def _map_converter(value_type: DataType, options: JsonOptions) -> Convert:
    of_value = _converter(value_type, options)
    mode, literal = options.map_null_key_mode, options.map_null_key_literal

    def convert(value: Mapping[str | None, Any]) -> dict[str, Any]:
        found = {}
        for k, v in value.items():
            if k is None:
                if mode == "FAIL":
                    raise TableException(
                        "JSON format doesn't support to serialize map data with null keys. You can drop null key "
                        "entries or encode null in literals by specifying the option map-null-key.mode."
                    )
                if mode == "DROP":
                    continue
                k = literal
            found[k] = v if v is None or of_value is None else of_value(v)
        return found

    return convert


def _plain_decimal(value: Decimal) -> msgspec.Raw:
    return msgspec.Raw(f"{value:f}".encode())


def _non_finite(value: float) -> str:
    """As Jackson writes them."""
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
