"""Functions of a whole partition, called when the input has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from functools import reduce
from itertools import repeat
from typing import Any, final

from streamline._core.copying import copy_value
from streamline._core.failure import note_value
from streamline._operators.calls import Kinds
from streamline._operators.function import FunctionLife, instance, method_of
from streamline._operators.keys import Keys
from streamline._operators.results import Held, Sides, expand
from streamline._operators.window.incremental import Incremental
from streamline.abc import (
    PAUSE_EVERY,
    Barrier,
    Batch,
    KeyedStore,
    Operator,
    OperatorContext,
    Output,
    StateSpec,
    StateTable,
)

__all__ = ("AccumulatePartition", "CollectPartition")


class _AtEnd(Operator):
    """Keeps what it needs of every key (or of the whole subtask), and gives results at the end of the input.

    Changelog: insert-only. State: per key, or (without a selector) of the subtask, until the end. Watermarks: the final
    one is passed on before the results, which carry no timestamps. Order: keys as they came.
    """

    def __init__(self, selector: Callable[[Any], Any] | None) -> None:
        self._keys = None if selector is None else Keys(selector)
        self._sides = Sides()
        self._held = Held(self._sides)
        self._store: KeyedStore
        self._table: StateTable | None = None
        #: Without keys: {None: what is kept}, which lies in operator state.
        self._own: dict[Any, Any] = {}

    async def open(self, ctx: OperatorContext) -> None:
        if self._keys is not None:
            self._store = ctx.store
            self._keys.expect(ctx.store)
            self._table = ctx.store.table("partition", self.state["partition"])

    def _data(self) -> MutableMapping[Any, Any]:
        return self._own if self._table is None else self._table.data

    def _keys_of(self, values: Sequence[Any]) -> Iterable[Any]:
        return repeat(None) if self._keys is None else self._keys.of(values)


@final
class CollectPartition(_AtEnd):
    """Calls a function with all records of a key (or subtask): map_partition and sort_partition."""

    name = "map_partition"
    state = {"partition": StateSpec(kind="list")}

    def __init__(self, function: Any, method: str, selector: Callable[[Any], Any] | None) -> None:
        super().__init__(selector)
        self._function = instance(function)
        self._call = method_of(self._function, method)
        self._life = FunctionLife(self._function)
        self._kinds = Kinds((list,))

    async def open(self, ctx: OperatorContext) -> None:
        await super().open(ctx)
        if self._keys is None:
            self._own[None] = ctx.operator_store.list_state("partition", StateSpec())
        await self._life.open(ctx, self._keys is not None)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        data = self._data()
        for key, value in zip(self._keys_of(batch.values), batch.values):
            found = data.get(key)
            if found is None:
                data[key] = [value]
            else:
                found.append(value)
                data[key] = found

    async def on_end(self, out: Output) -> None:
        for key, values in list(self._data().items()):
            if self._keys is not None:
                self._store.key = key
            elif not values:
                continue
            try:
                result = self._call(list(values))
                self._kinds.learn({type(result)} - {type(None)})
                async for run in expand(result, self._kinds):
                    if self._held.add(run, None):
                        await self._held.flush(out)
                await out.pause()
            except Exception as e:
                if key is not None:
                    note_value(e, key, "key")
                raise
        await self._held.flush(out)

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self._life.snapshot(barrier)

    async def close(self) -> None:
        await self._life.close()


@final
class AccumulatePartition(_AtEnd):
    """Combines all records of a key (or subtask) as they come: reduce and aggregate of a full window."""

    name = "partition_aggregate"
    state = {"partition": StateSpec(copy=copy_value)}

    def __init__(self, incremental: Incremental, selector: Callable[[Any], Any] | None) -> None:
        super().__init__(selector)
        self._incremental = incremental
        self._kept: list[Any] = []

    async def open(self, ctx: OperatorContext) -> None:
        await super().open(ctx)
        if self._keys is None:
            self._kept = ctx.operator_store.list_state("partition", StateSpec())
            if self._kept:
                self._own[None] = reduce(self._incremental.merge, self._kept)
        await self._incremental.life.open(ctx, self._keys is not None)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        data, incremental = self._data(), self._incremental
        for key, value in zip(self._keys_of(batch.values), batch.values):
            try:
                if key in data:
                    data[key] = incremental.add(value, data[key])
                elif incremental.create is None:
                    data[key] = value
                else:
                    data[key] = incremental.add(value, incremental.create())
            except Exception as e:
                note_value(e, value)
                raise

    async def on_end(self, out: Output) -> None:
        for n, accumulator in enumerate(list(self._data().values())):
            if n % PAUSE_EVERY == 0:
                await out.pause()
            if self._held.add((self._incremental.result_of(accumulator),), None):
                await self._held.flush(out)
        await self._held.flush(out)

    async def on_barrier(self, barrier: Barrier, out: Output) -> None:
        await self._incremental.life.snapshot(barrier)
        if self._keys is None:
            self._kept[:] = self._own.values()

    async def close(self) -> None:
        await self._incremental.life.close()
