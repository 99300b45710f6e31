"""VARIANT: a value that brings its own type, as JSON has it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from streamline.errors import TableException
from streamline.table.expr.coercion import MAX_PRECISION
from streamline.table.expr.runtime.casts import double_text
from streamline.table.expr.runtime.json import RawJson, dumps, parse

__all__ = ("Variant", "parse_variant", "try_parse_variant")


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A parsed JSON value; null is a value too, unlike NULL.

    Attributes:
        value: dict, list, str, int, Decimal, float, bool or None.
    """

    value: Any

    def item(self, key: str | int) -> Variant | None:
        """The field of a name, or the element in a place counted from 1; None where there is none."""
        if isinstance(key, str):
            if isinstance(self.value, dict) and key in self.value:
                return Variant(self.value[key])
        elif isinstance(self.value, list) and 0 < key <= len(self.value):
            return Variant(self.value[key - 1])
        return None

    def __str__(self) -> str:
        return dumps(_shown(self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variant) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _shown(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_shown(v) for v in value]
    return RawJson(double_text(value)) if isinstance(value, float) else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"Unrecognized token '{name}'")


def _number(text: str) -> Decimal | float:
    """DECIMAL without zeros at its end; DOUBLE where there is an exponent, or are too many digits."""
    number = Decimal(text)
    if "e" in text.lower() or len(number.as_tuple().digits) > MAX_PRECISION:
        return float(number)
    return Decimal(f"{number:f}".rstrip("0").rstrip(".")) if number else Decimal(0)


def _integer(text: str) -> int | float:
    return int(text) if len(text.lstrip("-")) <= MAX_PRECISION else float(text)


def parse_variant(text: str, duplicates: bool = False) -> Variant:
    """JSON text as a VARIANT.

    Args:
        text: JSON.
        duplicates: whether a key may stand twice in an object; then the last one holds.

    Raises:
        TableException: if it is not JSON.
    """
    hook = None if duplicates else _unique
    try:
        decoder = json.JSONDecoder(
            parse_float=_number, parse_int=_integer, parse_constant=_refuse, object_pairs_hook=hook
        )
        return Variant(parse(text, decoder))
    except (ValueError, RecursionError) as e:
        raise TableException(f"Failed to parse JSON string: {e}: '{text}'") from None


def try_parse_variant(text: str, duplicates: bool = False) -> Variant | None:
    """JSON text as a VARIANT, None where it is not JSON."""
    try:
        return parse_variant(text, duplicates)
    except TableException:
        return None
