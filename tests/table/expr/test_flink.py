"""Expressions beside what Flink makes of them; see data/README.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from streamline._core import types as t
from streamline._core.types import DataType
from streamline.errors import StreamlineError
from streamline.table.codegen.expressions import compile_scalar
from streamline.table.expr.functions import conversions
from streamline.table.parse import parse_data_type, parse_expression
from tests.table.expr.support import binder_of, context_of, normal, shown

_DATA = Path(__file__).parent / "data"


class Group:
    """Rows, and expressions over them with what is known of each."""

    def __init__(self, head: dict[str, Any]) -> None:
        self.head = head
        self.cases: list[list[Any]] = []

    def __repr__(self) -> str:
        return f"{','.join(self.head['types'])} {self.cases[0][0]}"

    @cached_property
    def columns(self) -> list[tuple[str, DataType]]:
        return [(chr(ord("a") + i), parse_data_type(kind)) for i, kind in enumerate(self.head["types"])]

    def evaluate(self, sql: str) -> tuple[DataType, list[Any]] | None:
        """Type and values of an expression; None where it raises."""
        context = context_of(self.head.get("config", {}).get("table.local-time-zone", "UTC"))
        readers = [conversions.function(t.STRING, type_, context) for _, type_ in self.columns]
        try:
            bound = binder_of(self.columns, context).bind(parse_expression(sql).ast)
            function = compile_scalar(bound, context)
            rows = [tuple(None if x is None else read(x) for x, read in zip(row, readers)) for row in self.head["rows"]]
            return bound.type, [shown(function(row), bound.type) for row in rows]
        except StreamlineError:
            return None


def _groups(name: str) -> Iterator[Group]:
    group: Group | None = None
    for line in (_DATA / name).read_text("utf-8").splitlines():
        entry = json.loads(line)
        if isinstance(entry, dict):
            if group is not None:
                yield group
            group = Group(entry)
        else:
            assert group is not None
            group.cases.append(entry)
    if group is not None:
        yield group


@pytest.mark.parametrize("group", [*_groups("flink.jsonl")], ids=repr)
def test_as_flink(group: Group) -> None:
    wrong = []
    for sql, type_, answer in group.cases:
        found = group.evaluate(sql)
        if found is None or type_ is None:
            same = found is None and type_ is None
        else:
            same = found[0].materialized().summary(short=True) == type_ and found[1] == [
                normal(x, found[0]) for x in answer
            ]
        if not same:
            wrong.append((sql, type_, answer, found))
    assert not wrong


@pytest.mark.parametrize("group", [*_groups("differences.jsonl")], ids=repr)
def test_differences(group: Group) -> None:
    wrong = []
    for sql, _why, *ours in group.cases:
        found = group.evaluate(sql)
        expected = None if ours == [None] else ours
        if (None if found is None else [found[0].materialized().summary(short=True), found[1]]) != expected:
            wrong.append((sql, expected, found))
    assert not wrong
