"""Values come back from bytes equal and of the same type; classes may have changed meanwhile."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import sys
import types
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline._core.changes import Change, Row, RowKind
from streamline._state.classes import Classes, Undeclared
from streamline._state.codec import decode_column, encode_columns, read_columns
from streamline.errors import CheckpointException, ValidationException


class Click(msgspec.Struct):
    visitor: str
    n: int = 0


class Sealed(msgspec.Struct, frozen=True, kw_only=True, tag="sealed"):
    a: int
    b: list[int]


@dataclasses.dataclass
class Order:
    id: int
    lines: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(init=False, default=7)


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


class UserId(str):
    __slots__ = ()


def round_trip(values: list[Any], *hints: Any) -> list[Any]:
    ((n, node),) = read_columns(encode_columns([values]))
    return decode_column(n, node, Classes(*hints))


def same(a: Any, b: Any) -> bool:
    """Equal, of the same type, all the way down; NaN is itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return repr(a) == repr(b)
    if isinstance(a, (list, tuple, deque)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(k, j) and same(v, w) for (k, v), (j, w) in zip(a.items(), b.items()))
    if isinstance(a, Decimal):
        return a.as_tuple() == b.as_tuple()
    if isinstance(a, dt.datetime):
        return a == b and str(a.tzinfo) == str(b.tzinfo) and a.fold == b.fold
    return bool(a == b)


atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=())),
    st.binary(max_size=5),
    st.decimals(allow_nan=False),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.datetimes(timezones=st.sampled_from([zoneinfo.ZoneInfo("Europe/Berlin"), zoneinfo.ZoneInfo("Asia/Kolkata")])),
    st.timedeltas(),
    st.uuids(),
    st.sampled_from([*Colour, *RowKind, Level.LOW, UserId("u"), complex(1, -2), bytearray(b"x")]),
)
hashable = st.one_of(st.integers(), st.text(max_size=3), st.tuples(st.integers(), st.text(max_size=2)))
values = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(hashable, inner, max_size=3),
        st.sets(hashable, max_size=3),
        st.frozensets(hashable, max_size=3),
        st.builds(Click, st.text(max_size=3), st.integers()),
        st.builds(Sealed, a=st.integers(), b=st.lists(st.integers(), max_size=2)),
        st.builds(Point, st.integers(), st.floats(allow_nan=False)),
        st.builds(Order, st.integers(), st.lists(st.tuples(st.text(max_size=2), st.integers()), max_size=2)),
        st.builds(lambda a, b: Row(a, b), inner, inner),
        st.builds(lambda a, k: Row.with_names(("a",), [a], k), inner, st.sampled_from(RowKind)),
        st.builds(Change, st.sampled_from(RowKind), inner),
        st.builds(lambda v: deque(v, 5), st.lists(inner, max_size=3)),
        st.builds(lambda v: defaultdict(list, v), st.dictionaries(hashable, inner, max_size=2)),
        st.builds(OrderedDict, st.dictionaries(hashable, inner, max_size=2)),
        st.builds(Counter, st.text(max_size=4)),
    ),
    max_leaves=8,
)


@given(st.lists(values, max_size=6))
def test_any_mixture_comes_back(column: list[Any]) -> None:
    assert same(round_trip(column), column)


@given(st.lists(st.tuples(st.integers(), st.text(max_size=3), st.one_of(st.none(), st.builds(Click, st.text())))))
def test_columns_of_one_shape(column: list[Any]) -> None:
    assert same(round_trip(column), column)


def test_every_kind_alone_and_empty() -> None:
    column: list[Any] = [
        float("nan"),
        Decimal("sNaN"),
        (),
        [],
        {},
        set(),
        frozenset(),
        deque(),
        Row(),
        UUID(int=0),
        defaultdict(int),
        Decimal("1.50"),
    ]
    for value in column:
        assert same(round_trip([value, value]), [value, value])
    assert round_trip([]) == []
    assert round_trip([defaultdict(list)])[0]["new"] == []


def test_a_dataclass_comes_back_as_it_was() -> None:
    order = Order(1)
    order.total = 99
    assert round_trip([order]) == [order]


def test_what_cannot_be_kept_is_named() -> None:
    class Plain:
        pass

    with pytest.raises(ValidationException, match=r"Plain cannot be kept in state.*msgspec\.Struct, a dataclass"):
        encode_columns([[1, Plain()]])
    with pytest.raises(ValidationException, match="factory"):
        encode_columns([[defaultdict(lambda: 1)]])


def test_damaged_bytes_are_refused() -> None:
    data = encode_columns([[1, 2, 3]])
    with pytest.raises(CheckpointException, match="cannot be read"):
        read_columns(data[:-1])


# -- classes change ------------------------------------------------------------------------------------------------


