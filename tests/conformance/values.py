"""The recorded cases' encoding of values (see the cases' README), to and from the inner form."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import Decimal
from typing import Any

from streamline._core.types import DataType
from streamline.table.expr.runtime.casts import float_text

_EPOCH = dt.date(1970, 1, 1)


def decode(value: Any, type_: DataType) -> Any:
    """An encoded value in the inner form."""
    if value is None:
        return None
    match type_.root:
        case "DECIMAL":
            return Decimal(value)
        case "FLOAT":
            return struct.unpack("f", struct.pack("f", _float(value)))[0]
        case "DOUBLE":
            return _float(value)
        case "BINARY" | "VARBINARY":
            return bytes.fromhex(value)
        case "DATE":
            return (dt.date.fromisoformat(value) - _EPOCH).days
        case "TIME":
            return _time(value) // 1_000_000
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _timestamp(value)
        case "ARRAY":
            assert type_.element is not None
            return [decode(v, type_.element) for v in value]
        case "MAP":
            assert type_.key is not None and type_.element is not None
            return {decode(k, type_.key): decode(v, type_.element) for k, v in value}
        case "MULTISET":
            assert type_.element is not None
            return {decode(k, type_.element): n for k, n in value}
        case "ROW" | "STRUCTURED":
            return tuple(decode(v, f.type) for v, f in zip(value, type_.fields))
        case _:
            return value


def _float(value: Any) -> float:
    return float(value)


def _time(text: str) -> int:
    """Nanoseconds of a time of day."""
    h, m, rest = text.split(":")
    whole, _, fraction = rest.partition(".")
    return (int(h) * 3600 + int(m) * 60 + int(whole)) * 1_000_000_000 + int((fraction or "0").ljust(9, "0"))


def _timestamp(text: str) -> int:
    date, _, time = text.removesuffix("Z").partition("T")
    match = re.fullmatch(r"([+-]?\d+)-(\d\d)-(\d\d)", date)
    assert match is not None, text
    days = (dt.date(int(match[1]), int(match[2]), int(match[3])) - _EPOCH).days
    return days * 86_400_000_000_000 + _time(time)


def encode(value: Any, type_: DataType) -> Any:
    """A value in the inner form, encoded."""
    if value is None:
        return None
    match type_.root:
        case "DECIMAL":
            return format(value, "f")
        case "FLOAT" | "DOUBLE":
            if math.isnan(value) or math.isinf(value):
                return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return _shortest(value) if type_.root == "FLOAT" else float(value)
        case "BINARY" | "VARBINARY":
            return bytes(value).hex()
        case "DATE":
            return (_EPOCH + dt.timedelta(days=value)).isoformat()
        case "TIME":
            return _clock(value * 1_000_000, type_.precision)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            days, nanos = divmod(value, 86_400_000_000_000)
            text = f"{(_EPOCH + dt.timedelta(days=days)).isoformat()}T{_clock(nanos, type_.precision)}"
            return text + "Z" if type_.root == "TIMESTAMP_LTZ" else text
        case "ARRAY":
            assert type_.element is not None
            return [encode(v, type_.element) for v in value]
        case "MAP":
            assert type_.key is not None and type_.element is not None
            return sorted(([encode(k, type_.key), encode(v, type_.element)] for k, v in value.items()), key=_order)
        case "MULTISET":
            assert type_.element is not None
            return sorted(([encode(k, type_.element), n] for k, n in value.items()), key=_order)
        case "ROW" | "STRUCTURED":
            return [encode(v, f.type) for v, f in zip(value, type_.fields)]
        case "VARIANT":
            return {"variant": str(value)}
        case _:
            return value


def _shortest(value: float) -> float:
    """The shortest decimal that stands for the 32-bit float, as Java prints it."""
    return float(float_text(value))


def _order(pair: list[Any]) -> Any:
    return (pair[0] is not None, str(type(pair[0])), pair[0]) if not isinstance(pair[0], list) else (True, "", 0)


def _clock(nanos: int, precision: int) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    minutes, s = divmod(seconds, 60)
    h, m = divmod(minutes, 60)
    text = f"{h:02}:{m:02}:{s:02}"
    return f"{text}.{fraction:09}"[: len(text) + 1 + precision] if precision else text
