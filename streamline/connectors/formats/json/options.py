"""The options of the format json (in WITH they begin with `json.`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from streamline.connectors.options import Option, Options, boolean, choice, text

__all__ = ("OPTIONS", "JsonOptions")

_FAIL_ON_MISSING_FIELD: Final = boolean("fail-on-missing-field")
_IGNORE_PARSE_ERRORS: Final = boolean("ignore-parse-errors")
_TIMESTAMP_FORMAT: Final = choice("timestamp-format.standard", ("SQL", "ISO-8601"), "SQL")
_MAP_NULL_KEY_MODE: Final = choice("map-null-key.mode", ("FAIL", "DROP", "LITERAL"), "FAIL")
_MAP_NULL_KEY_LITERAL: Final = text("map-null-key.literal", "null")
_PLAIN_DECIMALS: Final = boolean("encode.decimal-as-plain-number")
_IGNORE_NULL_FIELDS: Final = boolean("encode.ignore-null-fields")
#: Flink chooses between two parsers by it; here it has no effect.
_PARSER: Final = boolean("decode.json-parser.enabled", True)

OPTIONS: Final[tuple[Option[Any], ...]] = (
    _FAIL_ON_MISSING_FIELD,
    _IGNORE_PARSE_ERRORS,
    _TIMESTAMP_FORMAT,
    _MAP_NULL_KEY_MODE,
    _MAP_NULL_KEY_LITERAL,
    _PLAIN_DECIMALS,
    _IGNORE_NULL_FIELDS,
    _PARSER,
)


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """The options with their values."""

    fail_on_missing_field: bool = False
    ignore_parse_errors: bool = False
    #: Between date and time: a blank (SQL) or `T` (ISO-8601).
    separator: str = " "
    map_null_key_mode: str = "FAIL"
    map_null_key_literal: str = "null"
    plain_decimals: bool = False
    ignore_null_fields: bool = False

    @classmethod
    def of(cls, options: Options) -> JsonOptions:
        """Read from the options of a table."""
        options.get(_PARSER)
        return cls(
            fail_on_missing_field=options.get(_FAIL_ON_MISSING_FIELD),
            ignore_parse_errors=options.get(_IGNORE_PARSE_ERRORS),
            separator=" " if options.get(_TIMESTAMP_FORMAT) == "SQL" else "T",
            map_null_key_mode=options.get(_MAP_NULL_KEY_MODE),
            map_null_key_literal=options.get(_MAP_NULL_KEY_LITERAL),
            plain_decimals=options.get(_PLAIN_DECIMALS),
            ignore_null_fields=options.get(_IGNORE_NULL_FIELDS),
        )
