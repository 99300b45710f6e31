"""Python types of values in the inner form, by which state is decoded from a checkpoint."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from streamline._core.types import DataType
from streamline._operators.state_types import dict_of, list_of, optional, tuple_of

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
}


def state_type(type_: DataType) -> Any:
    """The type of a value in the inner form."""
    if type_.root == "NULL":
        return type(None)
    found: Any = _ROOTS.get(type_.root)
    if found is None:
        if type_.root == "ARRAY" and type_.element is not None:
            found = list_of(state_type(type_.element))
        elif type_.root == "MULTISET" and type_.element is not None:
            found = dict_of(state_type(type_.element), int)
        elif type_.root == "MAP" and type_.key is not None and type_.element is not None:
            found = dict_of(state_type(type_.key), state_type(type_.element))
        elif type_.is_composite:
            found = row_type(tuple(f.type for f in type_.fields))
        else:
            return Any
    return optional(found) if type_.nullable else found


def row_type(types: tuple[DataType, ...]) -> Any:
    """The type of a row of such values."""
    return tuple_of(*map(state_type, types))
