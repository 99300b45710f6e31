"""Durations and instants."""

from __future__ import annotations

import datetime as dt

import pytest

from streamline._core.time import from_epoch_millis, to_epoch_millis, to_millis
from streamline.errors import ValidationException


@pytest.mark.parametrize(
    ("duration", "millis"),
    [
        (dt.timedelta(seconds=1.5), 1500),
        ("10 s", 10_000),
        ("1s", 1000),
        ("1000ms", 1000),
        ("500", 500),
        ("2 min", 120_000),
        ("1 h", 3_600_000),
        ("-1 h", -3_600_000),
        ("1 day", 86_400_000),
        ("PT1M", 60_000),
        ("PT0.5S", 500),
        ("P1DT2H", 93_600_000),
        (250, 250),
    ],
)
def test_durations(duration, millis):
    assert to_millis(duration) == millis


@pytest.mark.parametrize("bad", ["soon", "10 lightyears", "", "P", 1.5, True, None])
def test_what_is_no_duration_is_refused(bad):
    with pytest.raises(ValidationException, match="the gap"):
        to_millis(bad, "the gap")


def test_instants():
    when = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
    assert to_epoch_millis(when) == 1_714_557_600_000
    assert to_epoch_millis(when.astimezone(dt.timezone(dt.timedelta(hours=-3)))) == 1_714_557_600_000
    assert from_epoch_millis(1_714_557_600_000) == when
    assert to_epoch_millis(-1) == -1
    with pytest.raises(ValidationException, match="naive"):
        to_epoch_millis(when.replace(tzinfo=None))
    with pytest.raises(ValidationException, match="not str"):
        to_epoch_millis("2024")


@pytest.mark.parametrize("beyond", [1 << 63, -(1 << 63) - 1, 1 << 70])
def test_an_instant_beyond_64_bits_is_refused(beyond):
    with pytest.raises(ValidationException, match="has to fit 64 bits"):
        to_epoch_millis(beyond)
    assert to_epoch_millis((1 << 63) - 1) == (1 << 63) - 1
