"""JSON to rows of a table.

Two ways to one result. The fast one: msgspec decodes into a Struct that is made for the table, field by field of the
right type; what JSON has no type for (decimals, dates, timestamps) is put into the inner form by a generated loop over
the batch. It refuses what is not exactly of the type. Only then the second one looks at the value token by token with
Flink's leniency (`"12"` is an INT, `true` a STRING) and names the column of what is really wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec

from streamline._core.types import INTEGER_BITS, DataType, Field
from streamline.connectors.formats.json.lenient import LenientDecoder, map_value_type
from streamline.connectors.formats.json.options import JsonOptions
from streamline.connectors.formats.numbers import fit_decimal, to_float32
from streamline.connectors.formats.times import parse_date, parse_time, parse_timestamp
from streamline.errors import ValidationException

__all__ = ("JsonRowDecoder", "check_map_key", "is_plain_name")

#: Puts a decoded value that is not None into the inner form.
Convert = Callable[[Any], Any]


class JsonRowDecoder:
    """Decodes the values of one table; see `RowDecoder`.

    Rows are Structs with the attributes `f0`, `f1`, … for the fields and one for each of `extras`. They hold the inner
    form, so every source is an attribute.
    """

    def __init__(self, options: JsonOptions, fields: Sequence[Field], extras: Sequence[str] = ()) -> None:
        names = [f"f{i}" for i in range(len(fields))]
        self.ignore_errors: Final = options.ignore_parse_errors
        self.sources: Final[Mapping[str, str]] = {f.name: f"r.{n}" for n, f in zip(names, fields)}
        self.namespace: Final[Mapping[str, Any]] = {}
        self.row_class: Final = _struct("Row", fields, options, extras)
        self._fast: Final = _has_plain_names(DataType("ROW", fields=tuple(fields)))
        self._decode: Final = msgspec.json.Decoder(self.row_class).decode
        converters = {n: _converter(f.type, options) for n, f in zip(names, fields)}
        self._convert: Final = _conversion_loop({n: c for n, c in converters.items() if c is not None})
        self._lenient: Final = LenientDecoder(options, fields, self._from_tuple)

    def decode(self, values: Sequence[bytes]) -> list[Any]:
        """Rows of values, fast; see `RowDecoder.decode`."""
        if not self._fast:
            raise ValueError("msgspec cannot look for these names")
        rows = list(map(self._decode, values))
        if self._convert is not None:
            self._convert(rows)
        return rows

    def empty(self) -> Any:
        """A row of NULLs; see `RowDecoder.empty`."""
        return self.row_class(*[None] * len(self.sources))

    def decode_one(self, value: bytes) -> Any:
        """The row of one value; see `RowDecoder.decode_one`."""
        try:
            return self.decode((value,))[0]
        except Exception:  # whatever the fast way does not like, the other one judges
            return self._lenient.decode(value)

    def _from_tuple(self, values: Sequence[Any]) -> Any:
        return self.row_class(*values)


# -- what msgspec decodes into -------------------------------------------------------------------------------------


def _struct(name: str, fields: Sequence[Field], options: JsonOptions, extras: Sequence[str] = ()) -> Any:
    """A Struct class with f0, f1, … under the JSON names of the fields, and the extras."""
    rename = {f"f{i}": f.name for i, f in enumerate(fields) if is_plain_name(f.name)}
    definition: list[Any] = []
    for i, f in enumerate(fields):
        kind = _python_type(f.type, options)
        definition.append((f"f{i}", kind) if options.fail_on_missing_field else (f"f{i}", kind, None))
    for i, extra in enumerate(extras):
        rename[extra] = f"\ue000{i}"  # no name that anybody gives to a column
        definition.append((extra, Any, None))
    # Rows are many, short-lived and hold no cycles: they need not be looked at by the collector.
    return msgspec.defstruct(name, definition, rename=rename, gc=False)


def is_plain_name(name: str) -> bool:
    """Whether msgspec can look for a field of this name: it has no quotes, backslashes or control characters."""
    return name.isprintable() and '"' not in name and "\\" not in name


def _has_plain_names(type_: DataType) -> bool:
    parts = [f.type for f in type_.fields] + ([type_.element] if type_.element is not None else [])
    return all(is_plain_name(f.name) for f in type_.fields) and all(map(_has_plain_names, parts))


def _python_type(type_: DataType, options: JsonOptions) -> Any:
    return _python_type_not_null(type_, options) | None


def _python_type_not_null(type_: DataType, options: JsonOptions) -> Any:
    match type_.root:
        case "BOOLEAN":
            return bool
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            top = 1 << (INTEGER_BITS[type_.root] - 1)
            return Annotated[int, msgspec.Meta(ge=-top, le=top - 1)]
        case "INTERVAL_DAY_TIME" | "INTERVAL_YEAR_MONTH":
            return int
        case "FLOAT" | "DOUBLE":
            return float
        case "DECIMAL":
            return Decimal
        case "CHAR" | "VARCHAR" | "DATE" | "TIME" | "TIMESTAMP" | "TIMESTAMP_LTZ":
            return str
        case "BINARY" | "VARBINARY":
            return bytes
        case "ARRAY":
            assert type_.element is not None
            return list[_python_type(type_.element, options)]  # type: ignore[misc]
        case "MAP" | "MULTISET":
            check_map_key(type_)
            return dict[str, _python_type(map_value_type(type_), options)]  # type: ignore[misc]
        case "ROW" | "STRUCTURED":
            return _struct("Nested", type_.fields, options)
    raise ValidationException(f"The format json has no values of type {type_}.")


def check_map_key(type_: DataType) -> None:
    """Keys of a map have to be strings, as JSON's are."""
    key = type_.key if type_.root == "MAP" else type_.element
    assert key is not None
    if not key.is_character:
        raise ValidationException(f"JSON format doesn't support non-string as key type of map. The type is: {type_}")


