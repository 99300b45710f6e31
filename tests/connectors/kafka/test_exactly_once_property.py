"""Random lives of exactly-once writers: whatever crashes, fails and restarts, every value is committed once.

Sixty steps in an ordinary run, 4000 under STREAMLINE_PROFILE=prove.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import Any

from streamline.abc import Batch
from streamline.testing.kafka import KafkaKit

from .test_exactly_once import Run, exactly_once, seen

PROVE = os.environ.get("STREAMLINE_PROFILE") == "prove"
LIVES = 100 if PROVE else 4
STEPS = 40 if PROVE else 15


@dataclass
class Checkpoint:
    """What a completed checkpoint has: how far the source was, and what the sink's subtasks have given."""

    position: int = 0
    committables: list[tuple[int, Any]] = field(default_factory=list)
    states: list[tuple[int, Any]] = field(default_factory=list)


class Life:
    """A job that writes numbers, as the sink's operator drives its writers; and the checkpoints that are complete."""

    def __init__(self, kafka: KafkaKit, topic: str, chance: random.Random) -> None:
        self.chance = chance
        self.sink = exactly_once(kafka, topic, kafka.unique("tx"))
        self.complete: Checkpoint | None = None
        self.position = 0
        self.number = 0
        self.runs: list[Run] = []
        #: By checkpoint: (subtask, committable) of those that are not committed.
        self.pending: dict[int, list[tuple[int, Any]]] = {}
        self.ran: list[str] = []

    async def start(self) -> None:
        """Begin from the last complete checkpoint, at any parallelism."""
        width = self.chance.randint(1, 3)
        self.ran.append(f"start {width} from {None if self.complete is None else self.complete.position}")
        self.runs, self.pending = [Run(self.sink, s, width) for s in range(width)], {}
        found = self.complete
        self.position = 0 if found is None else found.position
        for s, run in enumerate(self.runs):
            if found is None:
                await run.open()
                continue
            mine = [c for of, c in found.committables if of % width == s]
            await run.open(mine, [state for of, state in found.states if of % width == s])
            assert run.lost == 0

    async def write(self) -> None:
        run = self.chance.choice(self.runs)
        count = self.chance.randint(1, 3)
        self.ran.append(f"write {count}")
        await run.writer.write(Batch([str(self.position + n) for n in range(count)]))
        self.position += count

    async def checkpoint(self) -> None:
        """A barrier; the checkpoint completes or not, and the job crashes before, between or after the commits."""
        self.number += 1
        for s, run in enumerate(self.runs):
            committables, _ = await run.checkpoint(self.number)
            self.pending.setdefault(self.number, []).extend((s, c) for c in committables)
        completes, crash = self.chance.random() < 0.7, self.chance.random() < 0.3
        self.ran.append(f"checkpoint {self.number} {completes=} {crash=}")
        if completes:
            held = [c for n in sorted(self.pending) for c in self.pending[n]]
            self.complete = Checkpoint(self.position, held, [(s, r.writer.snapshot()) for s, r in enumerate(self.runs)])
            for n in sorted(self.pending):
                for s, committable in self.pending[n]:
                    if crash and self.chance.random() < 0.5:
                        break  # some are committed, some are not
                    await self.runs[s].writer.commit([committable])
                if not crash:
                    del self.pending[n]
        if crash:
            await self.end()

    async def end(self) -> None:
        """Crash, or close in order; then start again, perhaps several times."""
        for run in self.runs:
            how = self.chance.choice(["crash", "close"])
            self.ran.append(how)
            await (run.crash() if how == "crash" else run.close())
        await self.start()
        if self.chance.random() < 0.3:
            await self.end()


async def test_every_value_is_committed_once(kafka: KafkaKit) -> None:
    seed = random.randrange(1 << 30) if PROVE else 5
    print(f"seed {seed}")  # noqa: T201 (shown where the test fails)
    chance = random.Random(seed)
    for _ in range(LIVES):
        topic = await kafka.create_topic()
        life = Life(kafka, topic, chance)
        await life.start()
        for _ in range(STEPS):
            await chance.choice([life.write, life.write, life.checkpoint, life.end])()
        life.chance = random.Random(0)
        life.number += 1
        committables = []
        for s, run in enumerate(life.runs):
            committables += [(s, c) for n in sorted(life.pending) for of, c in life.pending[n] if of == s]
            committables += [(s, c) for c in (await run.checkpoint(life.number))[0]]
        for s, committable in committables:
            await life.runs[s].writer.commit([committable])
        expected = sorted(str(n) for n in range(life.position))
        assert sorted(await seen(kafka, topic, life.position)) == expected, "\n".join(life.ran)
        for run in life.runs:
            await run.close()
