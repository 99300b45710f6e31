"""A program that keys or keeps its state by another type than before is told so when it is restored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamline import StreamExecutionEnvironment, WatermarkStrategy
from streamline.errors import StateMigrationException
from streamline.functions import KeyedCoProcessFunction, KeyedProcessFunction, MapFunction
from streamline.state import ValueStateDescriptor
from streamline.testing import Delay, MiniJob, ScriptedSource
from streamline.windows import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from tests.recovery.ledger import Ledger
from tests.recovery.test_recovery import PLACES, options

Key = Callable[[int], Any]


LEDGER = Ledger()


class Id(msgspec.Struct, frozen=True):
    n: int


class Other(msgspec.Struct, frozen=True):
    n: int


class Count(KeyedProcessFunction[Any, int, tuple[Any, Any]]):
    """(key, how many of it so far)."""

    def __init__(self, kind: Any = int) -> None:
        self.kind = kind

    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", self.kind))

    def process_element(self, value: int, ctx: Any) -> Any:
        self.n.update((self.n.value() or self.kind()) + self.kind(1))
        yield ctx.get_current_key(), self.n.value()


class CountMap(MapFunction[int, Any]):
    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", int))

    def map(self, value: int) -> Any:
        self.n.update((self.n.value() or 0) + 1)
        return self.n.value()


def build(key: Key, kind: Any = int, shape: str = "process") -> Callable[[StreamExecutionEnvironment], None]:
    def made(env: StreamExecutionEnvironment) -> None:
        steps = [step for i in range(30) for step in (i, Delay.of("100 ms"))]
        source = ScriptedSource(steps)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v * 1000)
        stream = env.from_source(source, strategy, "numbers").uid("numbers")
        keyed = stream.key_by(key)
        minute = TumblingEventTimeWindows.of("1 min")
        counted: Any
        match shape:
            case "process":
                counted = keyed.process(Count(kind))
            case "map":
                counted = keyed.map(CountMap())
            case "reduce":
                counted = keyed.reduce(lambda a, b: a + b)
            case "aligned":
                counted = keyed.window(minute).reduce(lambda a, b: a + b)
            case "elements":
                counted = keyed.window(minute).apply(lambda key, window, values: [sum(values)])
            case "general":
                trigger = PurgingTrigger.of(CountTrigger.of(100))
                counted = keyed.window(GlobalWindows.create()).trigger(trigger).reduce(lambda a, b: a + b)
            case "sessions":
                counted = keyed.window(EventTimeSessionWindows.with_gap("1 min")).reduce(lambda a, b: a + b)
            case "two":
                other = env.from_collection([], int).key_by(key)
                counted = keyed.connect(other).process(Both())
            case _:
                raise AssertionError(shape)
        counted.name("count").uid("count").sink_to(LEDGER).uid("ledger")

    return made


class Both(KeyedCoProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", int))

    def process_element1(self, value: int, ctx: Any) -> Any:
        self.n.update(value)

    def process_element2(self, value: int, ctx: Any) -> Any:
        self.n.update(value)


async def restarted(path: Path, before: Any, after: Any, **more: Any) -> None:
    """Crashes the one program, and goes on with the other to its end."""
    job = MiniJob(before, configuration=options(path, **more))
    await job.start()
    await job.advance("1 s")
    await job.crash()
    again = MiniJob(after, configuration=options(path, **more))
    await again.start()
    await again.wait()


@pytest.mark.parametrize("place", ["directory", "directory, rocksdb", "directory, rocksdb, incremental"])
async def test_another_type_of_key_fails_the_job(tmp_path: Path, place: str) -> None:
    more = {k: v for k, v in PLACES[place].items() if k != "stored"}
    if more:
        pytest.importorskip("rocksdict")
        more["state.backend.rocksdb.localdir"] = str(tmp_path / "local")
    with pytest.raises(
        StateMigrationException,
        match=r"was restored has keys of type int, and the stream is keyed by str now \(by '\d'\)",
    ) as failure:
        await restarted(tmp_path / "state", build(lambda v: v % 3), build(lambda v: str(v % 3)), **more)
    assert any("'count'" in note for note in failure.value.__notes__)


@pytest.mark.parametrize("shape", ["map", "reduce", "aligned", "elements", "general", "sessions", "two"])
async def test_every_keyed_operator_looks(tmp_path: Path, shape: str) -> None:
    await restarted(tmp_path / "same", build(lambda v: v % 3, shape=shape), build(lambda v: v % 3, shape=shape))
    with pytest.raises(StateMigrationException, match="has keys of type int, and the stream is keyed by str now"):
        await restarted(tmp_path, build(lambda v: v % 3, shape=shape), build(lambda v: str(v % 3), shape=shape))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (lambda v: ("a", v % 3), lambda v: ("a", str(v % 3)), r"tuple\[str, int\], .* by tuple\[str, str\]"),
        (lambda v: (v % 3,), lambda v: v % 3, r"tuple\[int\], .* by int"),
        (lambda v: Id(v % 3), lambda v: v % 3, "Id, .* by int"),
        (lambda v: Id(v % 3), lambda v: Other(v % 3), "Id, .* by Other"),
        (lambda v: b"x", lambda v: "x", "bytes, .* by str"),
    ],
)
async def test_what_is_another_type(tmp_path: Path, before: Key, after: Key, said: str) -> None:
    with pytest.raises(StateMigrationException, match=said):
        await restarted(tmp_path, build(before), build(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda v: v % 3, lambda v: float(v % 3)),
        (lambda v: v % 2, lambda v: v % 2 == 1),
        (lambda v: None, lambda v: "a"),
        (lambda v: "a", lambda v: None),
        (lambda v: ("a", None), lambda v: ("a", v)),
        (lambda v: [1, "x"][v % 2], lambda v: [1, "x"][v % 2]),
        (lambda v: Id(v % 3), lambda v: Id(v % 3)),
    ],
)
async def test_keys_that_may_be_equal_go_together(tmp_path: Path, before: Key, after: Key) -> None:
    await restarted(tmp_path, build(before), build(after))


async def test_another_type_of_value_names_operator_state_and_types(tmp_path: Path) -> None:
    with pytest.raises(StateMigrationException, match="'n' was written as int and is declared as str now") as failure:
        await restarted(tmp_path, build(lambda v: v % 3), build(lambda v: v % 3, str))
    assert any("'count'" in note for note in failure.value.__notes__)
    await restarted(tmp_path / "wider", build(lambda v: v % 3), build(lambda v: v % 3, float))
