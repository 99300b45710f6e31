"""Keyed state in RocksDB: a million keys, or as many as `--keys` says."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator

from benchmarks.keys import measure
from benchmarks.report import Figure

KEYS = 1_000_000


def run(scale: float, keys: int = KEYS) -> Iterator[Figure]:
    """Records a second, memory, checkpoints, recovery; a checkpoint every few seconds, so that each run has some."""
    if importlib.util.find_spec("rocksdict") is None:
        print('  left out: pip install "streamline[rocksdb]"', file=sys.stderr)
        return
    keys = int(scale * keys)
    seen = measure("rocksdb", keys, keys // 4, interval=max(2.0, keys / 1e6))
    what = f"RocksDB, {keys:,} keys"
    yield Figure(f"{what}: new keys", seen.fill, "records/s")
    yield Figure(f"{what}: keys at random", seen.update, "records/s")
    yield Figure(f"{what}: processor time a record", seen.work, "us")
    yield Figure(f"{what}: resident memory, peak", seen.memory, "MB")
    yield Figure(f"{what}: loop lag, p99", seen.lag, "ms")
    if seen.checkpoints:
        longest, written = (max(values) for values in zip(*seen.checkpoints))
        yield Figure(f"{what}: longest of {len(seen.checkpoints)} checkpoints", longest, "ms")
        yield Figure(f"{what}: most that one has written", written, "MB")
    yield Figure(f"{what}: size of the last checkpoint", seen.size, "MB")
    yield Figure(f"{what}: recovery to the first result", seen.recovery, "ms")
    yield Figure(f"{what}: keys at random behind that", seen.after, "records/s")
