"""Rows of a table to CSV: the planner's generated projection builds a tuple of texts, and they are joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from streamline._core.types import Field
from streamline.connectors.formats.csv.options import CsvOptions
from streamline.connectors.formats.csv.values import writer_of

__all__ = ("CsvRowEncoder",)


class CsvRowEncoder:
    """Encodes the rows of one table; see `RowEncoder`. NULL is the null literal, by default nothing."""

    def __init__(self, options: CsvOptions, fields: Sequence[Field]) -> None:
        null = options.null_literal or ""
        namespace: dict[str, Any] = {"csv_null": null}
        texts = []
        for i, f in enumerate(fields):
            write = writer_of(f.type, options)
            if write is None:
                texts.append(f"(csv_null if (t{i} := {{{i}}}) is None else t{i})")
            else:
                namespace[f"csv_{i}"] = _or_null(write, null)
                texts.append(f"csv_{i}({{{i}}})")
        self.template: Final = f"({', '.join(texts)},)"
        self.namespace: Final[Mapping[str, Any]] = namespace
        join = options.dialect.join
        self.encode: Final[Callable[[Any], bytes]] = lambda row: join(row).encode()


def _or_null(write: Callable[[Any], str], null: str) -> Callable[[Any], str]:
    return lambda v: null if v is None else write(v)
