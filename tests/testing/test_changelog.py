from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline._core.changes import Change, Row, RowKind
from streamline._core.elements import MAX_TIMESTAMP, Barrier, Batch, EndOfInput, Watermark, WatermarkStatus
from streamline.errors import ValidationException
from streamline.testing import assert_changelog, changelog, changelog_text, fold, fold_by_key

UB, UA, D = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE


def test_reading_every_sort_of_element() -> None:
    assert changelog("+I a 1 | b 2.5 @ 7 | ~ 10 | ~max | # 3 | -U a 1, +U a 5 | idle | active | end // said\n7") == [
        Batch([("a", 1)]),
        Batch([("b", 2.5)], [7]),
        Watermark(10),
        Watermark(MAX_TIMESTAMP),
        Barrier(3, 0),
        Batch([("a", 1), ("a", 5)], None, [UB, UA]),
        WatermarkStatus(True),
        WatermarkStatus(False),
        EndOfInput(),
        Batch([7]),
    ]


def test_values() -> None:
    assert changelog("null true false -3 1e3 'it is, \\'so\\' |' \"7\" Ünï") == [
        Batch([(None, True, False, -3, 1000.0, "it is, 'so' |", "7", "Ünï")])
    ]


def test_records_of_a_class() -> None:
    class P(msgspec.Struct):
        name: str
        n: int

    assert changelog("-D a 1", P) == [Batch([P("a", 1)], None, [D])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("~ x", "a watermark takes one whole number"),
        ("#", "a barrier takes one whole number"),
        ("+I", "a change without values"),
        ("a 1 @ soon", "an event time takes one whole number"),
        ("a 'open", 'from here on: "\'open"'),
    ],
)
def test_text_that_is_none_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(ValidationException) as caught:
        changelog(text)
    assert message in str(caught.value)


def test_writing() -> None:
    @dataclass
    class P:
        name: str
        at: datetime

    row = Row.of_kind(D, 1, None, Decimal("1.50"))
    change = Change(UA, P("a b", datetime(2024, 1, 1, tzinfo=UTC)))
    assert changelog_text([row, change, (UB, ("x", [1, 2], {"k": True})), "7", 7, Watermark(3)]) == (
        "-D 1 null 1.50 | +U 'a b' 2024-01-01T00:00:00Z | -U x [1,2] {k=true} | +I '7' | +I 7 | ~ 3"
    )


VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
BATCHES = st.lists(
    st.tuples(st.sampled_from(list(RowKind)), st.tuples(VALUES, VALUES), st.none() | st.integers(-9, 9)), min_size=1
)


@given(BATCHES)
def test_what_is_written_is_read_again(rows: list[tuple[RowKind, tuple[object, object], int | None]]) -> None:
    text = changelog_text([Batch([v], [t], [k]) for k, v, t in rows], timestamps=True)
    read = changelog(text)
    again = [
        ((b.kinds or [RowKind.INSERT] * len(b))[i], v, (b.timestamps or [None] * len(b))[i])
        for b in read
        for i, v in enumerate(b.values)
    ]
    assert again == rows


def test_comparing_ignores_batches_but_not_order() -> None:
    got = [Batch([("a", 1), ("b", 2)]), Watermark(5)]
    assert_changelog(got, "a 1 | b 2 | ~ 5")
    with pytest.raises(AssertionError):
        assert_changelog(got, "b 2 | a 1 | ~ 5")
    assert_changelog(got, "~ 5 | b 2 | a 1", order="multiset")
    with pytest.raises(AssertionError):
        assert_changelog([*got, *got], "~ 5 | b 2 | a 1", order="multiset")


def test_comparing_key_by_key() -> None:
    got = [Row("a", 1), Row("b", 9), Row.of_kind(UB, "a", 1), Row.of_kind(UA, "a", 2)]
    assert_changelog(got, "b 9 | a 1 | -U a 1, +U a 2", order="by-key")
    with pytest.raises(AssertionError):
        assert_changelog(got, "b 9 | -U a 1, +U a 2 | a 1", order="by-key")
    assert_changelog(got, "+U a 2 | a 1 | b 9 | -U a 1", order="by-key", key=lambda r: r[1])


def test_event_times_count_where_they_are_expected() -> None:
    got = [Batch(["a"], [5])]
    assert_changelog(got, "a")
    assert_changelog(got, "a @ 5")
    with pytest.raises(AssertionError):
        assert_changelog(got, "a @ 6")


def test_the_difference_is_shown() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_changelog([Row("a", 1), Row("b", 3)], "a 1 | b 2")
    assert str(caught.value) == "changelogs differ (- expected, + came):\n    +I a 1\n  - +I b 2\n  + +I b 3"


def test_folding() -> None:
    log = changelog("a 1 | a 1 | b 2 | -U a 1, +U a 5 | -D b 2 | -D c 3 | ~ 9")
    assert fold(log) == Counter({("a", 1): 1, ("a", 5): 1, ("c", 3): -1})
    assert fold_by_key(log, lambda r: r[0]) == {"a": ("a", 5)}
    assert fold([Row("a", [1, {"k": 2}])]) == Counter({("a", (1, (("k", 2),))): 1})
