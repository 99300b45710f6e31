"""The options of the format csv (in WITH they begin with `csv.`)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, Final

from streamline.connectors.formats.csv.dialect import CsvDialect
from streamline.connectors.options import Option, Options, boolean, text
from streamline.errors import ValidationException

__all__ = ("OPTIONS", "CsvOptions")

_FIELD_DELIMITER: Final = text("field-delimiter", ",")
_DISABLE_QUOTES: Final = boolean("disable-quote-character")
_QUOTE: Final = text("quote-character", '"')
_ALLOW_COMMENTS: Final = boolean("allow-comments")
_IGNORE_PARSE_ERRORS: Final = boolean("ignore-parse-errors")
_ARRAY_DELIMITER: Final = text("array-element-delimiter", ";")
_ESCAPE: Final = text("escape-character")
_NULL_LITERAL: Final = text("null-literal")
_SCIENTIFIC: Final = boolean("write-bigdecimal-in-scientific-notation", True)
_TRIM_SPACES: Final = boolean("trim-spaces")
_IGNORE_TRAILING: Final = boolean("ignore-trailing-unmappable")
_TRAILING_COMMA: Final = boolean("allow-trailing-comma")
_FAIL_ON_MISSING: Final = boolean("fail-on-missing-columns")
_EMPTY_AS_NULL: Final = boolean("empty-string-as-null")

OPTIONS: Final[tuple[Option[Any], ...]] = (
    _FIELD_DELIMITER,
    _DISABLE_QUOTES,
    _QUOTE,
    _ALLOW_COMMENTS,
    _IGNORE_PARSE_ERRORS,
    _ARRAY_DELIMITER,
    _ESCAPE,
    _NULL_LITERAL,
    _SCIENTIFIC,
    _TRIM_SPACES,
    _IGNORE_TRAILING,
    _TRAILING_COMMA,
    _FAIL_ON_MISSING,
    _EMPTY_AS_NULL,
)

#: What a backslash and a letter stand for, as in Java's texts.
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"'}


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The options with their values."""

    dialect: CsvDialect = field(default_factory=CsvDialect)
    ignore_parse_errors: bool = False
    array_delimiter: str = ";"
    null_literal: str | None = None
    scientific: bool = True
    ignore_trailing: bool = False
    trailing_comma: bool = False
    fail_on_missing: bool = False
    empty_as_null: bool = False

    @classmethod
    def of(cls, options: Options) -> CsvOptions:
        """Read from the options of a table.

        Raises:
            ValidationException: a delimiter is not one character, or options contradict each other.
        """
        if options.has(_QUOTE) and options.get(_DISABLE_QUOTES):
            raise ValidationException(
                "Format cannot define a quote character and disabled quote character at the same time."
            )
        quote = None if options.get(_DISABLE_QUOTES) else _character(_QUOTE, options.get(_QUOTE))
        escape = options.get(_ESCAPE)
        return cls(
            dialect=CsvDialect(
                delimiter=_character(_FIELD_DELIMITER, options.get(_FIELD_DELIMITER)),
                quote=quote,
                escape=None if escape is None else _character(_ESCAPE, escape),
                comments=options.get(_ALLOW_COMMENTS),
                trim=options.get(_TRIM_SPACES),
            ),
            ignore_parse_errors=options.get(_IGNORE_PARSE_ERRORS),
            array_delimiter=options.get(_ARRAY_DELIMITER),
            null_literal=options.get(_NULL_LITERAL),
            scientific=options.get(_SCIENTIFIC),
            ignore_trailing=options.get(_IGNORE_TRAILING),
            trailing_comma=options.get(_TRAILING_COMMA),
            fail_on_missing=options.get(_FAIL_ON_MISSING),
            empty_as_null=options.get(_EMPTY_AS_NULL),
        )


def _character(option: Option[Any], value: str) -> str:
    r"""One character, which may be written as `\t` or `\u0001`."""
    found = value
    if len(value) == 2 and value[0] == "\\":
        found = _ESCAPES.get(value[1], value)
    elif len(value) == 6 and value.startswith("\\u"):
        with contextlib.suppress(ValueError):
            found = chr(int(value[2:], 16))
    if len(found) != 1:
        raise ValidationException(f"Option 'csv.{option.key}' must be a string with single character, but was: {value}")
    return found
