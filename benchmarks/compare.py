"""Two runs of the benchmarks side by side: `python -m benchmarks.compare [OLD [NEW]]`, commits or places from the end.

By default the last line of results.jsonl is compared with the one before. Figures are compared by their ratio to the
hand-written loop of their own run where they have one, so that a busy machine does not count as a change.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.report import RESULTS, amount

#: A change by less than this share is noise.
NOISE = 0.05


def load() -> list[dict[str, Any]]:
    if not RESULTS.exists():
        sys.exit("there are no results yet: run `make bench`")
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    runs: list[dict[str, Any]] = [json.loads(line) for line in lines if line.strip()]
    return runs


def pick(runs: list[dict[str, Any]], which: str) -> dict[str, Any]:
    if which.lstrip("-").isdigit() and len(which) < 4:
        return runs[-abs(int(which)) - 1]
    found = [run for run in runs if str(run["commit"]).startswith(which)]
    if found:
        return found[-1]
    sys.exit(f"no run of commit {which!r}; there are {', '.join(sorted({r['commit'] for r in runs}))}")


def main(arguments: list[str]) -> int:
    runs = load()
    if len(runs) < 2 and not arguments:
        sys.exit("there is one run only; nothing to compare it with")
    old = pick(runs, arguments[0] if arguments else "1")
    new = pick(runs, arguments[1] if len(arguments) > 1 else "0")
    print(f"{old['commit']} ({old['time']})  ->  {new['commit']} ({new['time']})\n")
    before = {f["name"]: f for f in old["figures"]}
    slower = 0
    for figure in new["figures"]:
        was = before.pop(figure["name"], None)
        now = amount(figure["value"], figure["unit"])
        if was is None:
            print(f"  {figure['name']:52s} {'new':>10s} {now:>10s}")
            continue
        relative = figure["ratio"] and was["ratio"]
        change = (figure["ratio"] / was["ratio"] if relative else figure["value"] / was["value"]) - 1
        worse = change < -NOISE if figure["unit"].endswith("/s") else change > NOISE
        slower += worse
        mark = "  slower" if worse else ""
        print(f"  {figure['name']:52s} {amount(was['value'], was['unit']):>10s} {now:>10s} {change:+7.1%}{mark}")
    for name in before:
        print(f"  {name:52s} gone")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
