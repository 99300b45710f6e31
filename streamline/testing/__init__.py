"""The test kit: virtual time, scripted sources, operator harnesses, changelogs as text, and a broker.

Nothing of streamline imports it. The pytest plugin is `streamline.testing.plugin`, the Kafka broker for tests
`streamline.testing.broker`; neither is loaded from here.
"""

from __future__ import annotations

from streamline.testing.changelog import assert_changelog, changelog, changelog_text, fold, fold_by_key
from streamline.testing.clock import VirtualClock
from streamline.testing.disk import FailOnDisk, SlowDisk, faulty_disk
from streamline.testing.faults import (
    FailInClose,
    FailInCommit,
    FailInOpen,
    FailInSnapshot,
    FailOnRecord,
    FailOnTimer,
    Fault,
    InjectedFault,
    Slow,
    inject,
)
from streamline.testing.harness import OperatorHarness
from streamline.testing.leaks import LeakError, no_leaks
from streamline.testing.minijob import MiniJob
from streamline.testing.quiescence import settle
from streamline.testing.scripted import Delay, Fail, Pace, Quiet, ScriptedSource, WaitFor

__all__ = (
    "Delay",
    "Fail",
    "FailInClose",
    "FailInCommit",
    "FailInOpen",
    "FailInSnapshot",
    "FailOnDisk",
    "FailOnRecord",
    "FailOnTimer",
    "Fault",
    "InjectedFault",
    "LeakError",
    "MiniJob",
    "OperatorHarness",
    "Pace",
    "Quiet",
    "ScriptedSource",
    "Slow",
    "SlowDisk",
    "VirtualClock",
    "WaitFor",
    "assert_changelog",
    "changelog",
    "changelog_text",
    "faulty_disk",
    "fold",
    "fold_by_key",
    "inject",
    "no_leaks",
    "settle",
)
