"""The one type system: Flink's logical types.

A `DataType` is an immutable value; its text is Flink's (`VARCHAR(2147483647)`, `TIMESTAMP(3) WITH LOCAL TIME ZONE`).

How values of each type look *inside* table operators (users see Python's own types at the borders):

| type | inside | at the borders |
|---|---|---|
| BOOLEAN, integers, FLOAT, DOUBLE | bool, int, float | the same |
| DECIMAL | decimal.Decimal with exactly `scale` digits | decimal.Decimal |
| CHAR, VARCHAR · BINARY, VARBINARY | str · bytes | the same |
| DATE · TIME | int days since 1970-01-01 · int milliseconds of the day | date · time |
| TIMESTAMP, TIMESTAMP_LTZ | int nanoseconds since 1970-01-01T00:00 (UTC for LTZ) | naive · aware (UTC) datetime |
| INTERVAL day-time · year-month | int milliseconds · int months | timedelta · int |
| ARRAY, MAP, MULTISET | list, dict, dict of counts | the same |
| ROW | tuple | Row, or the class that was asked for |
| STRUCTURED | tuple | its class |
| RAW | the object | the object |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

__all__ = ("MAX_LENGTH", "DataType", "Field", "TimeAttribute")

#: The length of STRING and BYTES.
MAX_LENGTH: Final = 2147483647

INTEGERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
NUMERICS: Final = frozenset((*INTEGERS, "DECIMAL", "FLOAT", "DOUBLE"))
#: Number of bits of each integer type.
INTEGER_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


@dataclass(frozen=True, slots=True)
class Field:
    """A named component of a ROW or STRUCTURED type."""

    name: str
    type: DataType
    description: str | None = None


#: The role of a time column: "rowtime", "proctime", or None where it is an ordinary column.
TimeAttribute = str | None


@dataclass(frozen=True, slots=True)
class DataType:
    """A logical type.

    Attributes:
        root: BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL CHAR VARCHAR BINARY VARBINARY DATE TIME TIMESTAMP
            TIMESTAMP_LTZ INTERVAL_DAY_TIME INTERVAL_YEAR_MONTH ARRAY MAP MULTISET ROW STRUCTURED RAW NULL SYMBOL
            DESCRIPTOR VARIANT.
        nullable: whether NULL is a value of it.
        length: of CHAR, VARCHAR, BINARY, VARBINARY; the leading-field precision of intervals.
        precision, scale: of DECIMAL; `precision` is the number of fractional digits of TIME, TIMESTAMP and intervals.
        element: of ARRAY and MULTISET; the value type of MAP.
        key: of MAP.
        fields: of ROW and STRUCTURED.
        cls: the Python class of STRUCTURED and RAW.
        resolution: of intervals, e.g. "DAY TO SECOND", as Flink prints it.
        time_attribute: "rowtime" or "proctime" where the column drives event or processing time.
    """

    root: str
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    element: DataType | None = None
    key: DataType | None = None
    fields: tuple[Field, ...] = ()
    cls: Any = None
    resolution: str = ""
    time_attribute: TimeAttribute = None

    # -- questions -----------------------------------------------------------------------------------------------

    @property
    def is_integer(self) -> bool:
        return self.root in INTEGER_BITS

    @property
    def is_numeric(self) -> bool:
        return self.root in NUMERICS

    @property
    def is_approximate(self) -> bool:
        return self.root in ("FLOAT", "DOUBLE")

    @property
    def is_character(self) -> bool:
        return self.root in ("CHAR", "VARCHAR")

    @property
    def is_binary(self) -> bool:
        return self.root in ("BINARY", "VARBINARY")

    @property
    def is_timestamp(self) -> bool:
        return self.root in ("TIMESTAMP", "TIMESTAMP_LTZ")

    @property
    def is_temporal(self) -> bool:
        return self.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")

    @property
    def is_interval(self) -> bool:
        return self.root in ("INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH")

    @property
    def is_composite(self) -> bool:
        return self.root in ("ROW", "STRUCTURED")

    @property
    def is_rowtime(self) -> bool:
        return self.time_attribute == "rowtime"

    @property
    def is_proctime(self) -> bool:
        return self.time_attribute == "proctime"

    # -- variants ------------------------------------------------------------------------------------------------

    def not_null(self) -> DataType:
        """The same type without NULL."""
        return self if not self.nullable else replace(self, nullable=False)

    def null(self) -> DataType:
        """The same type with NULL."""
        return self if self.nullable else replace(self, nullable=True)

    def with_nullable(self, nullable: bool) -> DataType:
        """The same type, nullable or not."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def materialized(self) -> DataType:
        """The same type as an ordinary column: no time attribute."""
        return self if self.time_attribute is None else replace(self, time_attribute=None)

    def as_time_attribute(self, kind: TimeAttribute) -> DataType:
        """The same type as a time attribute."""
        return replace(self, time_attribute=kind)

    def same_type(self, other: DataType) -> bool:
        """Whether both are one type, nullability and time attributes aside."""
        return self.null().materialized() == other.null().materialized()

    # -- text ----------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return self.summary()

    def summary(self, short: bool = False, time_attributes: bool = False) -> str:
        """Flink's text of the type; `short` writes STRING, BYTES and TIMESTAMP_LTZ where that is the same type."""
        text = self._body(short)
        if time_attributes and self.time_attribute:
            text += f" *{self.time_attribute.upper()}*"
        return text if self.nullable else text + " NOT NULL"

    def _body(self, short: bool) -> str:
        match self.root:
            case "VARCHAR" if short and self.length == MAX_LENGTH:
                return "STRING"
            case "VARBINARY" if short and self.length == MAX_LENGTH:
                return "BYTES"
            case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
                return f"{self.root}({self.length})"
            case "DECIMAL":
                return f"DECIMAL({self.precision}, {self.scale})"
            case "TIME" | "TIMESTAMP":
                return f"{self.root}({self.precision})"
            case "TIMESTAMP_LTZ":
                p = self.precision
                return f"TIMESTAMP_LTZ({p})" if short else f"TIMESTAMP({p}) WITH LOCAL TIME ZONE"
            case "INTERVAL_DAY_TIME" | "INTERVAL_YEAR_MONTH":
                return f"INTERVAL {self.resolution}"
            case "ARRAY" | "MULTISET":
                assert self.element is not None
                return f"{self.root}<{self.element.summary(short)}>"
            case "MAP":
                assert self.key is not None and self.element is not None
                return f"MAP<{self.key.summary(short)}, {self.element.summary(short)}>"
            case "ROW":
                return f"ROW<{self._fields_text(short)}>"
            case "STRUCTURED":
                return f"STRUCTURED<'{_class_name(self.cls)}', {self._fields_text(short)}>"
            case "RAW":
                return f"RAW('{_class_name(self.cls)}', ?)"
            case root:
                return root

    def _fields_text(self, short: bool) -> str:
        return ", ".join(f"`{f.name}` {f.type.summary(short)}" for f in self.fields)


