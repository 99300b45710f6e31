"""DataTypes: Flink's logical types, under PyFlink's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamline._core import types as t
from streamline._core.typeinfo import to_data_type
from streamline._core.types import DataType, Field
from streamline.errors import ValidationException
from streamline.table.parse import parse_data_type

__all__ = ("DataTypes", "type_of")

#: What each pair of units is called, from the leading one to the last.
_DAY_TIME: Final = ("DAY", "HOUR", "MINUTE", "SECOND")
_YEAR_MONTH: Final = ("YEAR", "MONTH")


class DataTypes:
    """Factories of data types.

    Every type is nullable unless `nullable=False` is given or `.not_null()` is called on it.
    """

    @staticmethod
    def NULL() -> DataType:
        """The type of a bare NULL."""
        return t.NULL

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:
        """TRUE, FALSE and, where nullable, NULL."""
        return t.BOOLEAN.with_nullable(nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:
        """Integers of 8 bits: -128 to 127."""
        return t.TINYINT.with_nullable(nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:
        """Integers of 16 bits."""
        return t.SMALLINT.with_nullable(nullable)

    @staticmethod
    def INT(nullable: bool = True) -> DataType:
        """Integers of 32 bits."""
        return t.INT.with_nullable(nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:
        """Integers of 64 bits."""
        return t.BIGINT.with_nullable(nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:
        """Floating point numbers of 32 bits."""
        return t.FLOAT.with_nullable(nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:
        """Floating point numbers of 64 bits: Python's float."""
        return t.DOUBLE.with_nullable(nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int = 0, nullable: bool = True) -> DataType:
        """Decimal numbers of `precision` digits (1 to 38), `scale` of them behind the point."""
        if not 1 <= precision <= 38:
            raise ValidationException(f"Decimal precision must be between 1 and 38 (both inclusive), not {precision}.")
        if not 0 <= scale <= precision:
            raise ValidationException(
                f"Decimal scale must be between 0 and the precision {precision} (both inclusive), not {scale}."
            )
        return t.decimal(precision, scale).with_nullable(nullable)

    @staticmethod
    def CHAR(length: int = 1, nullable: bool = True) -> DataType:
        """Text of exactly `length` characters."""
        return t.char(_length("Character string", length)).with_nullable(nullable)

    @staticmethod
    def VARCHAR(length: int = 1, nullable: bool = True) -> DataType:
        """Text of at most `length` characters."""
        return t.varchar(_length("Character string", length)).with_nullable(nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:
        """Text of any length: VARCHAR(2147483647)."""
        return t.STRING.with_nullable(nullable)

    @staticmethod
    def BINARY(length: int = 1, nullable: bool = True) -> DataType:
        """Exactly `length` bytes."""
        return t.binary(_length("Binary string", length)).with_nullable(nullable)

    @staticmethod
    def VARBINARY(length: int = 1, nullable: bool = True) -> DataType:
        """At most `length` bytes."""
        return t.varbinary(_length("Binary string", length)).with_nullable(nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:
        """Bytes of any number: VARBINARY(2147483647)."""
        return t.BYTES.with_nullable(nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:
        """A day: `datetime.date`."""
        return t.DATE.with_nullable(nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:
        """A time of the day: `datetime.time`, with `precision` digits of fractions of a second (0 to 9)."""
        return t.time(_fraction("Time", precision)).with_nullable(nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:
        """A date and time without zone: a naive `datetime`, with `precision` digits of fractions (0 to 9)."""
        return t.timestamp(_fraction("Timestamp", precision)).with_nullable(nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> DataType:
        """A point in time: an aware `datetime`, with `precision` digits of fractions of a second (0 to 9)."""
        fraction = _fraction("Timestamp with local time zone", precision)
        return t.timestamp_ltz(fraction).with_nullable(nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> DataType:
        """The long name of `TIMESTAMP_LTZ`."""
        return DataTypes.TIMESTAMP_LTZ(precision, nullable)

    # -- intervals -----------------------------------------------------------------------------------------------

    @staticmethod
    def YEAR(precision: int = 2) -> str:
        """Resolution in years, for `INTERVAL`."""
        return f"YEAR({_leading(precision, 4, 'year')})"

    @staticmethod
    def MONTH() -> str:
        """Resolution in months, for `INTERVAL`."""
        return "MONTH"

    @staticmethod
    def DAY(precision: int = 2) -> str:
        """Resolution in days, for `INTERVAL`."""
        return f"DAY({_leading(precision, 6, 'day')})"

    @staticmethod
    def HOUR() -> str:
        """Resolution in hours, for `INTERVAL`."""
        return "HOUR"

    @staticmethod
    def MINUTE() -> str:
        """Resolution in minutes, for `INTERVAL`."""
        return "MINUTE"

    @staticmethod
    def SECOND(precision: int = 6) -> str:
        """Resolution in seconds with `precision` digits of fractions, for `INTERVAL`."""
        return f"SECOND({_fraction('Second', precision)})"

    @staticmethod
    def INTERVAL(upper_resolution: str, lower_resolution: str | None = None, nullable: bool = True) -> DataType:
        """A span of time: months (year-month) or milliseconds (day-time).

        Args:
            upper_resolution: the leading unit, e.g. `DataTypes.DAY()`.
            lower_resolution: the last unit; None: the same.
            nullable: whether NULL is a value of it.

        Raises:
            ValidationException: if the two units do not go together.
        """
        upper = upper_resolution.partition("(")[0]
        text = upper_resolution
        lower = upper
        if lower_resolution is not None:
            lower = lower_resolution.partition("(")[0]
            text = f"{upper_resolution} TO {lower_resolution}"
        for family, make in ((_YEAR_MONTH, t.interval_year_month), (_DAY_TIME, t.interval_day_time)):
            if upper in family and lower in family and family.index(upper) <= family.index(lower):
                return make(text).with_nullable(nullable)
        raise ValidationException(
            f"An interval from {upper_resolution} to {lower_resolution or upper_resolution} does not exist. "
            "It goes from YEAR to MONTH, or from one of DAY, HOUR, MINUTE, SECOND to the same or a later one."
        )

    # -- collections and composites ------------------------------------------------------------------------------

    @staticmethod
    def ARRAY(element_type: Any, nullable: bool = True) -> DataType:
        """A list."""
        return t.array(type_of(element_type, "the elements' type")).with_nullable(nullable)

    @staticmethod
    def LIST_VIEW(element_type: DataType) -> DataType:
        """A list in the accumulator of an aggregate function, kept in state."""
        return t.array(element_type)

    @staticmethod
    def MAP(key_type: Any, value_type: Any, nullable: bool = True) -> DataType:
        """A dict."""
        return t.map_of(type_of(key_type, "the keys' type"), type_of(value_type, "the values' type")).with_nullable(
            nullable
        )

    @staticmethod
    def MAP_VIEW(key_type: DataType, value_type: DataType) -> DataType:
        """A dict in the accumulator of an aggregate function, kept in state."""
        return t.map_of(key_type, value_type)

    @staticmethod
    def MULTISET(element_type: Any, nullable: bool = True) -> DataType:
        """A bag: a dict from element to its count."""
        return t.multiset(type_of(element_type, "the elements' type")).with_nullable(nullable)

    @staticmethod
    def FIELD(name: str, data_type: Any, description: str | None = None) -> Field:
        """A field of `ROW` or `STRUCTURED`; its type may be SQL text or a Python type, too."""
        return Field(name, type_of(data_type, f"the type of field {name}"), description)

    @staticmethod
    def ROW(row_fields: Sequence[Any] = (), nullable: bool = True) -> DataType:
        """A row of named fields; fields given as types only are named f0, f1 and so on."""
        return t.row(*_fields(row_fields)).with_nullable(nullable)

    @staticmethod
    def STRUCTURED(cls: type, row_fields: Sequence[Field], nullable: bool = True) -> DataType:
        """Objects of a class, with the fields that a table may read of them."""
        return t.structured(cls, _fields(row_fields)).with_nullable(nullable)

    @staticmethod
    def RAW(cls: type | None = None, nullable: bool = True) -> DataType:
        """Objects that a table passes on and never looks into."""
        return t.raw(cls).with_nullable(nullable)


def type_of(given: Any, what: str) -> DataType:
    """The type that a program declares: a DataType, SQL text, type information or a Python type.

    Raises:
        ValidationException: if no column can be of it.
    """
    if isinstance(given, DataType):
        return given
    if isinstance(given, str):
        return parse_data_type(given)
    return to_data_type(given, what)


def _fields(given: Sequence[Any]) -> tuple[Field, ...]:
    fields = [
        f if isinstance(f, Field) else Field(f"f{i}", type_of(f, f"the type of field {i + 1}"))
        for i, f in enumerate(given)
    ]
    names = [f.name for f in fields]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValidationException(f"Field names must be unique. Found duplicates: {twice}")
    return tuple(fields)


def _length(what: str, length: int) -> int:
    if not 1 <= length <= t.MAX_LENGTH:
        raise ValidationException(f"{what} length must be between 1 and {t.MAX_LENGTH} (both inclusive), not {length}.")
    return length


def _fraction(what: str, precision: int) -> int:
    if not 0 <= precision <= 9:
        raise ValidationException(f"{what} precision must be between 0 and 9 (both inclusive), not {precision}.")
    return precision


def _leading(precision: int, most: int, unit: str) -> int:
    if not 1 <= precision <= most:
        raise ValidationException(f"The precision of {unit}s must be between 1 and {most}, not {precision}.")
    return precision