# -- into the inner form -------------------------------------------------------------------------------------------


def _converter(type_: DataType, options: JsonOptions) -> Convert | None:
    """What is left to do with a decoded value of the type; None for nothing."""
    match type_.root:
        case "FLOAT":
            return to_float32
        case "DECIMAL":
            precision, scale = type_.precision, type_.scale
            return lambda v: fit_decimal(v, precision, scale)
        case "DATE":
            return parse_date
        case "TIME":
            return parse_time
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            separator, utc, unit = options.separator, type_.root == "TIMESTAMP_LTZ", 10 ** (9 - type_.precision)
            return lambda v: parse_timestamp(v, separator, utc, unit)
        case "ARRAY":
            assert type_.element is not None
            of_element = _converter(type_.element, options)
            if of_element is None:
                return None
            return lambda v: [None if e is None else of_element(e) for e in v]
        case "MAP" | "MULTISET":
            of_value = _converter(map_value_type(type_), options)
            if of_value is None:
                return None
            return lambda v: {k: None if e is None else of_value(e) for k, e in v.items()}
        case "ROW" | "STRUCTURED":
            return _row_converter(type_, options)
    return None


def _row_converter(type_: DataType, options: JsonOptions) -> Convert:
    """A nested Struct becomes a tuple."""
    converters = [_converter(f.type, options) for f in type_.fields]
    if not any(converters):
        return msgspec.structs.astuple

    def convert(value: Any) -> tuple[Any, ...]:
        fields = msgspec.structs.astuple(value)
        return tuple(v if v is None or c is None else c(v) for v, c in zip(fields, converters))

    return convert


def _conversion_loop(converters: Mapping[str, Convert]) -> Callable[[list[Any]], None] | None:
    """One loop over a batch that converts these attributes in place; None where there are none."""
    if not converters:
        return None
    lines = ["def convert(rows):", "    for r in rows:"]
    for name in converters:
        lines += [f"        v = r.{name}", f"        if v is not None: r.{name} = c_{name}(v)"]
    namespace: dict[str, Any] = {f"c_{n}": c for n, c in converters.items()}
    exec(compile("\n".join(lines), "<json conversion>", "exec"), namespace)
    return namespace["convert"]  # type: ignore[no-any-return]
