"""Bitmaps of 32-bit integers: frozen sets, and the portable format of Roaring bitmaps."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

from streamline.errors import TableException

__all__ = ("build", "from_bytes", "to_array", "to_bytes", "to_text")

_COOKIE: Final = 12347
_NO_RUNS: Final = 12346
_ARRAY_LIMIT: Final = 4096
_SMALL: Final = 4


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


def _unsigned(values: Iterable[int]) -> list[int]:
    return sorted(v & 0xFFFFFFFF for v in values)


def build(items: Iterable[Any]) -> frozenset[int]:
    """The bitmap of an array; NULLs are left out."""
    return frozenset(i for i in items if i is not None)


def to_array(bitmap: frozenset[int]) -> list[int]:
    """Its members in order, as unsigned numbers are."""
    return [_signed(v) for v in _unsigned(bitmap)]


def to_text(bitmap: frozenset[int]) -> str:
    """Its members in order: `{1,3,5}`."""
    return "{" + ",".join(map(str, _unsigned(bitmap))) + "}"


def to_bytes(bitmap: frozenset[int]) -> bytes:
    """The portable serialised form, without run containers."""
    containers: dict[int, list[int]] = {}
    for value in _unsigned(bitmap):
        containers.setdefault(value >> 16, []).append(value & 0xFFFF)
    header = struct.pack("<II", _NO_RUNS, len(containers))
    keys = b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in containers.items())
    offset = len(header) + len(keys) + 4 * len(containers)
    offsets, bodies = b"", b""
    for low in containers.values():
        offsets += struct.pack("<I", offset + len(bodies))
        if len(low) <= _ARRAY_LIMIT:
            bodies += struct.pack(f"<{len(low)}H", *low)
        else:
            bits = 0
            for value in low:
                bits |= 1 << value
            bodies += bits.to_bytes(8192, "little")
    return header + keys + offsets + bodies


def from_bytes(data: bytes) -> frozenset[int]:
    """A bitmap from its portable serialised form.

    Raises:
        TableException: if the bytes are not one.
    """
    try:
        return frozenset(_members(data))
    except (struct.error, IndexError) as e:
        raise TableException(f"Failed to deserialize a bitmap: {e}") from None


def _members(data: bytes) -> Iterable[int]:
    (cookie,) = struct.unpack_from("<I", data)
    at, runs = 4, b""
    if cookie & 0xFFFF == _COOKIE:
        count = (cookie >> 16) + 1
        runs = data[4 : 4 + (count + 7) // 8]
        at += len(runs)
    elif cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", data, 4)
        at = 8
    else:
        raise struct.error("unknown cookie")
    keys = [struct.unpack_from("<HH", data, at + 4 * i) for i in range(count)]
    at += 4 * count
    if not runs or count >= _SMALL:
        at += 4 * count  # offsets, which are not needed in order
    for index, (key, less_one) in enumerate(keys):
        high = key << 16
        if runs and runs[index // 8] >> (index % 8) & 1:
            (number,) = struct.unpack_from("<H", data, at)
            for i in range(number):
                start, length = struct.unpack_from("<HH", data, at + 2 + 4 * i)
                yield from (_signed(high | v) for v in range(start, start + length + 1))
            at += 2 + 4 * number
        elif less_one + 1 <= _ARRAY_LIMIT:
            low = struct.unpack_from(f"<{less_one + 1}H", data, at)
            yield from (_signed(high | v) for v in low)
            at += 2 * (less_one + 1)
        else:
            bits = int.from_bytes(data[at : at + 8192], "little")
            yield from (_signed(high | v) for v in range(1 << 16) if bits >> v & 1)
            at += 8192
