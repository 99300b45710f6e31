"""How a record of CSV is cut into fields and put together: delimiter, quotes, escapes. RFC 4180 where nothing is said.

A quote opens only at the beginning of a field; inside of quotes a doubled quote is one, and line ends are text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamline.errors import TableException, ValidationException

__all__ = ("CsvDialect", "MalformedRecord", "QuotedLines")

#: What an escaped letter stands for.
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


class MalformedRecord(ValueError):
    """Text that is no record of the dialect.

    Attributes:
        position: the number of the field, from 0.
    """

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.position = position


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """One way of writing CSV.

    Attributes:
        delimiter: between fields, one character.
        quote: around fields, or None: there are no quotes.
        escape: the character behind it is text (`n`, `r`, `t`, `0` are control characters), or None.
        comments: lines that begin with `#` are no records.
        trim: blanks around fields without quotes do not count.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comments: bool = False
    trim: bool = False

    def __post_init__(self) -> None:
        given = [c for c in (self.delimiter, self.quote, self.escape) if c is not None]
        if any(len(c) != 1 or c in "\r\n" for c in given):
            raise ValidationException("delimiter, quote and escape of CSV are single characters, and no line ends")
        if len(set(given)) < len(given):
            raise ValidationException("delimiter, quote and escape of CSV have to differ from each other")

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Whether the standard library's reader reads it too (with `reader`), and faster."""
        return self.escape is None and not self.trim

    def reader(self, records: Iterable[str]) -> Iterator[list[str]]:
        """Fields of records, fast; only where `is_plain`. What it refuses, `split` judges."""
        if self.quote is None:
            return (record.split(self.delimiter) for record in records)
        return csv.reader(records, delimiter=self.delimiter, quotechar=self.quote, strict=True)

    def is_comment(self, record: str) -> bool:
        """Whether this is a comment and no record."""
        return self.comments and record.startswith("#")

    def split(self, record: str) -> list[str]:
        """The fields of a record.

        Raises:
            MalformedRecord: a quote is never closed, or something stands behind a closed one.
        """
        delimiter, quote, escape = self.delimiter, self.quote, self.escape
        if (quote is None or quote not in record) and (escape is None or escape not in record):
            fields = record.split(delimiter)
            return [f.strip(" ") for f in fields] if self.trim else fields
        found: list[str] = []
        at = 0
        while True:
            start = at
            if self.trim:
                while record[start : start + 1] == " " != delimiter:
                    start += 1
            if quote is not None and record[start : start + 1] == quote:
                text, at = self._quoted(record, start + 1, len(found))
            else:
                text, at = self._unquoted(record, start)
            found.append(text)
            if at >= len(record):
                return found
            at += 1  # the delimiter
            if at == len(record):
                found.append("")
                return found

    def _quoted(self, record: str, at: int, position: int) -> tuple[str, int]:
        """The text that a quote before `at` opens, and where its field ends."""
        quote, escape = self.quote, self.escape
        assert quote is not None
        parts: list[str] = []
        while True:
            end = record.find(quote, at)
            escaped = record.find(escape, at) if escape is not None else -1
            if escaped >= 0 and (escaped < end or end < 0):
                parts += (record[at:escaped], self._unescaped(record[escaped + 1 : escaped + 2]))
                at = escaped + 2
                continue
            if end < 0:
                raise MalformedRecord("a quote is opened and never closed", position)
            parts.append(record[at:end])
            at = end + 1
            if record[at : at + 1] != quote:
                break
            parts.append(quote)
            at += 1
        while record[at : at + 1] == " " != self.delimiter:
            at += 1
        if at < len(record) and record[at] != self.delimiter:
            raise MalformedRecord(
                f"{record[at]!r} stands behind a closed quote, where {self.delimiter!r} or the end is expected",
                position,
            )
        return "".join(parts), at

    def _unquoted(self, record: str, at: int) -> tuple[str, int]:
        delimiter, escape = self.delimiter, self.escape
        parts: list[str] = []
        while True:
            end = record.find(delimiter, at)
            end = len(record) if end < 0 else end
            escaped = record.find(escape, at, end) if escape is not None else -1
            if escaped < 0:
                parts.append(record[at:end])
                text = "".join(parts)
                return text.strip(" ") if self.trim else text, end
            parts += (record[at:escaped], self._unescaped(record[escaped + 1 : escaped + 2]))
            at = escaped + 2

    @staticmethod
    def _unescaped(character: str) -> str:
        return _ESCAPED.get(character, character)

    # -- framing -------------------------------------------------------------------------------------------------

    def framing(self) -> QuotedLines | None:
        """Tells which lines are one record; None: every line is one."""
        return None if self.quote is None else QuotedLines(self)

    # -- writing -------------------------------------------------------------------------------------------------

    def join(self, fields: Sequence[str]) -> str:
        """The record of these fields.

        Raises:
            TableException: there are neither quotes nor escapes, and a field needs them.
        """
        record = self.delimiter.join(fields)
        if (
            record.count(self.delimiter) == len(fields) - 1
            and "\n" not in record
            and "\r" not in record
            and (self.quote is None or self.quote not in record)
            and (self.escape is None or self.escape not in record)
            and record
            and not (self.comments and record[0] == "#")
            and not (self.trim and " " in record)
        ):
            return record
        return self.delimiter.join([self._written(f, i, len(fields)) for i, f in enumerate(fields)])

    def _written(self, field: str, i: int, count: int) -> str:
        quote, escape, delimiter = self.quote, self.escape, self.delimiter
        special = delimiter in field or "\n" in field or "\r" in field
        special = special or (quote is not None and quote in field) or (escape is not None and escape in field)
        special = special or (not field and count == 1)  # else it is an empty line, which is no record
        special = special or (self.comments and i == 0 and field.startswith("#"))
        special = special or (self.trim and field != field.strip(" "))
        if not special:
            return field
        if quote is not None:
            if escape is not None:
                field = field.replace(escape, escape + escape).replace(quote, escape + quote)
            else:
                field = field.replace(quote, quote + quote)
            return f"{quote}{field}{quote}"
        if escape is not None:
            text = field.replace(escape, escape + escape).replace(delimiter, escape + delimiter)
            text = text.replace("\n", escape + "n").replace("\r", escape + "r")
            return escape + text if self.comments and i == 0 and text.startswith("#") else text
        if not field:
            return field
        raise TableException(
            f"{field!r} has a delimiter or line end in it, and this CSV has no quotes: allow them, or set an escape "
            "character ('csv.escape-character')"
        )


