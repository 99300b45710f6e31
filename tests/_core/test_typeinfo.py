from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest

from streamline._core.changes import Row
from streamline._core.typeinfo import Types, from_data_type, infer, returned, to_data_type
from streamline.errors import ValidationException


class Order(msgspec.Struct):
    orderId: int
    amount: Decimal
    at: dt.datetime


@dataclass
class Person:
    name: str
    age: int
    nick: str | None = None
    rank: int | None = None


class Pair(NamedTuple):
    a: str
    b: float


class Typed(TypedDict):
    x: int
    y: list[int]


class Holder(msgspec.Struct):
    order: Order | None
    orders: list[Order]
    attrs: dict[str, int]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (Types.STRING(), "VARCHAR(2147483647)"),
        (Types.BIG_DEC(), "DECIMAL(38, 18)"),
        (Types.INSTANT(), "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        (Types.SQL_TIMESTAMP(), "TIMESTAMP(3)"),
        (Types.SQL_TIME(), "TIME(0)"),
        (Types.LONG(), "BIGINT NOT NULL"),
        (Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()]), "ROW<`name` VARCHAR(2147483647), `age` INT>"),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), "ROW<`f0` VARCHAR(2147483647), `f1` BIGINT NOT NULL>"),
        (Types.MAP(Types.STRING(), Types.LONG()), "MAP<VARCHAR(2147483647), BIGINT>"),
        (Types.OBJECT_ARRAY(Types.LONG()), "ARRAY<BIGINT>"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "VARBINARY(2147483647)"),
        (tuple[str, int], "ROW<`f0` VARCHAR(2147483647), `f1` BIGINT NOT NULL>"),
        (int | None, "BIGINT"),
        (list[int], "ARRAY<BIGINT>"),
        (dict[str, float], "MAP<VARCHAR(2147483647), DOUBLE>"),
        (dt.datetime, "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (dt.timedelta, "INTERVAL SECOND(3)"),
    ],
)
def test_types_to_data_types(spec: Any, text: str) -> None:
    assert str(to_data_type(spec)) == text


def fields(spec: Any) -> list[tuple[str, str]]:
    return [(f.name, f.type.summary(short=True)) for f in to_data_type(spec).fields]


def test_classes_keep_the_declared_order_and_only_plain_numbers_are_not_null() -> None:
    assert fields(Order) == [
        ("orderId", "BIGINT NOT NULL"),
        ("amount", "DECIMAL(38, 18)"),
        ("at", "TIMESTAMP_LTZ(6)"),
    ]
    assert fields(Person) == [
        ("name", "STRING"),
        ("age", "BIGINT NOT NULL"),
        ("nick", "STRING"),
        ("rank", "BIGINT"),
    ]
    assert fields(Pair) == [("a", "STRING"), ("b", "DOUBLE NOT NULL")]
    assert fields(Typed) == [("x", "BIGINT NOT NULL"), ("y", "ARRAY<BIGINT>")]
    holder = to_data_type(Holder)
    assert holder.root == "STRUCTURED" and holder.cls is Holder
    assert [f.type.root for f in holder.fields] == ["STRUCTURED", "ARRAY", "MAP"]
    assert holder.fields[0].type.nullable


@pytest.mark.parametrize("spec", [None, Any, object, dict, type("Plain", (), {})])
def test_a_type_without_columns_is_refused_and_says_how_to_declare(spec: Any) -> None:
    with pytest.raises(ValidationException, match="type_info="):
        to_data_type(spec)


def test_from_data_type_loses_what_type_information_cannot_hold() -> None:
    assert from_data_type(to_data_type(Types.BIG_DEC())) == Types.BIG_DEC()
    assert from_data_type(to_data_type(list[int])) == Types.OBJECT_ARRAY(Types.LONG())
    assert from_data_type(to_data_type(bytes)) == Types.PRIMITIVE_ARRAY(Types.BYTE())
    assert from_data_type(to_data_type(Types.ROW_NAMED(["a"], [Types.INT()]))) == Types.ROW_NAMED(["a"], [Types.INT()])
    assert from_data_type(to_data_type(Person)) is Person


def test_the_first_element_tells_and_later_ones_fill_gaps() -> None:
    assert infer([("a", 1)]) == Types.TUPLE([str, int])
    assert infer([("a", None), (None, 2.5)]) == Types.TUPLE([str, float])
    assert infer([Row(name="x", age=None), Row(name=None, age=3)]) == Types.ROW_NAMED(["name", "age"], [str, int])
    assert infer([Person("a", 1)]) is Person
    assert infer([None, 7]) is int
    assert infer([True]) is bool
    assert infer([{"a": 1}]) is None
    assert infer([]) is None


def test_row_fields_are_nullable_tuple_numbers_are_not() -> None:
    assert fields(infer([Row("a", 1)])) == [("f0", "STRING"), ("f1", "BIGINT")]
    assert fields(infer([("a", 1)])) == [("f0", "STRING"), ("f1", "BIGINT NOT NULL")]


def test_return_annotations() -> None:
    def one(_: Any) -> Person: ...
    def many(_: Any) -> Iterator[tuple[str, int]]: ...
    async def later(_: Any) -> int: ...
    async def stream(_: Any) -> AsyncIterator[str]: ...
    def silent(_: Any): ...  # type: ignore[no-untyped-def]
    def maybe(_: Any) -> int | None: ...

    assert returned(one) is Person
    assert returned(many, elements=True) == tuple[str, int]
    assert returned(later) is int
    assert returned(stream, elements=True) is str
    assert returned(silent) is None
    assert returned(maybe, elements=True) is int
    assert returned(Person) is Person
    assert returned(lambda x: x) is None
