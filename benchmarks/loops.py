"""The same workloads as loops that one would write by hand for one purpose: what the figures are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from benchmarks.data import BATCH
from streamline import RowKind

Loop = Callable[[Sequence[Any]], int]


def records_per_second(loop: Loop, records: Sequence[Any]) -> float:
    """How fast a loop goes; it gets the records in slices, as operators do."""
    started = perf_counter()
    loop(records)
    return len(records) / (perf_counter() - started)


def filter_project(records: Sequence[Any]) -> int:
    """W1: SELECT symbol, amount * 2 WHERE price > 50, a tuple each."""
    count = 0
    for at in range(0, len(records), BATCH):
        out = [(r.symbol, r.amount * 2) for r in records[at : at + BATCH] if r.price > 50]
        count += len(out)
    return count


def filter_project_lambdas(records: Sequence[Any]) -> int:
    """W1 with two functions that are called for each record, as map and filter have to."""
    keep, make = (lambda r: r.price > 50), (lambda r: (r.symbol, r.amount * 2))
    count = 0
    for at in range(0, len(records), BATCH):
        out = list(map(make, filter(keep, records[at : at + BATCH])))
        count += len(out)
    return count


def running_totals(records: Sequence[Any]) -> int:
    """W2: SELECT symbol, COUNT(*), SUM(amount) GROUP BY symbol, every change with the row that it replaces."""
    insert, before, after = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER
    totals: dict[str, tuple[str, int, int]] = {}
    count = 0
    for at in range(0, len(records), BATCH):
        rows: list[Any] = []
        kinds: list[RowKind] = []
        for r in records[at : at + BATCH]:
            old = totals.get(r.symbol)
            if old is None:
                new = (r.symbol, 1, r.amount)
                rows.append(new)
                kinds.append(insert)
            else:
                new = (r.symbol, old[1] + 1, old[2] + r.amount)
                rows += (old, new)
                kinds += (before, after)
            totals[r.symbol] = new
        count += len(rows)
    return count


def window_totals(records: Sequence[Any]) -> int:
    """W3: count, sum and max per symbol and tumbling 10 seconds; windows close as the watermark passes."""
    windows: dict[int, dict[str, list[int]]] = {}
    count = 0
    newest = 0
    for at in range(0, len(records), BATCH):
        for r in records[at : at + BATCH]:
            end = r.ts - r.ts % 10_000 + 10_000
            window = windows.get(end)
            if window is None:
                window = windows[end] = {}
            total = window.get(r.symbol)
            if total is None:
                window[r.symbol] = [1, r.amount, r.amount]
            else:
                total[0] += 1
                total[1] += r.amount
                if r.amount > total[2]:
                    total[2] = r.amount
            if r.ts > newest:
                newest = r.ts
        for end in [e for e in windows if e <= newest - 1000]:
            out = [(symbol, end - 10_000, end, n, s, m) for symbol, (n, s, m) in windows.pop(end).items()]
            count += len(out)
    for end in list(windows):
        count += len(windows.pop(end))
    return count


def running_count(records: Sequence[Any]) -> int:
    """A running count per symbol."""
    counts: dict[str, int] = {}
    total = 0
    for at in range(0, len(records), BATCH):
        out = []
        for r in records[at : at + BATCH]:
            n = counts.get(r.symbol, 0) + 1
            counts[r.symbol] = n
            out.append((r.symbol, n))
        total += len(out)
    return total
