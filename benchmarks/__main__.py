"""Runs the benchmarks, prints a table, and appends a line of JSON to benchmarks/results.jsonl."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from pathlib import Path

from benchmarks.report import RESULTS, Figure, append, table

SUITES = ("startup", "channel", "stream", "sql", "windows", "latency", "checkpoints", "kafka")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="which ones; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the records: 0.1 for a quick look")
    parser.add_argument("--dry", action="store_true", help="do not append to the results")
    parser.add_argument("--json", type=Path, default=RESULTS, help="append there instead")
    parser.add_argument("--strict", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)

    figures: list[Figure] = []
    for name in options.suites or SUITES:
        print(f"running {name} …", file=sys.stderr, flush=True)
        suite = importlib.import_module(f"benchmarks.{name}")
        figures += suite.run(options.scale)
    print(table(figures))
    if not options.dry:
        append(figures, options.json)
    missed = [f.name for f in figures if f.met is False]
    if missed:
        print(f"\n{len(missed)} of {sum(f.met is not None for f in figures)} goals missed", file=sys.stderr)
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
