"""Functions over arrays and maps. An element that is None is NULL; two NULLs are the same element."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamline.errors import TableException

__all__ = (
    "array_distinct",
    "array_except",
    "array_intersect",
    "array_item",
    "array_join",
    "array_position",
    "array_slice",
    "array_sort",
    "element",
    "map_from_arrays",
    "rows_equal",
    "same",
)


def same(value: Any) -> Any:
    """A hashable stand-in for a value: equal for equal values."""
    if isinstance(value, list):
        return ("[]", *map(same, value))
    if isinstance(value, tuple):
        return ("()", *map(same, value))
    if isinstance(value, dict):
        return ("{}", frozenset((same(k), same(v)) for k, v in value.items()))
    return "NaN" if value != value else value


def rows_equal(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool | None:
    """Whether the fields of two rows are equal; None where only fields that are NULL leave it open."""
    result: bool | None = True
    for x, y in zip(a, b):
        if x is None or y is None:
            result = None
            continue
        same_ = rows_equal(x, y) if isinstance(x, tuple) else x == y
        if same_ is False:
            return False
        if same_ is None:
            result = None
    return result


def array_item(items: list[Any], index: int) -> Any:
    """The element in a place, None where there is none."""
    return items[index - 1] if 0 < index <= len(items) else None


def element(items: list[Any]) -> Any:
    """The only element, None of an empty array.

    Raises:
        TableException: if there are several.
    """
    if len(items) > 1:
        raise TableException("Array has more than one element.")
    return items[0] if items else None


def array_contains(items: list[Any], wanted: Any) -> bool:
    """Whether an element is there; NULL can be."""
    return wanted in items


def array_position(items: list[Any], wanted: Any) -> int:
    """The first place of an element, 0 if it is not there."""
    for place, item in enumerate(items, 1):
        if item is not None and item == wanted:
            return place
    return 0


def array_append(items: list[Any], item: Any) -> list[Any]:
    """The array with an element behind it."""
    return [*items, item]


def array_prepend(items: list[Any], item: Any) -> list[Any]:
    """The array with an element before it."""
    return [item, *items]


def array_remove(items: list[Any], item: Any) -> list[Any]:
    """The array without the elements that are equal to one, which may be NULL."""
    return [x for x in items if not ((x is None and item is None) or (x is not None and x == item))]


def array_concat(first: list[Any], *others: list[Any]) -> list[Any]:
    """One array after the other."""
    return sum(others, list(first))


def _unique(items: Iterable[Any], seen: set[Any]) -> list[Any]:
    kept = []
    for item in items:
        key = same(item)
        if key not in seen:
            seen.add(key)
            kept.append(item)
    return kept


def array_distinct(items: list[Any]) -> list[Any]:
    """Each element once, where it is first found."""
    return _unique(items, set())


def array_union(first: list[Any], second: list[Any]) -> list[Any]:
    """Each element of both once."""
    return _unique((*first, *second), set())


def array_except(first: list[Any], second: list[Any]) -> list[Any]:
    """Each element of the first once that is not in the second."""
    return _unique(first, set(map(same, second)))


def array_intersect(first: list[Any], second: list[Any]) -> list[Any]:
    """Each element of the first once that is also in the second."""
    wanted = set(map(same, second))
    return [x for x in array_distinct(first) if same(x) in wanted]


def array_max(items: list[Any]) -> Any:
    """The greatest element, NULLs aside."""
    return max((x for x in items if x is not None), default=None)


def array_min(items: list[Any]) -> Any:
    """The smallest element, NULLs aside."""
    return min((x for x in items if x is not None), default=None)


def array_join(items: list[str | None], delimiter: str, null: str | None = None) -> str:
    """The elements with a delimiter between them; NULLs are left out, or written as `null`."""
    if null is None:
        return delimiter.join([x for x in items if x is not None])
    return delimiter.join([null if x is None else x for x in items])


def array_slice(items: list[Any], start: int, end: int | None = None) -> list[Any]:
    """The elements from one place to another, both included; negative places count from the end, 0 is 1."""
    size = len(items)
    first = start if start > 0 else size + start + 1 if start < 0 else 1
    last = size if end is None else end if end > 0 else size + end + 1 if end < 0 else 1
    if start < 0 and first < 1:
        first = 1
    if first > size or last < 1 or first > last:
        return []
    return items[first - 1 : last]


def array_sort(items: list[Any], ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
    """The elements in order; NULLs first when ascending, last when descending, unless said otherwise."""
    nulls = [x for x in items if x is None]
    values = sorted((x for x in items if x is not None), reverse=not ascending)
    first = ascending if nulls_first is None else nulls_first
    return nulls + values if first else values + nulls


def map_keys(entries: dict[Any, Any]) -> list[Any]:
    """The keys."""
    return list(entries)


def map_values(entries: dict[Any, Any]) -> list[Any]:
    """The values."""
    return list(entries.values())


def map_entries(entries: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """Keys and values as rows."""
    return list(entries.items())


def map_union(first: dict[Any, Any], *others: dict[Any, Any]) -> dict[Any, Any]:
    """All entries; of equal keys the last."""
    result = dict(first)
    for other in others:
        result.update(other)
    return result


def map_from_arrays(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    """The map of keys and values in the same places.

    Raises:
        TableException: if the arrays differ in length.
    """
    if len(keys) != len(values):
        raise TableException(
            "Invalid function MAP_FROM_ARRAYS call: The length of the keys array "
            f"{len(keys)} is not equal to the length of the values array {len(values)}"
        )
    return dict(zip(keys, values))
