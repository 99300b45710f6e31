"""Tables as text: the layout in which Flink prints results."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from streamline._core.types import DataType

__all__ = ("content_widths", "footer", "line", "row_text", "type_widths")

NULL = "<NULL>"

_WIDTHS = {"TINYINT": 4, "SMALLINT": 6, "INT": 11, "BIGINT": 20, "BOOLEAN": 5, "DATE": 10}


def _type_width(type_: DataType, most: int) -> int:
    match type_.root:
        case "DECIMAL":
            return type_.precision + 2
        case "TIME":
            return type_.precision + 9 if type_.precision else 8
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return type_.precision + 20 if type_.precision else 19
    return _WIDTHS.get(type_.root, most)


def type_widths(names: Sequence[str], types: Sequence[DataType], most: int) -> list[int]:
    """Widths of columns whose rows are not known yet: by their types.

    Args:
        names: of the columns.
        types: of the columns.
        most: width of columns of no fixed width, `table.display.max-column-width`.
    """
    return [max(display_width(n), _type_width(x, most), len(NULL)) for n, x in zip(names, types)]


def content_widths(names: Sequence[str], rows: Iterable[Sequence[str]], most: int) -> list[int]:
    """Widths of columns whose rows are all there."""
    widths = [display_width(n) for n in names]
    for row in rows:
        widths = [max(w, display_width(c)) for w, c in zip(widths, row)]
    return [min(w, most) if w > most else w for w in widths]


def display_width(text: str) -> int:
    """Columns of a terminal that the text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in ("F", "W") else 1 for c in text)


def _fitted(text: str, width: int) -> str:
    own = display_width(text)
    if own <= width:
        return " " * (width - own) + text
    kept, used = "", 0
    for c in text:
        step = display_width(c)
        if used + step > width - 3:
            break
        kept, used = kept + c, used + step
    return " " * (width - 3 - used) + kept + "..."


def line(widths: Sequence[int]) -> str:
    """The line between header and rows."""
    return "+" + "+".join("-" * (w + 2) for w in widths) + "+"


def row_text(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A row: cells flush right, cut where they are too wide."""
    return "|" + "|".join(f" {_fitted(c, w)} " for c, w in zip(cells, widths)) + "|"


def footer(count: int) -> str:
    """What stands below the table."""
    return f"{count} row{'' if count == 1 else 's'} in set"


def whole(names: Sequence[str], rows: Sequence[Sequence[str]], most: int) -> Iterator[str]:
    """The lines of a table that is all there."""
    if not rows:
        yield "Empty set"
        return
    widths = content_widths(names, rows, most)
    yield line(widths)
    yield row_text(names, widths)
    yield line(widths)
    for row in rows:
        yield row_text(row, widths)
    yield line(widths)
    yield footer(len(rows))
