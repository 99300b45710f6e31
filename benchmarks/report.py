"""Figures, and the table and the line of JSON that they end in."""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.jsonl")


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Attributes:
        name: what was measured; the same from run to run.
        value: how much, in `unit`.
        unit: "records/s", "ms", …
        baseline: the hand-written loop of the same run, in the same unit; None where there is none.
        goal: what is asked for, as text, e.g. ">= 8 M"; empty where nothing is.
        met: whether the goal is met.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    goal: str = ""
    met: bool | None = None

    @property
    def ratio(self) -> float | None:
        """Share of the baseline that was reached."""
        return self.value / self.baseline if self.baseline else None


def at_least(name: str, value: float, unit: str, goal: float, baseline: float | None = None) -> Figure:
    """A figure that should be no smaller than the goal."""
    return Figure(name, value, unit, baseline, f">= {amount(goal, unit)}", value >= goal)


def at_most(name: str, value: float, unit: str, goal: float) -> Figure:
    """A figure that should be no larger than the goal."""
    return Figure(name, value, unit, None, f"<= {amount(goal, unit)}", value <= goal)


def amount(value: float, unit: str) -> str:
    """A figure for people."""
    if unit.endswith("/s"):
        return f"{value / 1e6:.2f} M" if value >= 1e5 else f"{value / 1e3:.1f} k"
    return f"{value:.3g}"


def best(measure: Callable[[], float], runs: int = 3) -> float:
    """The largest of some runs: the others had something else to wait for."""
    return max(_clean(measure) for _ in range(runs))


def median(measure: Callable[[], float], runs: int = 5) -> float:
    """The one in the middle."""
    return statistics.median(_clean(measure) for _ in range(runs))


def _clean(measure: Callable[[], float]) -> float:
    gc.collect()
    return measure()


def quantile(values: Iterable[float], q: float) -> float:
    """The value below which a share of q lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def table(figures: Sequence[Figure]) -> str:
    """The figures for people."""
    rows = [("", "figure", "unit", "loop", "ratio", "goal")]
    for f in figures:
        mark = "" if f.met is None else " ok" if f.met else " MISSED"
        rows.append(
            (
                f.name,
                amount(f.value, f.unit),
                f.unit,
                "" if f.baseline is None else amount(f.baseline, f.unit),
                "" if f.ratio is None else f"{f.ratio:.2f}",
                f.goal + mark,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i in (0, 2, 5) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def append(figures: Sequence[Figure], path: Path = RESULTS) -> dict[str, Any]:
    """Add a line of JSON to the results."""
    record = {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "clean": not _git("status", "--porcelain", "--untracked-files=no"),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "figures": [{**asdict(f), "ratio": f.ratio} for f in figures],
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    return record


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
