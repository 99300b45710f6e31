"""Elements that were on their way when an unaligned checkpoint was taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamline._core.elements import Batch, Element, Watermark, WatermarkStatus
from streamline._state.classes import Classes
from streamline._state.codec import decode_column, encode_columns, naming, read_columns

__all__ = ("decode_elements", "encode_elements")


def encode_elements(elements: Sequence[tuple[int, int, Element]]) -> bytes:
    """Elements, each with the number of its channel and of its logical input.

    Raises:
        StateEncodingException: a record of a type that cannot be kept.
    """
    rows = [(channel, number, *_fields(element)) for channel, number, element in elements]
    with naming("records on their way"):
        return encode_columns([list(column) for column in zip(*rows)]) if rows else b""


def _fields(element: Element) -> tuple[str, Any, Any, Any]:
    match element:
        case Batch(values, timestamps, kinds):
            times = None if timestamps is None else list(timestamps)
            return "b", list(values), times, None if kinds is None else list(kinds)
        case Watermark(timestamp):
            return "w", timestamp, None, None
        case WatermarkStatus(idle):
            return "s", idle, None, None
    raise TypeError(f"{element!r} does not belong to a checkpoint")


def decode_elements(data: bytes) -> list[tuple[int, int, Element]]:
    """What `encode_elements` wrote.

    Raises:
        CheckpointException: a record's class is not known to the program.
    """
    if not data:
        return []
    classes = Classes()
    columns = [decode_column(n, node, classes) for n, node in read_columns(data)]
    return [(channel, number, _element(*fields)) for channel, number, *fields in zip(*columns)]


def _element(tag: str, value: Any, timestamps: Any, kinds: Any) -> Element:
    if tag == "b":
        return Batch(value, timestamps, kinds)
    return Watermark(value) if tag == "w" else WatermarkStatus(value)
