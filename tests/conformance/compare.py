"""Compares an answer with the recorded one: kinds and rows, or only what they come to."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any


def canonical(value: Any) -> Any:
    """A value as something hashable; floats to 12 significant digits, NaN equal to itself."""
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else repr(value)
    if isinstance(value, (list, tuple)):
        return tuple(map(canonical, value))
    if isinstance(value, dict):
        return ("{}", *sorted((k, canonical(v)) for k, v in value.items()))
    return value


def _folded(changes: list[tuple[Any, ...]]) -> dict[Any, int]:
    """The rows that a changelog leaves, with their number."""
    rows: Counter[Any] = Counter()
    for kind, *row in changes:
        rows[tuple(row)] += 1 if kind in ("+I", "+U") else -1
    return {row: n for row, n in rows.items() if n}


def _upserted(changes: list[tuple[Any, ...]], key: list[int]) -> dict[Any, int]:
    """The rows that an upsert changelog leaves."""
    rows: dict[Any, Any] = {}
    for kind, *row in changes:
        if kind in ("-U", "-D"):
            rows.pop(tuple(row[i] for i in key), None)
        else:
            rows[tuple(row[i] for i in key)] = tuple(row)
    return dict(Counter(rows.values()))


def difference(case: dict[str, Any], got: dict[str, Any]) -> str | None:
    """Why the answer is not the recorded one; None where it is."""
    want = case["expected"]
    if "error" in want:
        if "error" not in got:
            return f"it should fail: {want['error']['message'][:200]}"
        running = got["error"]["phase"] == "runtime", want["error"]["phase"] == "runtime"
        return None if running[0] == running[1] else f"it fails while {'running' if running[0] else 'planned'}: {got}"
    if "error" in got:
        return f"{got['error']['phase']} error: {got['error']['message']}"
    if got["schema"] != want["schema"]:
        return f"its schema is {got['schema']}, not {want['schema']}"
    found = [canonical(change) for change in got["changelog"]]
    recorded = [canonical(change) for change in want["changelog"]]
    if case["compare"] == "changelog":
        same = found == recorded or (case.get("order") != "exact" and Counter(found) == Counter(recorded))
        return None if same else f"changes\n{_lines(found)}\nrecorded\n{_lines(recorded)}"
    final = _folded(recorded) if want["final"] is None else dict(Counter(map(canonical, want["final"])))
    if case.get("sink") == "upsert":
        names = [name for name, _ in got["schema"]]
        left = _upserted(found, [names.index(k) for k in case["sink_key"]])
    else:
        left = _folded(found)
    return None if left == final else f"changes\n{_lines(found)}\nshould come to {final}"


def _lines(changes: list[Any]) -> str:
    return "\n".join(f"  {change}" for change in changes)
