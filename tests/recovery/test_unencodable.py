"""State that no checkpoint can hold: counted as failed checkpoints, and told so that one knows what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamline import StreamExecutionEnvironment
from streamline.errors import CheckpointException, StateEncodingException
from streamline.functions import KeyedProcessFunction
from streamline.state import MapStateDescriptor, ValueStateDescriptor
from streamline.testing import Delay, MiniJob, ScriptedSource
from tests.recovery.ledger import Ledger

#: No restart strategy: the default with checkpoints is to restart for ever.
EVERY = {"execution.checkpointing.interval": "250 ms"}


class Plain:
    """Nothing that could be kept."""

    def __repr__(self) -> str:
        return "Plain()"


class Remember(KeyedProcessFunction):
    """Keeps what comes."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.last.update(value[1])
        yield value[0]


class RememberAll(Remember):
    """As a map."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_map_state(MapStateDescriptor("all"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.last.put(1, [value[1]])
        yield value[0]


def job(values: list[Any], configuration: dict[str, Any], ends: bool = False, function: Any = Remember) -> MiniJob:
    def build(env: StreamExecutionEnvironment) -> None:
        steps = [step for v in values for step in (("k", v), Delay.of("100 ms"))]
        source = env.from_source(ScriptedSource(steps, ends=ends), name="numbers").uid("numbers")
        kept = source.key_by(lambda v: v[0]).process(function()).name("remember").uid("remember")
        kept.sink_to(ledger).name("ledger").uid("ledger")

    ledger = Ledger()
    return MiniJob(build, configuration=configuration)


PLAIN = r"test_unencodable\.Plain cannot be kept in state: Plain\(\)\. Make it a msgspec\.Struct, a dataclass"


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("function", "state"), [(Remember, "last"), (RememberAll, "all")])
async def test_it_fails_the_job_at_once_and_names_operator_state_and_type(
    tmp_path: Path, stored: bool, function: Any, state: str
) -> None:
    configuration = {**EVERY, "execution.checkpointing.dir": str(tmp_path)} if stored else EVERY
    async with job([1, 2, Plain()], configuration, function=function) as mini:
        before = mini.clock.now()
        text = rf"checkpoint 1 failed: operator 'remember' could not save its state: state '{state}': .*{PLAIN}.*1 in"
        with pytest.raises(CheckpointException, match=text) as caught:
            await mini.wait()
        assert isinstance(caught.value.__cause__, StateEncodingException)
        assert mini.clock.now() - before == 250
        assert await mini.metric("job", "numRestarts") == 0


async def test_on_rocksdb_too(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    configuration = {
        **EVERY,
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(tmp_path / "local"),
    }
    async with job([1, 2, Plain()], configuration) as mini:
        with pytest.raises(CheckpointException, match=rf"operator 'remember' .*state 'last': .*{PLAIN}"):
            await mini.wait()
        assert await mini.metric("job", "numRestarts") == 0


async def test_as_many_as_are_tolerated_may_fail_in_a_row() -> None:
    tolerant = {**EVERY, "execution.checkpointing.tolerable-failed-checkpoints": 2}
    async with job([Plain()], tolerant) as mini:
        before = mini.clock.now()
        with pytest.raises(
            CheckpointException, match="checkpoint 3 failed.*3 in a row have failed, and 2 are tolerated"
        ):
            await mini.wait()
        assert mini.clock.now() - before == 750
    # It is gone before the third: the count begins anew.
    values = [Plain()] * 6 + [1] * 6 + [Plain()] * 5 + [1] * 4
    async with job(values, tolerant, ends=True) as mini:
        await mini.wait()
        # Records come each 100 ms: those at 250, 500, 1250 and 1500 ms.
        assert await mini.metric("job", "numberOfFailedCheckpoints") == 4


async def test_at_the_end_of_the_input() -> None:
    async with job([Plain()], {"execution.checkpointing.interval": "1 h"}, ends=True) as mini:
        text = rf"operator 'remember' has ended, and could not save its state: state 'last': .*{PLAIN}"
        with pytest.raises(CheckpointException, match=text):
            await mini.wait()
        assert await mini.metric("job", "numRestarts") == 0


async def test_a_savepoint_says_so_and_the_job_goes_on(tmp_path: Path) -> None:
    mini = job([Plain(), 1], {})
    client = await mini.start()
    mini.clock.autojump = False
    await mini.settle()
    with pytest.raises(CheckpointException, match=rf"savepoint 1 failed: operator 'remember' .*'last': .*{PLAIN}"):
        await client.trigger_savepoint(str(tmp_path))
    await mini.advance(200)
    assert await client.trigger_savepoint(str(tmp_path))
    await mini.crash()


async def test_a_value_that_breaks_the_encoder_is_named_too() -> None:
    endless: list[Any] = []
    endless.append(endless)
    async with job([endless], EVERY) as mini:
        with pytest.raises(CheckpointException, match="state 'last' cannot be encoded: RecursionError"):
            await mini.wait()


async def test_a_position_of_a_source() -> None:
    class Odd(ScriptedSource):
        def reader(self) -> Any:
            reader = super().reader()
            reader.positions = lambda: {split: Plain() for split in ("0",)}
            return reader

    def build(env: StreamExecutionEnvironment) -> None:
        env.from_source(Odd([1], ends=False), name="odd").print()

    async with MiniJob(build, configuration=EVERY) as mini:
        with pytest.raises(StateEncodingException, match=rf"positions of splits: .*{PLAIN}") as caught:
            await mini.wait()
        assert any("'odd'" in note for note in caught.value.__notes__)
        assert await mini.metric("job", "numRestarts") == 0
