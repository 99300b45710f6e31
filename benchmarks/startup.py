"""What it takes before anything flows: the import, and the first record; each in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import Figure, at_most, median

IMPORT = """
import time; before = time.perf_counter()
import streamline
print((time.perf_counter() - before) * 1000)
"""

FIRST = """
import asyncio, time
from streamline import StreamExecutionEnvironment

async def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([1, 2, 3]).map(lambda n: n + 1)
    before = time.perf_counter()
    async with stream.execute_and_collect() as results:
        async for _ in results:
            print((time.perf_counter() - before) * 1000)
            break

asyncio.run(main())
"""

FIRST_SQL = """
import asyncio, time
from streamline import StreamExecutionEnvironment
from streamline.table import StreamTableEnvironment

async def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    before = time.perf_counter()
    t_env.create_temporary_view("t", env.from_collection([("a", 1), ("b", 2)]))
    table = t_env.sql_query("SELECT f0, COUNT(*) AS n FROM t GROUP BY f0")
    async with t_env.to_changelog_stream(table).execute_and_collect() as results:
        async for _ in results:
            print((time.perf_counter() - before) * 1000)
            break

asyncio.run(main())
"""


def milliseconds(program: str) -> float:
    """What the program prints."""
    root = Path(__file__).parent.parent
    # As an installed package runs: with its byte code written down.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    return float(done.stdout)


def run(scale: float) -> Iterator[Figure]:
    runs = max(3, int(5 * scale))
    yield at_most("import streamline", median(lambda: milliseconds(IMPORT), runs), "ms", 150)
    yield at_most("first record after execute()", median(lambda: milliseconds(FIRST), runs), "ms", 50)
    yield Figure("first row of a first SQL query", median(lambda: milliseconds(FIRST_SQL), runs), "ms")