def _class_name(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}" if isinstance(cls, type) else str(cls or "java.lang.Object")


# -- the types by name; DataTypes (streamline.table) is the public way to make them ---------------------------------

BOOLEAN: Final = DataType("BOOLEAN")
TINYINT: Final = DataType("TINYINT")
SMALLINT: Final = DataType("SMALLINT")
INT: Final = DataType("INT")
BIGINT: Final = DataType("BIGINT")
FLOAT: Final = DataType("FLOAT")
DOUBLE: Final = DataType("DOUBLE")
STRING: Final = DataType("VARCHAR", length=MAX_LENGTH)
BYTES: Final = DataType("VARBINARY", length=MAX_LENGTH)
DATE: Final = DataType("DATE")
NULL: Final = DataType("NULL")


def char(length: int = 1) -> DataType:
    return DataType("CHAR", length=length)


def varchar(length: int) -> DataType:
    return DataType("VARCHAR", length=length)


def binary(length: int = 1) -> DataType:
    return DataType("BINARY", length=length)


def varbinary(length: int) -> DataType:
    return DataType("VARBINARY", length=length)


def decimal(precision: int = 10, scale: int = 0) -> DataType:
    return DataType("DECIMAL", precision=precision, scale=scale)


def time(precision: int = 0) -> DataType:
    return DataType("TIME", precision=precision)


def timestamp(precision: int = 6) -> DataType:
    return DataType("TIMESTAMP", precision=precision)


def timestamp_ltz(precision: int = 6) -> DataType:
    return DataType("TIMESTAMP_LTZ", precision=precision)


def interval_day_time(resolution: str = "SECOND(3)") -> DataType:
    return DataType("INTERVAL_DAY_TIME", resolution=resolution)


def interval_year_month(resolution: str = "MONTH") -> DataType:
    return DataType("INTERVAL_YEAR_MONTH", resolution=resolution)


def array(element: DataType) -> DataType:
    return DataType("ARRAY", element=element)


def multiset(element: DataType) -> DataType:
    return DataType("MULTISET", element=element)


def map_of(key: DataType, value: DataType) -> DataType:
    return DataType("MAP", key=key, element=value)


def row(*fields: Field) -> DataType:
    return DataType("ROW", fields=tuple(fields))


def structured(cls: Any, fields: tuple[Field, ...]) -> DataType:
    return DataType("STRUCTURED", cls=cls, fields=fields)


def raw(cls: Any = None) -> DataType:
    return DataType("RAW", cls=cls)
