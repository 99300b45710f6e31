"""Keys: the same place in every process, and the same place for equal keys."""

from __future__ import annotations

import datetime as dt
import gc
import subprocess
import sys
import weakref
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamline._core.changes import Row
from streamline._core.keys import KeyGroups, default_max_parallelism, group_range, owner, stable_hash
from streamline.errors import ValidationException


class Colour(Enum):
    RED = 1


class Point(msgspec.Struct, frozen=True):
    x: int
    y: str


KEYS = "['a', 'ü', 7, -7, 2**40, True, 1.5, None, b'x', ('a', 1), ('a', ('b', None))]"


def test_the_hash_is_the_same_in_another_process():
    program = f"from streamline._core.keys import stable_hash; print([stable_hash(k) for k in {KEYS}])"
    runs = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{[stable_hash(k) for k in eval(KEYS)]}\n"}


@given(st.one_of(st.integers(-(2**63), 2**63), st.booleans()))
def test_keys_that_are_equal_in_python_hash_alike(n):
    assert stable_hash(n) == stable_hash(Decimal(int(n)))
    if float(n) == n:
        assert stable_hash(n) == stable_hash(float(n))
    assert stable_hash((n, "a")) == stable_hash((Decimal(int(n)), "a"))


def test_other_keys_with_a_value_of_their_own():
    now = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
    same = now.astimezone(dt.timezone(dt.timedelta(hours=8)))
    assert now == same and stable_hash(now) == stable_hash(same)
    assert stable_hash(Decimal("1.50")) == stable_hash(1.5)
    assert stable_hash(Point(1, "a")) == stable_hash(Point(1, "a")) != stable_hash(Point(2, "a"))
    assert stable_hash(Row(1, "a")) == stable_hash(Row(1, "a"))
    assert stable_hash(frozenset("ab")) == stable_hash(frozenset("ba"))
    for key in (Colour.RED, float("nan"), float("inf"), dt.timedelta(1), dt.date(2024, 1, 1)):
        assert stable_hash(key) == stable_hash(key)


@pytest.mark.parametrize("key", [[1], {"a": 1}, object(), (1, [2])])
def test_a_key_without_a_stable_value_is_refused_by_name(key):
    with pytest.raises(ValidationException, match="cannot be a key"):
        KeyGroups(128, 4).of_all([key])


@given(st.integers(1, 40), st.integers(1, 40))
def test_ranges_cover_every_group_once_and_agree_with_the_owner(parallelism, factor):
    groups = max(parallelism, min(128, parallelism * factor))
    seen = []
    for subtask in range(parallelism):
        own = group_range(groups, parallelism, subtask)
        assert all(owner(g, groups, parallelism) == subtask for g in own)
        seen += own
    assert seen == list(range(groups))


def test_many_keys_spread_over_all_groups():
    counts = [0] * 16
    for i in range(16_000):
        counts[stable_hash(f"key-{i}") % 16] += 1
    assert min(counts) > 800 and max(counts) < 1200  # 1000 each; six sigma is 190


@pytest.mark.parametrize(("parallelism", "groups"), [(1, 128), (86, 256), (85, 128), (100_000, 32768)])
def test_default_max_parallelism_is_flinks(parallelism, groups):
    assert default_max_parallelism(parallelism) == groups


class Changing(msgspec.Struct):
    a: int


class Holding(msgspec.Struct, frozen=True):
    items: list[int]


@dataclass
class ChangingData:
    a: int


@dataclass(eq=False)
class Itself:
    a: int


@pytest.mark.parametrize(
    ("key", "name"), [(Changing(1), "Changing"), (ChangingData(1), "ChangingData"), (Itself(1), "Itself")]
)
def test_a_class_that_can_change_or_is_equal_only_to_itself_is_no_key(key, name):
    with pytest.raises(ValidationException, match=f"{name} cannot be a key"):
        stable_hash(key)
    with pytest.raises(ValidationException, match=f"{name} cannot be a key"):
        KeyGroups(128, 4).of_all([key])


def test_a_frozen_class_that_holds_a_list_says_that_it_is_the_list():
    with pytest.raises(ValidationException, match=r"list cannot be a key: \[1\]"):
        stable_hash(Holding([1]))


def test_long_keys_are_not_kept():
    groups, key = KeyGroups(128, 4), "x" * 1_000_000
    reference = weakref.ref(kept := Text(key))
    assert groups.of(kept) == groups.of(key) == KeyGroups(128, 4).of_all([key])[0]
    del kept
    gc.collect()
    assert reference() is None


class Text(str):
    """Text that a weak reference can watch."""
