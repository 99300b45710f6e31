"""Checks of results that are NOT NULL by type, but may fail to have a value."""

from __future__ import annotations

from typing import Any

from streamline._core.types import DataType
from streamline.errors import TableException
from streamline.table.expr.emitter import Emitter

__all__ = ("not_null", "required")


def required(value: Any, what: str) -> Any:
    """The value, which must not be None.

    Raises:
        TableException: if it is.
    """
    if value is None:
        raise TableException(
            f"{what} gave NULL for operands that are NOT NULL (a result out of range, or arguments out of range), "
            f"where its type is NOT NULL. Make an operand nullable, or use TRY_CAST, to get NULL instead."
        )
    return value


def not_null(em: Emitter, type_: DataType, text: str, name: str, fallible: bool) -> str:
    """`text`, checked where it may be None although the type says NOT NULL.

    Flink types such calls NOT NULL too, and fails where the NULL reaches a sink.
    """
    if type_.nullable or not fallible:
        return text
    return em.call(required, text, repr(name))
