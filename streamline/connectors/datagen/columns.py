"""Values of generated columns: random ones, and such that count up. Everything is a function of the row's number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeVar

from streamline._core.types import INTEGER_BITS, MAX_LENGTH, DataType
from streamline.connectors.formats.numbers import fit_decimal, to_float32
from streamline.connectors.options import Option, Options, boolean, choice, duration, integer, text
from streamline.errors import ValidationException

__all__ = ("ColumnOptions", "Generate", "column_options", "random_column", "sequence_column")

#: Gives the value of a row: (number of the row, epoch ms).
Generate = Callable[[int, int], Any]

N = TypeVar("N")

_MASK: Final = (1 << 64) - 1
_LENGTH: Final = 100
_COLLECTION_LENGTH: Final = 3
#: Flink's bounds where none are given: Float.MIN_VALUE and so on are the smallest positive numbers.
_FLOAT: Final = (1.401298464324817e-45, 3.4028234663852886e38)
_DOUBLE: Final = (4.9e-324, 1.7976931348623157e308)
_MAX_PERIOD: Final = 120_000


def _mixed(seed: int, n: int) -> int:
    """64 random bits of two numbers (splitmix64)."""
    z = (seed + n * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def _fraction(bits: int) -> float:
    """A number in [0, 1) of 64 bits."""
    return (bits >> 11) / (1 << 53)


# -- options -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """The kind of each column, and the options that its kind and type have."""

    kinds: Mapping[str, str]
    declared: Sequence[Option[Any]]


def _key(name: str, option: str) -> str:
    return f"fields.{name}.{option}"


def column_options(columns: Sequence[tuple[str, DataType]], given: Mapping[str, str]) -> ColumnOptions:
    """What the columns may be told.

    Raises:
        ValidationException: a kind that there is not, or a type that cannot be generated.
    """
    kinds: dict[str, str] = {}
    declared: list[Option[Any]] = []
    for name, type_ in columns:
        kind = choice(_key(name, "kind"), ("random", "sequence"), "random")
        declared.append(kind)
        kinds[name] = kind.parse(given[kind.key]) if kind.key in given else "random"
        if kinds[name] == "sequence":
            declared += (text(_key(name, "start")), text(_key(name, "end")))
        else:
            declared += _of_type(name, type_)
    return ColumnOptions(kinds, declared)


def _of_type(name: str, type_: DataType) -> list[Option[Any]]:
    null_rate = text(_key(name, "null-rate"))
    match type_.root:
        case "BOOLEAN":
            return [null_rate]
        case "CHAR" | "BINARY":
            return [integer(_key(name, "length")), null_rate]
        case "VARCHAR" | "VARBINARY":
            return [integer(_key(name, "length")), boolean(_key(name, "var-len")), null_rate]
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return [duration(_key(name, "max-past"), 0), null_rate]
        case "ARRAY" | "MULTISET":
            assert type_.element is not None
            inner = _of_type(f"{name}.element", type_.element)
            return [integer(_key(name, "length")), null_rate, *inner]
        case "MAP":
            assert type_.key is not None and type_.element is not None
            key, value = _of_type(f"{name}.key", type_.key), _of_type(f"{name}.value", type_.element)
            return [integer(_key(name, "length")), null_rate, *key, *value]
        case "ROW":
            return [null_rate, *[o for f in type_.fields for o in _of_type(f"{name}.{f.name}", f.type)]]
        case root if root in INTEGER_BITS or root in _RANGED:
            return [text(_key(name, "min")), text(_key(name, "max")), null_rate]
    raise ValidationException(f"Unsupported type: {type_}")


_RANGED: Final = frozenset({"FLOAT", "DOUBLE", "DECIMAL", "INTERVAL_YEAR_MONTH", "INTERVAL_DAY_TIME"})


def _number(options: Options, key: str, default: N, parse: Callable[[str], N]) -> N:
    found = options.given.get(key)
    if found is None:
        return default
    try:
        return parse(found.strip())
    except (ValueError, ArithmeticError):
        raise ValidationException(
            f"Invalid value for option '{key}'.\n\nCould not parse value '{found}' for key '{key}'."
        ) from None


def _length(options: Options, name: str, default: int) -> int:
    found = options.get(integer(_key(name, "length"), default))
    if found < 0:
        raise ValidationException(f"option '{_key(name, 'length')}' must not be negative: {found}")
    return found


# -- random --------------------------------------------------------------------------------------------------------


def random_column(name: str, type_: DataType, options: Options, number: int) -> Generate:
    """Random values of a type, between the bounds that the options give.

    Args:
        name: of the column; nested parts are `column.element`, `column.key` and so on.
        type_: what values are of.
        options: of the table.
        number: of the column.

    Raises:
        ValidationException: bounds that are none.
    """
    return _random(name, type_, options, _mixed(0xDA7A6E4, number))


def _random(name: str, type_: DataType, options: Options, seed: int) -> Generate:
    made = _never_null(name, type_, options, seed)
    rate = _number(options, _key(name, "null-rate"), 0.0, float)
    if not 0.0 <= rate <= 1.0:
        raise ValidationException(f"option '{_key(name, 'null-rate')}' has to be between 0 and 1, not {rate}")
    if rate == 0.0:
        return made
    nulls = _mixed(seed, 1)
    return lambda n, now: None if _fraction(_mixed(nulls, n)) < rate else made(n, now)


def _never_null(name: str, type_: DataType, options: Options, seed: int) -> Generate:
    root = type_.root
    match root:
        case "BOOLEAN":
            return lambda n, now: bool(_mixed(seed, n) & 1)
        case "CHAR" | "VARCHAR":
            return _texts(name, type_, options, seed)
        case "BINARY" | "VARBINARY":
            return _bytes(name, type_, options, seed)
        case "FLOAT" | "DOUBLE" | "DECIMAL":
            return _reals(name, type_, options, seed)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            past = options.get(duration(_key(name, "max-past"), 0))
            if past <= 0:
                return lambda n, now: now * 1_000_000
            return lambda n, now: (now - _mixed(seed, n) % past) * 1_000_000
        case "ARRAY":
            assert type_.element is not None
            items = _items(f"{name}.element", type_.element, options, seed, 0)
            length = _length(options, name, _COLLECTION_LENGTH)
            return lambda n, now: items(n, now, length)
        case "MULTISET":
            assert type_.element is not None
            items = _items(f"{name}.element", type_.element, options, seed, 0)
            length = _length(options, name, _COLLECTION_LENGTH)
            return lambda n, now: {v: _mixed(seed, n + i) % 10 + 1 for i, v in enumerate(items(n, now, length))}
        case "MAP":
            assert type_.key is not None and type_.element is not None
            keys = _items(f"{name}.key", type_.key, options, seed, 0)
            values = _items(f"{name}.value", type_.element, options, seed, 1)
            length = _length(options, name, _COLLECTION_LENGTH)
            return lambda n, now: dict(zip(keys(n, now, length), values(n, now, length)))
        case "ROW":
            parts = [
                _random(f"{name}.{f.name}", f.type, options, _mixed(seed, 100 + i)) for i, f in enumerate(type_.fields)
            ]
            return lambda n, now: tuple([part(n, now) for part in parts])
    return _integers(name, type_, options, seed)


def _integers(name: str, type_: DataType, options: Options, seed: int) -> Generate:
    """From the minimum to the maximum, both included."""
    bits = INTEGER_BITS.get(type_.root, 32 if type_.root == "INTERVAL_YEAR_MONTH" else 64)
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    default = (0, _MAX_PERIOD) if type_.root == "INTERVAL_YEAR_MONTH" else (least, most)
    low = _number(options, _key(name, "min"), default[0], int)
    high = _number(options, _key(name, "max"), default[1], int)
    if not least <= low <= high <= most:
        raise _no_bounds(name, low, high, type_)
    width = high - low + 1
    return lambda n, now: low + _mixed(seed, n) % width


def _reals(name: str, type_: DataType, options: Options, seed: int) -> Generate:
    root = type_.root
    low, high = _FLOAT if root == "FLOAT" else _DOUBLE
    low, high = _number(options, _key(name, "min"), low, float), _number(options, _key(name, "max"), high, float)
    if root == "DECIMAL":
        limit = float(10 ** (type_.precision - type_.scale)) - 10.0**-type_.scale
        low, high = max(low, -limit), min(high, limit)
    if not low <= high or low - low != 0.0 or high - high != 0.0:
        raise _no_bounds(name, low, high, type_)

    def real(n: int, now: int) -> float:
        part = _fraction(_mixed(seed, n))
        return min(max(low * (1.0 - part) + high * part, low), high)

    if root == "FLOAT":
        return lambda n, now: to_float32(real(n, now))
    if root == "DOUBLE":
        return real
    precision, scale = type_.precision, type_.scale
    return lambda n, now: fit_decimal(Decimal(repr(real(n, now))), precision, scale)


def _no_bounds(name: str, low: object, high: object, type_: DataType) -> ValidationException:
    return ValidationException(
        f"'{_key(name, 'min')}' = {low} and '{_key(name, 'max')}' = {high} are no bounds of {type_.summary(short=True)}"
    )


def _size(name: str, type_: DataType, options: Options, seed: int) -> Callable[[int], int]:
    """How long the text or bytes of a row are."""
    fixed = type_.root in ("CHAR", "BINARY")
    default = type_.length if fixed else min(_LENGTH, type_.length)
    length = _length(options, name, default)
    if fixed and length != type_.length:
        raise ValidationException(f"Custom length for fixed-length type ({type_}) field '{name}' is not supported.")
    if length > type_.length:
        raise ValidationException(
            f"Custom length '{length}' for variable-length type ({type_}) field '{name}' should be shorter than "
            f"'{type_.length}' defined in the schema."
        )
    if fixed or not options.get(boolean(_key(name, "var-len"))):
        return lambda n: length
    if type_.length == MAX_LENGTH and not options.has(integer(_key(name, "length"))):
        return lambda n: _mixed(seed, n) % (_LENGTH + 1)
    return lambda n: _mixed(seed, n) % (length + 1)


def _texts(name: str, type_: DataType, options: Options, seed: int) -> Generate:
    """Hexadecimal digits."""
    size = _size(name, type_, options, _mixed(seed, 2))

    def make(n: int, now: int) -> str:
        length = size(n)
        return _raw(seed, n, (length + 1) // 2).hex()[:length]

    return make


def _bytes(name: str, type_: DataType, options: Options, seed: int) -> Generate:
    size = _size(name, type_, options, _mixed(seed, 2))
    return lambda n, now: _raw(seed, n, size(n))


def _raw(seed: int, n: int, length: int) -> bytes:
    of_row = _mixed(seed, n)
    found = b"".join([_mixed(of_row, i).to_bytes(8, "big") for i in range((length + 7) // 8)])
    return found[:length]


def _items(name: str, type_: DataType, options: Options, seed: int, part: int) -> Callable[[int, int, int], list[Any]]:
    """So many values of a row."""
    make = _random(name, type_, options, _mixed(seed, 10 + part))

    def items(n: int, now: int, length: int) -> list[Any]:
        first = n * length
        return [make(first + i, now) for i in range(length)]

    return items


# -- sequences -----------------------------------------------------------------------------------------------------


def sequence_column(name: str, type_: DataType, options: Options) -> tuple[Generate, int]:
    """Values that count up from `start` to `end`, and how many there are.

    Raises:
        ValidationException: a bound is missing, or the type has no such values.
    """
    start_key, end_key = _key(name, "start"), _key(name, "end")
    for key in (start_key, end_key):
        if key not in options.given:
            raise ValidationException(f"Could not find required property '{key}' for sequence generator.")
    start, end = _number(options, start_key, 0, int), _number(options, end_key, 0, int)
    if end < start:
        raise ValidationException(f"'{end_key}' = {end} is before '{start_key}' = {start}")
    root = type_.root
    if root in INTEGER_BITS:
        top = 1 << (INTEGER_BITS[root] - 1)
        if start < -top or end >= top:
            raise _no_bounds(name, start, end, type_)
        return (lambda n, now: start + n), end - start + 1
    if root in ("FLOAT", "DOUBLE"):
        return (lambda n, now: float(start + n)), end - start + 1
    if root == "DECIMAL":
        precision, scale = type_.precision, type_.scale
        return (lambda n, now: fit_decimal(Decimal(start + n), precision, scale)), end - start + 1
    if type_.is_character:
        return (lambda n, now: str(start + n)), end - start + 1
    raise ValidationException(f"Unsupported type: {type_}")
