"""CSV to rows of a table, field by field in the order of the columns.

Two ways to one result. The fast one: the standard library cuts the fields, and a generated loop converts them. What it
refuses the other one looks at field by field, and names the column of what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from streamline._core.types import Field
from streamline.connectors.formats.base import DeserializationException, excerpt
from streamline.connectors.formats.csv.dialect import CsvDialect, MalformedRecord
from streamline.connectors.formats.csv.options import CsvOptions
from streamline.connectors.formats.csv.values import parser_of

__all__ = ("CsvRowDecoder",)


class CsvRowDecoder:
    """Decodes the values of one table; see `RowDecoder`.

    Rows are Structs with the attributes `f0`, `f1`, … for the fields and one for each of `extras`. They hold the inner
    form, so every source is an attribute.
    """

    def __init__(self, options: CsvOptions, fields: Sequence[Field], extras: Sequence[str] = ()) -> None:
        names = [f"f{i}" for i in range(len(fields))]
        self.ignore_errors: Final = options.ignore_parse_errors
        self.sources: Final[Mapping[str, str]] = {f.name: f"r.{n}" for n, f in zip(names, fields)}
        self.namespace: Final[Mapping[str, Any]] = {}
        #: How records are cut out of a file.
        self.dialect: Final[CsvDialect] = options.dialect
        self._options = options
        self._fields = list(fields)
        definition: list[Any] = [(n, Any, None) for n in (*names, *extras)]
        # Rows are many, short-lived and hold no cycles: they need not be looked at by the collector.
        self.row_class: Final[Any] = msgspec.defstruct("Row", definition, gc=False)
        self._parsers = [parser_of(f.type, options) for f in fields]
        self._convert = _conversion_loop(self.row_class, self._parsers, options)

    def decode(self, values: Sequence[bytes]) -> list[Any]:
        """Rows of values, fast; see `RowDecoder.decode`."""
        dialect = self.dialect
        if not dialect.is_plain:
            raise ValueError("only the other way reads this dialect")
        records = [v.decode().rstrip("\r\n") for v in values]
        if "" in records or (dialect.comments and any(r.startswith("#") for r in records)):
            raise ValueError("empty lines and comments are no rows")
        rows = self._convert(dialect.reader(records))
        if len(rows) != len(values):
            raise ValueError("an open quote has joined records")
        return rows

    def empty(self) -> Any:
        """A row of NULLs; see `RowDecoder.empty`."""
        return self.row_class()

    def decode_one(self, value: bytes) -> Any:
        """The row of one value; see `RowDecoder.decode_one`."""
        try:
            return self.decode((value,))[0]
        except Exception:  # whatever the fast way does not like, the other one judges
            return self._judged(value)

    def _judged(self, value: bytes) -> Any:
        try:
            record = value.decode().rstrip("\r\n")
        except UnicodeDecodeError as e:
            raise self._error(value, f"it is no UTF-8: {e.reason} at byte {e.start}", None) from None
        if not record or self.dialect.is_comment(record):
            return None
        try:
            texts = self.dialect.split(record)
        except MalformedRecord as e:
            raise self._error(value, f"field {e.position + 1}: {e}", self._name(e.position)) from None
        return self.row_class(*[self._value(value, i, text) for i, text in enumerate(self._fitted(value, texts))])

    def _fitted(self, value: bytes, texts: list[str]) -> Sequence[str | None]:
        """The texts of exactly the columns; None for a column that is missing."""
        options, expected = self._options, len(self._fields)
        if len(texts) > expected:
            trailing_comma = len(texts) == expected + 1 and not texts[-1]
            if options.ignore_trailing or (options.trailing_comma and trailing_comma):
                return texts[:expected]
            advice = (
                "" if not trailing_comma else " ('csv.allow-trailing-comma' = 'true' allows the delimiter at the end)"
            )
            raise self._error(value, f"it has {len(texts)} fields, and the table has {expected} columns{advice}", None)
        if len(texts) < expected:
            if options.fail_on_missing or not options.ignore_parse_errors:
                missing = self._fields[len(texts)].name
                reason = f"it has {len(texts)} fields, and the table has {expected} columns: '{missing}' is missing"
                raise self._error(value, reason, missing)
            return [*texts, *[None] * (expected - len(texts))]
        return texts

    def _value(self, value: bytes, i: int, text: str | None) -> Any:
        options = self._options
        if text is None or text == options.null_literal or (options.empty_as_null and not text):
            return None
        parse = self._parsers[i]
        if parse is None:
            return text
        try:
            found = parse(text)
        except (LookupError, ValueError, ArithmeticError) as e:
            if options.ignore_parse_errors:
                return None
            field = self._fields[i]
            detail = f" ({e})" if field.type.is_temporal or field.type.root in ("ROW", "ARRAY") else ""
            hint = "" if text else "; 'csv.empty-string-as-null' = 'true' reads an empty text as NULL"
            shown = excerpt(text.encode(), 60)
            reason = (
                f"column '{field.name}' is {field.type.summary(short=True)}, but the text is '{shown}'{detail}{hint}"
            )
            raise self._error(value, reason, field.name) from None
        return found

    def _name(self, position: int) -> str | None:
        return self._fields[position].name if position < len(self._fields) else None

    @staticmethod
    def _error(value: bytes, reason: str, column: str | None) -> DeserializationException:
        return DeserializationException(
            f"Failed to deserialize CSV row '{excerpt(value)}': {reason}. "
            "Set 'csv.ignore-parse-errors' = 'true' to skip and count such records.",
            value=value,
            column=column,
        )


def _conversion_loop(
    row_class: Any, parsers: Sequence[Callable[[str], Any] | None], options: CsvOptions
) -> Callable[[Any], list[Any]]:
    """One loop over the fields of a batch that makes rows; what does not fit raises."""
    nulls = [f"{{a}} == {options.null_literal!r}"] if options.null_literal is not None else []
    if options.empty_as_null:
        nulls.append("not {a}")
    arguments, namespace = [], {"Row": row_class}
    for i, parse in enumerate(parsers):
        text = f"a{i}"
        value = text if parse is None else f"p{i}({text})"
        if parse is not None:
            namespace[f"p{i}"] = parse
        is_null = " or ".join(nulls).format(a=text) if nulls else ""
        arguments.append(f"None if {is_null} else {value}" if is_null else value)
    targets = ", ".join(f"a{i}" for i in range(len(parsers)))
    lines = [
        "def convert(records):",
        "    rows = []",
        "    append = rows.append",
        f"    for [{targets}] in records:",
        f"        append(Row({', '.join(arguments)}))",
        "    return rows",
    ]
    exec(compile("\n".join(lines), "<csv conversion>", "exec"), namespace)
    return namespace["convert"]  # type: ignore[no-any-return]
