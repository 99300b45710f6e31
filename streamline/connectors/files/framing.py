"""Bytes of a file to records: lines, or records of CSV whose quotes may hold line ends."""

from __future__ import annotations

from streamline.connectors.formats.csv.dialect import QuotedLines

__all__ = ("cut",)


def cut(data: bytes, at_end: bool, quoted: QuotedLines | None = None) -> tuple[list[bytes], int]:
    """The whole records at the beginning of `data`, without the line end behind each, and how many bytes they are.

    Args:
        data: begins at the beginning of a record.
        at_end: nothing follows: what has no line end is a record too.
        quoted: finds line ends inside of quotes; None: a record is a line.
    """
    end = data.rfind(b"\n") + 1
    if not end:
        return ([data], len(data)) if at_end and data else ([], 0)
    lines = data[: end - 1].split(b"\n")
    if at_end and len(data) > end:
        lines.append(data[end:])
        end = len(data)
    if quoted is None or quoted.all_closed(data if len(data) == end else data[:end]):
        return lines, end
    return _joined(lines, end, at_end, quoted)


def _joined(lines: list[bytes], size: int, at_end: bool, quoted: QuotedLines) -> tuple[list[bytes], int]:
    """Put lines together that are one record."""
    records: list[bytes] = []
    first = -1
    for i, line in enumerate(lines):
        if first < 0:
            if quoted.stays_open(line, False):
                first = i
            else:
                records.append(line)
        elif not quoted.stays_open(line, True):
            records.append(b"\n".join(lines[first : i + 1]))
            first = -1
    if first < 0:
        return records, size
    left = b"\n".join(lines[first:])
    if at_end:
        records.append(left)
        return records, size
    return records, size - len(left) - 1
