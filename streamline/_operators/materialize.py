"""Complete changelogs as upserts by a key, for sinks that know only one row a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

from streamline._core.changes import RowKind
from streamline._core.declare import StateSpec
from streamline._core.elements import Batch
from streamline.abc import Operator, OperatorContext, Output
from streamline.errors import TableException

__all__ = ("UpsertMaterialize", "Upserts")

_INSERT, _BEFORE, _AFTER, _DELETE = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE


@final
class Upserts(Operator):
    """Drop -U in front of the +U that replaces it; one that is left alone becomes -D.

    Changelog: any whose rows of a key follow each other; out without -U. State: none. Watermarks: passed on. Order:
    kept.
    """

    name = "Upserts"

    def __init__(self, key: Callable[[Any], Any]) -> None:
        """
        Args:
            key: the key of a row.
        """
        self._key = key

    async def on_batch(self, batch: Batch, out: Output) -> None:
        if batch.kinds is None or _BEFORE not in batch.kinds:
            await out.send(batch)
            return
        key = self._key
        rows, kinds = batch.values, batch.kinds
        values: list[Any] = []
        out_kinds: list[RowKind] = []
        last = len(rows) - 1
        for i, (row, kind) in enumerate(zip(rows, kinds)):
            if kind is _BEFORE:
                if i < last and kinds[i + 1] is _AFTER and key(rows[i + 1]) == key(row):
                    continue
                kind = _DELETE
            values.append(row)
            out_kinds.append(kind)
        await out.send(Batch(values, None, out_kinds))


@final
class UpsertMaterialize(Operator):
    """Decide which of several rows of a key is the one that is seen: the query identifies rows by something else.

    Changelog: any; out +I, +U and -D by key. State: the rows of each key, in the order in which they came. Watermarks:
    passed on. Order: kept.
    """

    name = "UpsertMaterialize"
    state: ClassVar[Mapping[str, StateSpec]] = {"rows": StateSpec()}

    def __init__(
        self,
        key: Callable[[Any], Any],
        identity: Callable[[Any], Any],
        spec: StateSpec,
        conflict: str,
        explain: Callable[[Any, Any], str],
    ) -> None:
        """
        Args:
            key: the key of a row.
            identity: what tells rows of a key apart: the query's own key, or the whole row.
            spec: of the rows of a key: (row, how often) by identity.
            conflict: DEDUPLICATE shows the latest row, NOTHING the first one, ERROR fails where a batch leaves two.
            explain: the message for two rows of one key.
        """
        self._key = key
        self._identity = identity
        self._spec = spec
        self._first = conflict == "NOTHING"
        self._single = conflict == "ERROR"
        self._explain = explain

    async def open(self, ctx: OperatorContext) -> None:
        self._rows = ctx.store.table("rows", self._spec)

    async def on_batch(self, batch: Batch, out: Output) -> None:
        data = self._rows.data
        values: list[Any] = []
        kinds: list[RowKind] = []
        shared: dict[Any, None] = {}
        for row, kind in zip(batch.values, batch.kinds or (_INSERT,) * len(batch)):
            key = self._key(row)
            rows = data.get(key) or {}
            before = self._shown(rows)
            if kind is _INSERT or kind is _AFTER:
                self._add(rows, row)
            else:
                self._remove(rows, row)
            after = self._shown(rows)
            if rows:
                data[key] = rows
                if len(rows) > 1:
                    shared[key] = None
            else:
                data.pop(key, None)
            if after is None:
                if before is not None:
                    values.append(before)
                    kinds.append(_DELETE)
            elif before is None or before != after:
                values.append(after)
                kinds.append(_INSERT if before is None else _AFTER)
        if self._single:
            for key in shared:
                rows = data.get(key) or {}
                if len(rows) > 1:
                    first, second = [row for row, _ in rows.values()][:2]
                    raise TableException(self._explain(first, second))
        await out.send(Batch(values, None, kinds))

    def _shown(self, rows: dict[Any, tuple[Any, int]]) -> Any:
        """The row of a key that is seen, None where there is none."""
        if not rows:
            return None
        return next(iter(rows.values()) if self._first else reversed(rows.values()))[0]

    def _add(self, rows: dict[Any, tuple[Any, int]], row: Any) -> None:
        """A row has come: it is the latest, or takes the place of its predecessor where the first counts."""
        identity = self._identity(row)
        known = rows.get(identity)
        if known is not None and not self._first:
            del rows[identity]
        same = known is not None and known[0] == row
        rows[identity] = (row, known[1] + 1 if known is not None and same else 1)

    def _remove(self, rows: dict[Any, tuple[Any, int]], row: Any) -> None:
        identity = self._identity(row)
        known = rows.get(identity)
        if known is None:
            return
        if known[1] > 1:
            rows[identity] = (known[0], known[1] - 1)
        else:
            del rows[identity]
