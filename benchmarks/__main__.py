"""Runs the benchmarks, prints a table, and appends a line of JSON to benchmarks/results.jsonl.

The long ones are run where they are named:

    python -m benchmarks interval                   the workloads with a checkpoint each 10 s, beside the same without
    python -m benchmarks rocksdb --keys 20000000    more state than one wants in memory
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from pathlib import Path

from benchmarks.report import RESULTS, Figure, append, table

SUITES = ("startup", "channel", "stream", "sql", "windows", "latency", "checkpoints", "rocksdb", "kafka")
#: Minutes each: not run by default.
LONG = ("interval",)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", choices=[*SUITES, *LONG, []], help="which ones; all short ones by default")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the records: 0.1 for a quick look")
    parser.add_argument("--keys", type=int, help="of the suite rocksdb; a million by default")
    parser.add_argument("--dry", action="store_true", help="do not append to the results")
    parser.add_argument("--json", type=Path, default=RESULTS, help="append there instead")
    parser.add_argument("--strict", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)

    figures: list[Figure] = []
    for name in options.suites or SUITES:
        print(f"running {name} …", file=sys.stderr, flush=True)
        suite = importlib.import_module(f"benchmarks.{name}")
        more = {"keys": options.keys} if name == "rocksdb" and options.keys else {}
        figures += suite.run(options.scale, **more)
    print(table(figures))
    if not options.dry:
        append(figures, options.json)
    missed = [f.name for f in figures if f.met is False]
    if missed:
        print(f"\n{len(missed)} of {sum(f.met is not None for f in figures)} goals missed", file=sys.stderr)
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
