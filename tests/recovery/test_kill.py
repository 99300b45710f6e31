"""`kill -9` at any moment, and the program started again: the committed files hold every result once.

Rounds of each kind: a few in an ordinary run, 200 under STREAMLINE_PROFILE=prove.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.recovery.killed import Count, Hit, Settings

ROOT = Path(__file__).parents[2]
PROVE = os.environ.get("STREAMLINE_PROFILE") == "prove"
ROUNDS = 200 if PROVE else 4
RECORDS = 6000
KEYS = 7


def write_input(folder: Path, seed: int) -> list[Hit]:
    """Three files whose times go up."""
    chance = random.Random(seed)
    folder.mkdir()
    hits: list[Hit] = []
    for name in ("a", "b", "c"):
        time = 0
        with (folder / f"{name}.jsonl").open("wb") as file:
            for _ in range(RECORDS // 3):
                time += chance.randrange(4)
                hits.append(Hit(f"k{chance.randrange(KEYS)}", time))
                file.write(msgspec.json.encode(hits[-1]) + b"\n")
    return hits


def results(hits: list[Hit]) -> Counter[tuple[str, int, str]]:
    """What comes out, by arithmetic."""
    counts = Counter(hit.key for hit in hits)
    found = Counter({(key, n, "running"): 1 for key, total in counts.items() for n in range(1, total + 1)})
    found.update({(hit.key, hit.ts // 100 * 100 + 100, "fired") for hit in hits})
    return found


def committed(folder: Path) -> Counter[tuple[str, int, str]]:
    """What readers see."""
    found: Counter[tuple[str, int, str]] = Counter()
    for path in folder.glob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            count = msgspec.json.decode(line, type=Count)
            found[count.key, count.n, count.kind] += 1
    return found


def start(settings: Any, program: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", program, msgspec.json.encode(settings).decode()]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_until(settings: Any, seconds: float | None, program: str = "tests.recovery.killed") -> str:
    """Start the program, and kill it so many seconds after it came up; what it has said."""
    with start(settings, program) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        if seconds is not None:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        rest, errors = process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGKILL), f"{settings}\n{errors}"
        assert "Traceback" not in errors, f"{settings}\n{errors}"
        return said + rest


def different(found: Counter[Any], expected: Counter[Any]) -> str:
    missing, extra = expected - found, found - expected
    return f"missing {len(missing)}: {list(missing)[:5]}; too many {len(extra)}: {list(extra)[:5]}"


def series(folder: Path, chance: random.Random, rounds: int, **more: Any) -> int:
    """Kill the program again and again until it gets to its end, or so many rounds are over; gives their number."""
    folder.mkdir()
    hits = write_input(folder / "in", chance.randrange(1 << 30))
    expected = results(hits)
    done = 0
    while True:
        settings = Settings(
            input=str(folder / "in"),
            output=str(folder / "out"),
            checkpoints=str(folder / "checkpoints"),
            parallelism=chance.choice([1, 1, 2, 3]),
            interval=chance.choice([5, 20, 50]),
            **more,
        )
        done += 1
        last = done >= rounds
        said = run_until(settings, None if last else chance.uniform(0.0, 0.3 + 0.02 * done))
        found = committed(folder / "out")
        assert not found - expected, f"round {done}, {settings}: {different(found, expected)}"
        if "done" in said or (found == expected and not list(folder.glob("checkpoints/*/chk-*/MANIFEST"))):
            break  # (killed when it had finished: its checkpoints are let go of, and another start would begin anew)
        assert not last
    assert found == expected, f"after {done} rounds: {different(found, expected)}"
    return done


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb", "unaligned"])
def test_every_result_once(tmp_path: Path, kind: str) -> None:
    if kind == "rocksdb":
        pytest.importorskip("rocksdict")
    more = {"hashmap": {}, "rocksdb": {"backend": "rocksdb"}, "unaligned": {"unaligned": True}}[kind]
    chance = random.Random(None if PROVE else 7)
    seed = chance.randrange(1 << 30)
    print(f"seed {seed}")  # noqa: T201 (shown where the test fails)
    chance.seed(seed)
    left, number = ROUNDS, 0
    while left > 0:
        left -= series(tmp_path / str(number), chance, left, **more)
        number += 1
