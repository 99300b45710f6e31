"""What programs get wrong: told where it was written, else with the first record, with the record and what to do."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest

from streamline import (
    AsyncDataStream,
    CheckpointException,
    DataStream,
    Row,
    StreamExecutionEnvironment,
    Types,
    ValidationException,
)
from streamline.functions import FlatMapFunction
from streamline.testing import ScriptedSource, VirtualClock, settle
from streamline.windows import TumblingEventTimeWindows

AGGREGATIONS = ["sum", "min", "max", "min_by", "max_by"]


def environment(parallelism: int = 1) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


async def rows(stream: DataStream[Any]) -> list[Any]:
    async with stream.execute_and_collect() as it:
        return [x async for x in it]


class Trade(msgspec.Struct):
    symbol: str
    price: int


class Named(NamedTuple):
    symbol: str
    price: int


@dataclass
class Data:
    symbol: str
    price: int


class Plain:
    def __init__(self, symbol: str, price: int) -> None:
        self.symbol = symbol
        self.price = price

    @property
    def twice(self) -> int:
        return 2 * self.price


# -- aggregations by field -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", AGGREGATIONS)
@pytest.mark.parametrize(
    ("record", "field", "message"),
    [
        (("a", 1), 2, "have no field number 2: they have 2 fields"),
        (("a", 1), "zz", "have no field 'zz': their fields have no names; tell it by its number, 0 to 1"),
        (Trade("a", 1), "zz", "Trade have no field 'zz': they have symbol, price"),
        (Named("a", 1), "zz", "Named have no field 'zz': they have symbol, price"),
        (Data("a", 1), "zz", "Data have no field 'zz': they have symbol, price"),
        (Row(symbol="a", price=1), "zz", "have no field 'zz': they have symbol, price"),
        (Trade("a", 1), 5, "have no field number 5"),
        (7, 1, "int and have no fields"),
        (7, "zz", "int and have no fields"),
    ],
)
def test_a_field_that_the_known_type_has_not_is_refused_when_built(
    method: str, record: Any, field: Any, message: str
) -> None:
    keyed = environment().from_elements(record).key_by(lambda r: 0)
    with pytest.raises(ValidationException, match=f"^{method}: .*{message}"):
        getattr(keyed, method)(field)


@pytest.mark.parametrize("method", AGGREGATIONS)
@pytest.mark.parametrize(
    ("record", "field", "message"),
    [
        (("a", 1), "zz", "tuple has no field 'zz': its fields are told by number, 0 to 1"),
        (("a", 1), 2, "tuple has no field number 2"),
        ({"a": 1}, "zz", "dict has no field 'zz': it has a"),
        (Row(symbol="a"), "zz", "Row has no field 'zz': it has symbol"),
        (Trade("a", 1), "zz", "Trade has no field 'zz': it has symbol, price"),
        (Plain("a", 1), "zz", "Plain has no field 'zz': it has symbol, price"),
        (7, 1, "int has no field number 1: it is no record of fields"),
    ],
)
async def test_a_missing_field_is_noticed_with_the_first_record(
    method: str, record: Any, field: Any, message: str
) -> None:
    untyped = environment().from_elements(record).map(lambda v: v)
    with pytest.raises(ValidationException, match=message) as failure:
        await rows(getattr(untyped.key_by(lambda r: 0), method)(field))
    assert failure.value.__notes__[-1] == f"in operator '{method}' of job 'streamline job'"
    assert failure.value.__notes__[0].startswith("record: ")


@pytest.mark.parametrize("method", AGGREGATIONS)
async def test_a_missing_field_is_noticed_in_a_window_of_one_record(method: str) -> None:
    stream = environment().from_source(ScriptedSource("a 1 @ 1")).key_by(lambda r: r[0])
    with pytest.raises(ValidationException, match="has no field number 2") as failure:
        await rows(getattr(stream.window(TumblingEventTimeWindows.of(10)), method)(2))
    assert "in operator 'window' of job 'streamline job'" in failure.value.__notes__
    typed = environment().from_source(ScriptedSource("a 1 @ 1"), type_info=Types.TUPLE([str, int]))
    with pytest.raises(ValidationException, match=f"{method}: .* no field number 2"):
        getattr(typed.key_by(lambda r: r[0]).window(TumblingEventTimeWindows.of(10)), method)(2)


async def test_what_cannot_be_summed_or_compared_is_said() -> None:
    keyed = environment().from_elements(("a", "b")).key_by(lambda r: r[0])
    with pytest.raises(ValidationException, match="sum: field 1 .* is STRING, and is no number"):
        keyed.sum(1)
    untyped = environment().from_elements(("a", "b", None)).map(lambda v: v).key_by(lambda r: r[0])
    with pytest.raises(ValidationException, match="str cannot be summed: 'b' in field 1"):
        await rows(untyped.sum(1))
    with pytest.raises(ValidationException, match="NoneType has no order: None in field 2"):
        await rows(untyped.max(2))
    assert await rows(untyped.max(1)) == [("a", "b", None)]


async def test_fields_that_only_the_records_know_are_found() -> None:
    keyed = environment().from_elements(Plain("a", 1), Plain("a", 3)).key_by(lambda r: r.symbol)
    assert [p.price for p in await rows(keyed.max_by("twice"))] == [1, 3]


@pytest.mark.parametrize("bad", [True, -1, None, 1.5])
def test_what_tells_no_field_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationException, match=r"by its number \(from 0\) or its name"):
        environment().from_elements(("a", 1)).key_by(lambda r: 0).sum(bad)


# -- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    "key",
    [
        lambda v: "a" if v < 3 else Plain("a", v),
        lambda v: ("a", v) if v < 3 else (Plain("a", v), v),
        lambda v: ("a", (v, "b")) if v < 3 else ("a", (v, Plain("b", v))),
        lambda v: None if v < 3 else [v],
    ],
    ids=["after text", "in a tuple", "in a tuple in a tuple", "list after None"],
)
async def test_every_key_of_a_batch_has_to_have_a_value(key: Callable[[int], Any], parallelism: int) -> None:
    stream = environment(parallelism).from_collection([1, 2, 3, 4]).key_by(key)
    with pytest.raises(ValidationException, match="cannot be a key") as failure:
        await rows(stream.reduce(lambda a, b: a + b))
    assert failure.value.__notes__.count("record: 3") == 1


async def test_keys_of_many_classes_are_keys() -> None:
    keys = [1, "a", None, (1, "a"), (1, ("a", None)), Named("a", 1), b"a", 1.5, frozenset({1})]
    stream = environment().from_collection([*range(9), *range(9)]).key_by(lambda v: keys[v])
    assert await rows(stream.reduce(lambda a, b: a + b)) == [*range(9), *(2 * v for v in range(9))]


# -- flat_map --------------------------------------------------------------------------------------------------------


class Same(FlatMapFunction[int, int]):
    def flat_map(self, value: int) -> Any:
        return value


async def later(value: int) -> Any:
    return value


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("function", [lambda v: v, later, lambda v: later(v), Same()])
async def test_flat_map_takes_something_to_iterate(function: Any, keyed: bool) -> None:
    stream: Any = environment().from_elements(5)
    stream = stream.key_by(lambda v: v) if keyed else stream
    with pytest.raises(ValidationException, match="flat_map takes an iterable .* returned int: 5.* use map") as failure:
        await rows(stream.flat_map(function))
    assert "record: 5" in failure.value.__notes__


# -- restore ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [5, "", " ", True, ["latest"]])
async def test_what_is_no_place_to_restore_from_is_refused(bad: Any) -> None:
    env = environment()
    env.from_elements(1).map(lambda v: v)
    with pytest.raises(ValidationException, match="restore takes 'latest', the path .* or None to start anew, not"):
        await env.execute(restore=bad)


async def test_a_path_without_a_checkpoint_says_what_to_give(
    tmp_path: pathlib.Path, virtual_clock: VirtualClock
) -> None:
    def program(ends: bool) -> StreamExecutionEnvironment:
        env = environment()
        env.enable_checkpointing("1 h", storage=f"file:{tmp_path}/store")
        keyed = env.from_source(ScriptedSource([1], ends=ends), name="s").key_by(lambda v: v)
        keyed.reduce(lambda a, b: a + b).uid("r").add_sink(out.append)
        return env

    out: list[int] = []
    with pytest.raises(CheckpointException, match="there is nothing, no MANIFEST. Give the path of a checkpoint"):
        await program(True).execute("job", restore=f"{tmp_path}/nothing")
    async with await program(False).execute_async("job") as job:
        await settle()
        savepoint = pathlib.Path((await job.trigger_savepoint()).removeprefix("file://"))
    with pytest.raises(CheckpointException, match=f"There are .*{savepoint.name} in it: give the path of one"):
        await program(True).execute("job", restore=str(savepoint.parent))
    await program(True).execute("job", restore=savepoint)
    await program(True).execute("job", restore=f"file:{savepoint}")
    assert out == [1]


# -- numbers and names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, 1.5, "3", True])
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(ValidationException, match="the limit has to be an int of at least 1"):
        environment().from_elements(1).execute_and_collect(limit=limit)


@pytest.mark.parametrize(("start", "end"), [(5, 3), ("a", 3), (1.5, 3), (1, None)])
def test_a_sequence_goes_up_in_whole_numbers(start: Any, end: Any) -> None:
    with pytest.raises(ValidationException, match=r"sequence"):
        environment().from_sequence(start, end)


@pytest.mark.parametrize("size", [0, 2.5, "2", True])
def test_count_windows_have_a_whole_size(size: Any) -> None:
    stream = environment().from_elements(1)
    with pytest.raises(ValidationException, match="positive size and slide"):
        stream.key_by(lambda v: v).count_window(size)
    with pytest.raises(ValidationException, match="positive size and slide"):
        stream.count_window_all(2, size) if size != 0 else stream.count_window_all(size)


@pytest.mark.parametrize("bad", [5, "", " ", None])
async def test_names_are_texts(bad: Any) -> None:
    env = environment()
    stream = env.from_elements(1).map(lambda v: v)
    with pytest.raises(ValidationException, match="the name has to be a text that is not empty"):
        stream.name(bad)
    with pytest.raises(ValidationException, match="the uid has to be a text that is not empty"):
        stream.uid(bad)
    if bad is not None:
        with pytest.raises(ValidationException, match="the job's name has to be a text"):
            await env.execute(bad)
        with pytest.raises(ValidationException, match="the checkpoint storage has to be a text"):
            env.enable_checkpointing(5, storage=bad)


async def test_a_parallelism_above_the_max_parallelism_is_refused() -> None:
    env = environment()
    env.from_elements(1).map(lambda v: v).name("wide").set_max_parallelism(2).set_parallelism(4)
    with pytest.raises(ValidationException, match="the parallelism of 'wide' is 4, above its max parallelism of 2"):
        await env.execute()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parallelism.default": 0}, r"parallelism\.default has to be positive, not 0"),
        ({"parallelism.default": -3}, r"parallelism\.default has to be positive, not -3"),
        ({"pipeline.max-parallelism": 0}, r"1\.\.32768, not 0"),
        ({"pipeline.max-parallelism": 99999}, r"1\.\.32768, not 99999"),
    ],
)
async def test_a_parallelism_by_key_is_one_too(options: dict[str, Any], message: str) -> None:
    env = StreamExecutionEnvironment(options)
    env.from_elements(1).map(lambda v: v)
    with pytest.raises(ValidationException, match=message):
        await env.execute()


def test_what_is_no_stream_is_refused() -> None:
    stream = environment().from_elements(1)
    for method in ("join", "co_group", "connect"):
        with pytest.raises(ValidationException, match=f"{method} needs another stream, not 5"):
            getattr(stream, method)(5)
    with pytest.raises(ValidationException, match="async I/O needs a stream"):
        AsyncDataStream.unordered_wait([1], later, "1 s")  # type: ignore[arg-type]
    with pytest.raises(ValidationException, match="the capacity has to be positive"):
        AsyncDataStream.unordered_wait(stream, later, "1 s", capacity="5")  # type: ignore[arg-type]
    with pytest.raises(ValidationException, match="job parameters are a mapping"):
        environment().get_config().set_global_job_parameters(5)  # type: ignore[arg-type]
