"""JSON of streams as `Row`s of a declared type, by PyFlink's names; dates and times are Python's own."""

from __future__ import annotations

import datetime as _dt
from collections.abc import Callable, Mapping
from typing import Any, Final

from streamline._core.changes import Row
from streamline._core.typeinfo import to_data_type
from streamline._core.types import DataType
from streamline.connectors.formats.base import DeserializationSchema, SerializationSchema
from streamline.connectors.formats.json.decode import JsonRowDecoder
from streamline.connectors.formats.json.encode import JsonRowEncoder
from streamline.connectors.formats.json.options import JsonOptions
from streamline.errors import ValidationException

__all__ = ("JsonRowDeserializationSchema", "JsonRowSerializationSchema")

Convert = Callable[[Any], Any]

_EPOCH: Final = _dt.datetime(1970, 1, 1)
_EPOCH_UTC: Final = _EPOCH.replace(tzinfo=_dt.UTC)
_EPOCH_DATE: Final = _EPOCH.date()


class JsonRowDeserializationSchema(DeserializationSchema[Row]):
    """Reads JSON objects as rows with names.

    Args:
        type_info: `Types.ROW_NAMED([...], [...])`.
        fail_on_missing_field: a field that is not there is an error; else it is None.
        ignore_parse_errors: skip and count what cannot be read instead of failing the job.

    Raises:
        ValidationException: the type is no row, or has a part that JSON cannot give.
    """

    def __init__(
        self, type_info: Any, *, fail_on_missing_field: bool = False, ignore_parse_errors: bool = False
    ) -> None:
        self._type_info = type_info
        self.ignore_parse_errors = ignore_parse_errors
        row = _row_type(type_info)
        options = JsonOptions(fail_on_missing_field=fail_on_missing_field, ignore_parse_errors=ignore_parse_errors)
        self._decoder = JsonRowDecoder(options, row.fields)
        self._names = tuple(f.name for f in row.fields)
        self._fields = [(f"f{i}", _to_python(f.type)) for i, f in enumerate(row.fields)]

    @staticmethod
    def builder() -> _Builder:
        """`builder().type_info(…).fail_on_missing_field().ignore_parse_errors().build()`."""
        return _Builder(JsonRowDeserializationSchema)

    def deserialize(self, message: bytes) -> Row | None:
        found = self._decoder.decode_one(message)
        if found is None:
            return None
        values = [getattr(found, name) for name, _ in self._fields]
        return Row.with_names(
            self._names, [v if v is None or c is None else c(v) for v, (_, c) in zip(values, self._fields)]
        )

    def get_produced_type(self) -> Any:
        return self._type_info


class JsonRowSerializationSchema(SerializationSchema[Row]):
    """Writes rows as JSON objects, their values by position.

    Args:
        type_info: `Types.ROW_NAMED([...], [...])`.

    Raises:
        ValidationException: the type is no row, or has a part that JSON cannot hold.
    """

    def __init__(self, type_info: Any) -> None:
        row = _row_type(type_info)
        encoder = JsonRowEncoder(JsonOptions(), row.fields)
        parts = encoder.template.format(*[f"v[{i}]" for i in range(len(row.fields))])
        self._make = eval(compile(f"lambda v: {parts}", "<json row>", "eval"), dict(encoder.namespace))
        self._encode = encoder.encode
        self._fields = [_from_python(f.type) for f in row.fields]

    @staticmethod
    def builder() -> _Builder:
        """`builder().with_type_info(…).build()`."""
        return _Builder(JsonRowSerializationSchema)

    def serialize(self, element: Row) -> bytes:
        values = list(element)
        if len(values) != len(self._fields):
            raise ValidationException(f"a row of {len(self._fields)} fields is expected: {element!r}")
        return self._encode(self._make([v if v is None or c is None else c(v) for v, c in zip(values, self._fields)]))


class _Builder:
    """PyFlink's builders of these schemas, whose setters do not begin with `set_`."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._given: dict[str, Any] = {}

    def type_info(self, type_info: Any) -> _Builder:
        """The type of the rows."""
        self._given["type_info"] = type_info
        return self

    with_type_info = type_info

    def fail_on_missing_field(self) -> _Builder:
        """A field that is not there is an error."""
        self._given["fail_on_missing_field"] = True
        return self

    def ignore_parse_errors(self) -> _Builder:
        """Skip and count what cannot be read."""
        self._given["ignore_parse_errors"] = True
        return self

    def build(self) -> Any:
        """The schema.

        Raises:
            ValidationException: the type is missing or does not fit.
        """
        if "type_info" not in self._given:
            raise ValidationException(
                f"{self._make.__name__} needs the type of the rows: type_info(Types.ROW_NAMED(…))"
            )
        return self._make(**self._given)


def _row_type(type_info: Any) -> DataType:
    found = to_data_type(type_info)
    if found.root != "ROW":
        raise ValidationException(f"the type of the rows has to be Types.ROW_NAMED(…), not {type_info!r}")
    return found


def _to_python(type_: DataType) -> Convert | None:
    """From the inner form to Python's own; None where they are the same."""
    match type_.root:
        case "DATE":
            return lambda v: _EPOCH_DATE + _dt.timedelta(days=v)
        case "TIME":
            return lambda v: (_EPOCH + _dt.timedelta(milliseconds=v)).time()
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            epoch = _EPOCH if type_.root == "TIMESTAMP" else _EPOCH_UTC
            return lambda v: epoch + _dt.timedelta(microseconds=v // 1000)
        case "ROW" | "STRUCTURED":
            names = tuple(f.name for f in type_.fields)
            parts = [_to_python(f.type) for f in type_.fields]
            return lambda v: Row.with_names(names, [e if e is None or c is None else c(e) for e, c in zip(v, parts)])
    return _inside(type_, _to_python)


def _from_python(type_: DataType) -> Convert | None:
    """From Python's own to the inner form; None where they are the same."""
    match type_.root:
        case "DATE":
            return lambda v: (v - _EPOCH_DATE).days
        case "TIME":
            return lambda v: ((v.hour * 60 + v.minute) * 60 + v.second) * 1000 + v.microsecond // 1000
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            microsecond = _dt.timedelta(microseconds=1)
            return lambda v: (v - (_EPOCH if v.tzinfo is None else _EPOCH_UTC)) // microsecond * 1000
        case "ROW" | "STRUCTURED":
            parts = [_from_python(f.type) for f in type_.fields]
            return lambda v: tuple(e if e is None or c is None else c(e) for e, c in zip(v, parts))
    return _inside(type_, _from_python)


def _inside(type_: DataType, conversion: Callable[[DataType], Convert | None]) -> Convert | None:
    """Of the elements of arrays and the values of maps."""
    if type_.root not in ("ARRAY", "MAP") or type_.element is None:
        return None
    convert = conversion(type_.element)
    if convert is None:
        return None
    if type_.root == "ARRAY":
        return lambda v: [None if e is None else convert(e) for e in v]

    def of_map(value: Mapping[Any, Any]) -> dict[Any, Any]:
        return {k: None if e is None else convert(e) for k, e in value.items()}

    return of_map
