"""Rows, kinds and modes as API.md states them."""

from __future__ import annotations

import copy
import datetime as dt

import pytest

from streamline._core.changes import ChangelogMode, Row, RowKind


def test_a_row_is_read_by_position_name_and_attribute():
    row = Row(name="Alice", age=25)
    assert (row[0], row["age"], row.age, tuple(row), len(row)) == ("Alice", 25, 25, ("Alice", 25), 2)
    assert row.as_dict() == {"name": "Alice", "age": 25}
    row["age"] = 26
    row[0] = "Bob"
    assert row == Row("Bob", 26)


def test_of_with_a_kind_first_is_of_kind():
    row = Row.of(RowKind.DELETE, "Alice", 25)
    assert row == Row.of_kind(RowKind.DELETE, "Alice", 25)
    assert row.get_row_kind() is RowKind.DELETE and len(row) == 2
    assert Row.of("Alice", 25) == Row("Alice", 25)


def test_rows_are_equal_when_kinds_and_fields_are():
    assert Row("a") != Row.of_kind(RowKind.DELETE, "a")
    assert Row("a") == Row(x="a")
    assert hash(Row("a")) == hash(Row(x="a"))
    assert Row("a") != ("a",)


def test_text_is_flinks():
    assert str(Row("u1", 1)) == "+I[u1, 1]"
    assert str(Row.of_kind(RowKind.UPDATE_BEFORE, None, True, 1.5)) == "-U[null, true, 1.5]"
    when = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
    assert str(Row(when, when.replace(tzinfo=None))) == "+I[2024-05-01T10:00:00Z, 2024-05-01T10:00:00]"


def test_what_is_not_there_is_said():
    with pytest.raises(KeyError, match="no field 'nope'; the row has a"):
        Row(a=1)["nope"]
    with pytest.raises(AttributeError, match="no field 'nope'"):
        _ = Row(a=1).nope
    with pytest.raises(KeyError, match="positions only"):
        Row(1)["a"]
    with pytest.raises(TypeError, match="no field names"):
        Row(1).as_dict()
    with pytest.raises(TypeError, match="not both"):
        Row(1, a=2)


def test_a_copy_is_independent():
    row = Row.of_kind(RowKind.UPDATE_AFTER, 1)
    twin = copy.copy(row)
    twin[0] = 2
    assert row[0] == 1 and twin.kind is RowKind.UPDATE_AFTER


def test_a_field_that_is_set_is_set_in_this_row_only():
    values = (1, [2], "x")
    one, other = (Row.with_names(("a", "b", "c"), values, RowKind.DELETE) for _ in range(2))
    assert one == other
    one["a"] = 5
    one[-1] = "y"
    assert (list(one), list(other), values) == ([5, [2], "y"], [1, [2], "x"], (1, [2], "x"))
    assert one != other
    other[0], other["c"] = 5, "y"
    assert one == other and str(one) == "-D[5, [2], y]"
    fresh = Row.with_names(("a", "b", "c"), (5, [2], "y"), RowKind.DELETE)
    assert one == fresh and fresh == one  # one that was changed and one that was not
    assert hash(Row("p", 1)) == hash(_changed(Row("q", 1), "p"))
    assert one[1:] == fresh[1:] == [[2], "y"]


def _changed(row: Row, first: object) -> Row:
    row[0] = first
    return row


def test_modes():
    assert ChangelogMode.insert_only().is_insert_only
    assert not ChangelogMode.upsert().contains(RowKind.UPDATE_BEFORE)
    assert repr(ChangelogMode.all()) == "[I,UB,UA,D]"
    assert ChangelogMode.all() != ChangelogMode.upsert() == ChangelogMode(set(RowKind) - {RowKind.UPDATE_BEFORE})


def test_kinds():
    assert [k.short_string for k in RowKind] == ["+I", "-U", "+U", "-D"]
    assert RowKind.from_short_string("-U") is RowKind.UPDATE_BEFORE
    with pytest.raises(ValueError, match="not a row kind"):
        RowKind.from_short_string("+X")
    assert [k.is_retraction for k in RowKind] == [False, True, False, True]
