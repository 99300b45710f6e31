"""Texts of fields to values in the inner form and back, by type."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from streamline._core.types import INTEGER_BITS, DataType
from streamline.connectors.formats.csv.options import CsvOptions
from streamline.connectors.formats.numbers import fit_decimal, short_float32, to_float32
from streamline.connectors.formats.times import (
    date_text,
    parse_date,
    parse_time,
    parse_timestamp,
    time_text,
    timestamp_text,
)
from streamline.errors import ValidationException

__all__ = ("parser_of", "writer_of")

Parse = Callable[[str], Any]
Write = Callable[[Any], str]

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
#: What Java's Double.parseDouble takes besides numbers.
_SPECIAL: Final = {"NaN": "nan", "Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf"}
_BOOLEANS: Final = {"true": True, "false": False}


# -- reading -------------------------------------------------------------------------------------------------------


def parser_of(type_: DataType, options: CsvOptions) -> Parse | None:
    """Makes a value of a field's text, or raises ValueError or LookupError; None: the text is the value.

    Raises:
        ValidationException: the format has no values of this type.
    """
    match type_.root:
        case "CHAR" | "VARCHAR":
            return None
        case "ARRAY":
            assert type_.element is not None
            return _array_parser(type_.element, options)
        case "ROW" | "STRUCTURED":
            return _row_parser(type_, options)
    return _scalar_parser(type_)


def _scalar_parser(type_: DataType) -> Parse:
    match type_.root:
        case "BOOLEAN":
            # Flink takes any other text for false; here it is an error.
            return lambda text: _BOOLEANS[text.strip().lower()]
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return _integer_parser(INTEGER_BITS[type_.root])
        case "INTERVAL_YEAR_MONTH":
            return _integer_parser(32)
        case "INTERVAL_DAY_TIME":
            return _integer_parser(64)
        case "FLOAT":
            return lambda text: to_float32(_float(text))
        case "DOUBLE":
            return _float
        case "DECIMAL":
            precision, scale = type_.precision, type_.scale
            return lambda text: fit_decimal(Decimal(_number(text.strip())), precision, scale)
        case "BINARY" | "VARBINARY":
            return lambda text: base64.b64decode(text, validate=True)
        case "DATE":
            return parse_date
        case "TIME":
            if type_.precision > 3:
                raise ValidationException(
                    f"Csv does not support TIME type with precision: {type_.precision}, "
                    "it only supports precision 0 ~ 3."
                )
            unit = 10 ** (3 - type_.precision)
            return lambda text: _cut(parse_time(f"{text}:00" if len(text) == 5 else text), unit)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            utc, unit = type_.root == "TIMESTAMP_LTZ", 10 ** (9 - type_.precision)
            return lambda text: parse_timestamp(text.strip(), " ", utc, unit)
    raise ValidationException(f"The format csv has no values of type {type_}.")


def _integer_parser(bits: int) -> Parse:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def parse(text: str) -> int:
        if not (text.isdigit() and text.isascii()):  # int() alone takes 1_000 and digits of other scripts
            text = text.strip()
            if not _INTEGER.fullmatch(text):
                raise ValueError("no integer")
        value = int(text)
        if not low <= value <= high:
            raise ValueError("out of range")
        return value

    return parse


def _float(text: str) -> float:
    text = text.strip()
    return float(_SPECIAL.get(text) or _number(text))


def _number(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        raise ValueError("no number")
    return text


def _cut(value: int, unit: int) -> int:
    return value - value % unit


def _element_parser(type_: DataType, options: CsvOptions, outer: DataType) -> Parse:
    """Of a value inside of a field."""
    if type_.root in ("ARRAY", "ROW", "STRUCTURED", "MAP", "MULTISET"):
        raise ValidationException(f"The format csv has no values of type {outer}: {type_.root} inside of {outer.root}.")
    parse, null = parser_of(type_, options), options.null_literal
    empty_is_null = options.empty_as_null

    def element(text: str) -> Any:
        if text == null or (empty_is_null and not text):
            return None
        return text if parse is None else parse(text)

    return element


def _array_parser(type_: DataType, options: CsvOptions) -> Parse:
    element = _element_parser(type_, options, DataType("ARRAY", element=type_))
    separator = options.array_delimiter
    return lambda text: list(map(element, text.split(separator))) if text else []


def _row_parser(type_: DataType, options: CsvOptions) -> Parse:
    elements = [_element_parser(f.type, options, type_) for f in type_.fields]
    separator = options.array_delimiter

    def row(text: str) -> tuple[Any, ...]:
        parts = text.split(separator)
        if len(parts) != len(elements):
            raise ValueError(f"{len(elements)} parts are expected, and there are {len(parts)}")
        return tuple([element(part) for element, part in zip(elements, parts)])

    return row


# -- writing -------------------------------------------------------------------------------------------------------


def writer_of(type_: DataType, options: CsvOptions) -> Write | None:
    """Makes the text of a value that is not None; None: the value is the text.

    Raises:
        ValidationException: the format has no values of this type.
    """
    match type_.root:
        case "CHAR" | "VARCHAR":
            return None
        case "BOOLEAN":
            return lambda v: "true" if v else "false"
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "INTERVAL_DAY_TIME" | "INTERVAL_YEAR_MONTH":
            return str
        case "DOUBLE":
            return _double_text
        case "FLOAT":
            return lambda v: _double_text(short_float32(v)) if v - v == 0.0 else _double_text(v)
        case "DECIMAL":
            return str if options.scientific else lambda v: f"{v:f}"
        case "BINARY" | "VARBINARY":
            return lambda v: base64.b64encode(v).decode()
        case "DATE":
            return date_text
        case "TIME":
            return time_text
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            utc = type_.root == "TIMESTAMP_LTZ"
            return lambda v: timestamp_text(v, " ", utc)
        case "NULL":
            return str
        case "ARRAY":
            assert type_.element is not None
            element = _element_writer(type_.element, options, type_)
            return lambda v: options.array_delimiter.join(map(element, v))
        case "ROW" | "STRUCTURED":
            elements = [_element_writer(f.type, options, type_) for f in type_.fields]
            return lambda v: options.array_delimiter.join([w(e) for w, e in zip(elements, v)])
    raise ValidationException(f"The format csv cannot write values of type {type_}.")


def _element_writer(type_: DataType, options: CsvOptions, outer: DataType) -> Write:
    if type_.root in ("ARRAY", "ROW", "STRUCTURED", "MAP", "MULTISET"):
        raise ValidationException(
            f"The format csv cannot write values of type {outer}: {type_.root} inside of {outer.root}."
        )
    write, null = writer_of(type_, options), options.null_literal or ""
    return lambda v: null if v is None else v if write is None else write(v)


def _double_text(value: float) -> str:
    """As Java writes doubles that are no numbers; the rest as short as it can be."""
    if value - value == 0.0:
        return repr(value)
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