def made(module: str, name: str, base: Any, body: dict[str, Any]) -> Any:
    """A class of the given module, put in the place of the one that was there."""
    annotations = {k: v[0] for k, v in body.items()}
    defaults = {k: v[1] for k, v in body.items() if len(v) > 1}
    cls = type(base)(name, (base,), {"__annotations__": annotations, "__module__": module, **defaults})
    if base is object:
        cls = dataclasses.dataclass(cls)
    sys.modules.setdefault(module, types.ModuleType(module))
    setattr(sys.modules[module], name, cls)
    return cls


@pytest.mark.parametrize("base", [msgspec.Struct, object], ids=["Struct", "dataclass"])
def test_fields_come_and_go(base: Any) -> None:
    old = made("evolving", "Thing", base, {"a": (int,), "gone": (str,), "b": (str,)})
    data = encode_columns([[old(1, "x", "y"), old(2, "x", "z")]])
    new = made(
        "evolving",
        "Thing",
        base,
        {
            "b": (str,),
            "a": (int,),
            "added": (
                list[int],
                msgspec.field(default_factory=list)
                if base is msgspec.Struct
                else dataclasses.field(default_factory=list),
            ),
            "more": (int, 5),
        },
    )
    ((n, node),) = read_columns(data)
    first, second = decode_column(n, node, Classes())
    assert (type(first), first.a, first.b, first.added, first.more) == (new, 1, "y", [], 5)
    assert (second.a, second.b) == (2, "z")
    assert first.added is not second.added


def test_a_new_field_needs_a_default() -> None:
    old = made("evolving", "Other", msgspec.Struct, {"a": (int,)})
    data = encode_columns([[old(1)]])
    made("evolving", "Other", msgspec.Struct, {"a": (int,), "added": (int,)})
    ((n, node),) = read_columns(data)
    with pytest.raises(CheckpointException, match=r"Other has a new field 'added'.*give it a default"):
        decode_column(n, node, Classes())


def test_a_type_may_widen_and_not_change() -> None:
    old = made("evolving", "Typed", msgspec.Struct, {"a": (int,)})
    data = encode_columns([[old(1)]])
    ((n, node),) = read_columns(data)
    made("evolving", "Typed", msgspec.Struct, {"a": (int | None,)})
    assert decode_column(n, node, Classes())[0].a == 1
    made("evolving", "Typed", msgspec.Struct, {"a": (str,)})
    with pytest.raises(CheckpointException, match=r"Typed\.a was int when the state was written and is str now"):
        decode_column(n, node, Classes())


def test_a_class_that_is_gone_is_named() -> None:
    old = made("evolving", "Vanishing", msgspec.Struct, {"a": (int,)})
    data = encode_columns([[old(1)]])
    del sys.modules["evolving"].Vanishing  # type: ignore[attr-defined]
    del old
    Classes._described.clear()
    Classes._observed.clear()
    ((n, node),) = read_columns(data)
    with pytest.raises(CheckpointException, match=r"evolving\.Vanishing, and the program has no such class"):
        decode_column(n, node, Classes())


def test_a_moved_class_is_found_by_the_declared_type() -> None:
    old = made("before", "Moved", msgspec.Struct, {"a": (int,)})
    data = encode_columns([[old(1)]])
    del sys.modules["before"], old
    Classes._described.clear()
    Classes._observed.clear()
    new = made("after", "Moved", msgspec.Struct, {"a": (int,)})
    ((n, node),) = read_columns(data)
    assert decode_column(n, node, Classes(dict[str, list[new]])) == [new(1)]


def test_nothing_but_data_classes_is_made() -> None:
    """A file that names any other class of the program gets nowhere."""
    ((n, node),) = read_columns(encode_columns([[Click("a")]]))
    node[1][:2] = ["subprocess", "Popen"]
    with pytest.raises(CheckpointException, match=r"subprocess\.Popen"):
        decode_column(n, node, Classes())
    node[1][:2] = ["antigravity", "Flight"]
    with pytest.raises(CheckpointException, match=r"antigravity\.Flight"):
        decode_column(n, node, Classes())
    assert "antigravity" not in sys.modules


def test_classes_made_in_functions_wait_for_their_declaration() -> None:
    class Local(msgspec.Struct):
        a: int

    ((n, node),) = read_columns(encode_columns([[Local(1)]]))
    with pytest.raises(Undeclared):
        decode_column(n, node, Classes(wait=True))
    assert decode_column(n, node, Classes()) == [Local(1)]
    assert decode_column(n, node, Classes(Local, wait=True)) == [Local(1)]


def test_an_enum_member_that_is_gone() -> None:
    ((n, node),) = read_columns(encode_columns([[Colour.RED]]))
    node[2] = ["GREEN"]
    with pytest.raises(CheckpointException, match=r"Colour\.GREEN.*RED, BLUE"):
        decode_column(n, node, Classes())
