"""Python types of values in the inner form, by which state is decoded from a checkpoint."""

from __future__ import annotations

import typing
from decimal import Decimal
from typing import Any, Final

from streamline._core.types import DataType

__all__ = ("row_type", "state_type")

_ROOTS: Final[dict[str, Any]] = {
    "BOOLEAN": bool,
    "TINYINT": int,
    "SMALLINT": int,
    "INT": int,
    "BIGINT": int,
    "FLOAT": float,
    "DOUBLE": float,
    "DECIMAL": Decimal,
    "CHAR": str,
    "VARCHAR": str,
    "BINARY": bytes,
    "VARBINARY": bytes,
    "DATE": int,
    "TIME": int,
    "TIMESTAMP": int,
    "TIMESTAMP_LTZ": int,
    "INTERVAL_DAY_TIME": int,
    "INTERVAL_YEAR_MONTH": int,
    "NULL": type(None),
}


def state_type(type_: DataType) -> Any:
    """The type of a value in the inner form."""
    found: Any = _ROOTS.get(type_.root)
    if found is None:
        if type_.root == "ARRAY" and type_.element is not None:
            found = list[state_type(type_.element)]  # type: ignore[misc]
        elif type_.root == "MULTISET" and type_.element is not None:
            found = dict[state_type(type_.element), int]  # type: ignore[misc]
        elif type_.root == "MAP" and type_.key is not None and type_.element is not None:
            found = dict[state_type(type_.key), state_type(type_.element)]  # type: ignore[misc]
        elif type_.is_composite:
            found = row_type(tuple(f.type for f in type_.fields))
        else:
            return Any
    return typing.Optional[found] if type_.nullable else found  # noqa: UP045 (found is a run-time value)


def row_type(types: tuple[DataType, ...]) -> Any:
    """The type of a row of such values."""
    return tuple[tuple(map(state_type, types))] if types else tuple[()]  # type: ignore[misc]
