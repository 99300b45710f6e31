"""Data types as they are written: `DECIMAL(10, 2) NOT NULL`, `ROW<a INT, b MAP<STRING, INT>>`, `INT ARRAY`."""

from __future__ import annotations

from streamline._core import types
from streamline._core.types import MAX_LENGTH, DataType, Field
from streamline.table.parse.cursor import Cursor
from streamline.table.parse.intervals import ENDS, UNITS, Qualifier

__all__ = ("TypeParser",)

_SIMPLE = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TINYINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INT,
    "INTEGER": types.INT,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FLOAT,
    "REAL": types.FLOAT,
    "STRING": types.STRING,
    "BYTES": types.BYTES,
    "DATE": types.DATE,
    "VARIANT": DataType("VARIANT"),
}
_MAX_PRECISION = 38
_MAX_FRACTION = 9


class TypeParser(Cursor):
    """Reads types.

    In SQL text a precision beyond the maximum means the maximum, as Flink's planner has it. Types in a Schema
    (`strict_types`) are taken at their word: what does not exist is refused.
    """

    strict_types = False

    def data_type(self, top: bool = True, intervals: bool = True) -> DataType:
        """A type with [NOT] NULL after it, unless it is that of a CAST (`top` False)."""
        self.deeper()
        start = self.at
        made = self._plain_type(intervals)
        while True:
            nullable = self._nullability() if top or self.next_are("NULL", "ARRAY") else None
            if nullable is not None:
                made = made.with_nullable(nullable)
            if self.take("ARRAY"):
                made = types.array(made)
            elif self.take("MULTISET"):
                made = types.multiset(made)
            else:
                break
        self._check(made, start)
        self.depth -= 1
        return made

    def _nullability(self) -> bool | None:
        if self.take("NOT", "NULL"):
            return False
        return True if self.take("NULL") else None

    def _plain_type(self, intervals: bool) -> DataType:
        token = self.token
        key = token.key if token.kind == "word" else ""
        if key in _SIMPLE:
            self.at += 1
            return _SIMPLE[key]
        match key:
            case "DOUBLE":
                self.at += 1
                self.take("PRECISION")
                return types.DOUBLE
            case "CHAR" | "CHARACTER" | "VARCHAR" | "BINARY" | "VARBINARY":
                return self._sized(key)
            case "DECIMAL" | "DEC" | "NUMERIC":
                return self._decimal()
            case "TIME" | "TIMESTAMP" | "TIMESTAMP_LTZ":
                return self._temporal(key)
            case "INTERVAL" if intervals:
                self.at += 1
                return interval_type(self.qualifier(), exact=self.strict_types)
            case "ARRAY" | "MULTISET":
                self.at += 1
                self.need("<")
                element = self.data_type()
                self.need(">")
                return types.array(element) if key == "ARRAY" else types.multiset(element)
            case "MAP" if self.ahead(1).key == "<":
                self.at += 2
                of = self.data_type()
                self.need(",")
                value = self.data_type()
                self.need(">")
                return types.map_of(of, value)
            case "ROW":
                return self._row()
            case "STRUCTURED":
                return self._structured()
            case "RAW":
                self.at += 1
                self.need("(")
                cls = self.string()
                self.need(",")
                self.string()
                self.need(")")
                return types.raw(cls)
            case "NULL" if self.strict_types:
                self.at += 1
                return types.NULL
            case "BITMAP":
                self.at += 1
                self.refuse(self.at - 1, "The type BITMAP is not supported.")
        self._wanted("a data type")
        if not self.at_name():
            self.fail()
        start = self.at
        path = self.path()
        return self.refuse(start, f"Unknown identifier '{'.'.join(path)}': no data type of that name.")

    def _sized(self, key: str) -> DataType:
        self.at += 1
        if key in ("CHAR", "CHARACTER", "BINARY") and self.take("VARYING"):
            key = "VARBINARY" if key == "BINARY" else "VARCHAR"
        root = "CHAR" if key == "CHARACTER" else key
        length = 1
        if self.take("("):
            # A column of VARCHAR without length holds one character in Flink, too.
            length = self.integer()
            self.need(")")
        if root in ("CHAR", "VARCHAR") and self.take("CHARACTER", "SET"):
            self.name()
        return DataType(root, length=min(length, MAX_LENGTH))

    def _decimal(self) -> DataType:
        self.at += 1
        precision, scale = 10, 0
        if self.take("("):
            precision = self.integer()
            if self.take(","):
                scale = self.integer()
            self.need(")")
        if not self.strict_types:
            precision = min(precision, _MAX_PRECISION)
        return types.decimal(precision, scale)

    def _temporal(self, key: str) -> DataType:
        self.at += 1
        precision = 0 if key == "TIME" else 6
        if self.take("("):
            precision = self.integer()
            self.need(")")
        if not self.strict_types:
            precision = min(precision, _MAX_FRACTION)
        if key != "TIMESTAMP_LTZ":
            if self.take("WITHOUT"):
                self.need("TIME", "ZONE")
            elif self.token.key == "WITH":
                start = self.at
                self.need("WITH", "LOCAL", "TIME", "ZONE")
                if key == "TIME":
                    self.refuse(start, "TIME WITH LOCAL TIME ZONE is not supported.")
                key = "TIMESTAMP_LTZ"
        return DataType(key, precision=precision)

    def _row(self) -> DataType:
        self.at += 1
        if self.take("<>"):
            return types.row()
        close = {"<": ">", "(": ")"}[self.need_one("<", "(")]
        return types.row(*self._fields(close))

    def _structured(self) -> DataType:
        self.at += 1
        self.need("<")
        cls = self.string()
        self.need(",")
        return types.structured(cls, self._fields(">"))

    def _fields(self, close: str) -> tuple[Field, ...]:
        fields: list[Field] = []
        if not self.take(close):
            fields = self.comma_list(self._field)
            self.need(close)
        return tuple(fields)

    def _field(self) -> Field:
        name = self.name()
        return Field(name, self.data_type(), self.take_string())

    def _check(self, made: DataType, start: int) -> None:
        """Refuse a type that does not exist."""
        if made.root == "DECIMAL":
            if not 1 <= made.precision <= _MAX_PRECISION:
                self.refuse(start, "Decimal precision must be between 1 and 38 (both inclusive).")
            if not 0 <= made.scale <= made.precision:
                self.refuse(
                    start, f"Decimal scale must be between 0 and the precision {made.precision} (both inclusive)."
                )
        elif self.strict_types:
            if made.root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY") and made.length < 1:
                self.refuse(start, f"The length of {made.root} must be between 1 and {MAX_LENGTH} (both inclusive).")
            if made.root in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ") and made.precision > _MAX_FRACTION:
                self.refuse(start, f"The precision of {made.root} must be between 0 and 9 (both inclusive).")

    # -- interval qualifiers ---------------------------------------------------------------------------------------

    def qualifier(self) -> Qualifier:
        """`DAY(3) TO SECOND(2)`."""
        if self.token.key not in UNITS:
            self._wanted("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
            self.fail()
        unit = UNITS[self.advance().key]
        precision = fraction = None
        if unit not in ("WEEK", "QUARTER") and self.take("("):
            precision = self.integer()
            if unit == "SECOND" and self.take(","):
                fraction = self.integer()
            self.need(")")
        end = None
        if unit in ENDS and self.take("TO"):
            end = UNITS[self.need_one(*(name for name, u in UNITS.items() if u in ENDS[unit]))]
            if end == "SECOND" and self.take("("):
                fraction = self.integer()
                self.need(")")
        return Qualifier(unit, end, precision, fraction)


def interval_type(q: Qualifier, exact: bool = False) -> DataType:
    """The type of an interval: as written where `exact`, else the one type that its family has in queries."""
    if not exact:
        return types.interval_year_month() if q.year_month else types.interval_day_time()
    fraction = q.fraction if q.fraction is not None else 6
    text = q.start
    if q.start == "SECOND":
        text = f"SECOND({fraction})"
    elif q.start in ("YEAR", "DAY"):
        text += f"({2 if q.precision is None else q.precision})"
    if q.end is not None:
        text += f" TO {q.end}" + (f"({fraction})" if q.end == "SECOND" else "")
    return types.interval_year_month(text) if q.year_month else types.interval_day_time(text)