class QuotedLines:
    """Finds out where records of CSV end, of which quotes may hold line ends. Lines are without their ends."""

    def __init__(self, dialect: CsvDialect) -> None:
        quote, delimiter, escape = dialect.quote, dialect.delimiter, dialect.escape
        assert quote is not None
        self._quote: Final = quote.encode()
        self._delimiter: Final = delimiter.encode()
        self._inside: Final = _any_of(quote, escape)
        self._outside: Final = _any_of(delimiter, escape)
        self._trim: Final = dialect.trim and delimiter != " "
        self._comments: Final = dialect.comments
        #: Lines whose fields are all as they should be; what is not, `stays_open` looks at.
        self._plain: re.Pattern[bytes] | None = None
        if dialect.is_plain and len(self._quote) == len(self._delimiter) == 1:
            q, d = re.escape(self._quote), re.escape(self._delimiter)
            field = rb"(?:Q[^Q\n]*+(?:QQ[^Q\n]*+)*+Q|[^QD\n]*+)".replace(b"Q", q).replace(b"D", d)
            self._plain = re.compile(b"(?:" + field + b"(?:" + d + field + rb")*+\n)*+")

    def all_closed(self, lines: bytes) -> bool:
        """Whether it is plain to see that each of these whole lines is a record. False: it has to be looked at."""
        return self._quote not in lines or (self._plain is not None and self._plain.fullmatch(lines) is not None)

    def stays_open(self, line: bytes, opened: bool) -> bool:
        """Whether the next line begins inside of quotes; `opened`: this one does."""
        quote, delimiter = self._quote, self._delimiter
        if not opened and (quote not in line or (self._comments and line.startswith(b"#"))):
            return False
        at, at_start = 0, not opened
        while True:
            if at_start:
                while self._trim and line.startswith(b" ", at):
                    at += 1
                if line.startswith(quote, at):
                    at += len(quote)
                    opened = True
                at_start = False
            found = (self._inside if opened else self._outside).search(line, at)
            if found is None:
                return opened
            at = found.end()
            if opened and found[0] == quote:
                if line.startswith(quote, at):
                    at += len(quote)
                else:
                    opened = False
            elif not opened and found[0] == delimiter:
                at_start = True
            else:
                at += 1  # what the escape is for


def _any_of(*characters: str | None) -> re.Pattern[bytes]:
    return re.compile(b"|".join(re.escape(c.encode()) for c in characters if c is not None))
