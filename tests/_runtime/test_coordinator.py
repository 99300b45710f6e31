"""The life of checkpoints, without tasks, files or a clock."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamline._core.elements import Barrier
from streamline._runtime.coordinator import (
    Abort,
    Answer,
    Checkpoints,
    CheckpointSettings,
    Complete,
    Drain,
    Fail,
    Instruction,
    Release,
    Savepoint,
    Store,
    Trigger,
)


def started(now: int = 0, tasks: str = "ab", **options: Any) -> Checkpoints:
    c = Checkpoints(CheckpointSettings(**{"interval": 1000, **options}))
    assert c.begin(now, tasks) == []
    return c


def the(instructions: list[Instruction], kind: Any) -> Any:
    found = [i for i in instructions if isinstance(i, kind)]
    assert len(found) == 1, instructions
    return found[0]


def whole(c: Checkpoints, now: int, n: int, tasks: str = "ab") -> list[Instruction]:
    """All subtasks acknowledge, and it is stored."""
    for task in tasks[:-1]:
        assert c.on_ack(now, n, task, f"{task}{n}") == []
    store = the(c.on_ack(now, n, tasks[-1], f"{tasks[-1]}{n}"), Store)
    assert store.parts == {t: f"{t}{n}" for t in tasks}
    return c.on_stored(now, n, f"chk-{n}")


def test_one_checkpoint_after_the_other() -> None:
    c = started()
    assert c.due == 1000
    assert c.on_time(999) == []
    assert c.on_time(1000) == [Trigger(Barrier(1, 1000))]
    assert whole(c, 1300, 1) == [Complete(1)]
    assert c.due == 2000
    assert c.on_time(2000) == [Trigger(Barrier(2, 2000))]
    assert (c.statistics.completed, c.statistics.last_duration, c.statistics.last_id) == (1, 300, 1)


def test_only_so_many_at_once() -> None:
    c = started()
    c.on_time(1000)
    assert c.on_time(2500) == []
    assert c.due == 1000 + 600_000  # nothing to do but to wait
    assert whole(c, 2700, 1) == [Complete(1), Trigger(Barrier(2, 2700))]  # the one that was due goes at once
    assert c.due == 3700 or c.due == 602_700


def test_two_at_once() -> None:
    c = started(max_concurrent=2)
    assert c.on_time(1000) and c.on_time(2000) and c.on_time(3000) == []
    assert whole(c, 3100, 2)[:2] == [Abort(1, "checkpoint 2 has overtaken it"), Complete(2)]
    assert c.on_ack(3200, 1, "a", None) == []


def test_a_pause_between_two() -> None:
    c = started(min_pause=800)
    c.on_time(1000)
    whole(c, 1900, 1)
    assert c.due == 2700
    assert c.on_time(2000) == []
    assert c.on_time(2700) == [Trigger(Barrier(2, 2700))]


def test_none_during_a_backlog() -> None:
    """0: none, not even the one that was next; when the last source is through, one interval later."""
    c = started(interval_during_backlog=0)
    assert c.on_backlog(300, "a", True) == c.on_backlog(400, "b", True) == []
    assert c.due is None and c.on_time(50_000) == []
    assert c.on_backlog(50_100, "a", False) == [] and c.due is None
    assert c.on_backlog(50_200, "b", False) == [] and c.due == 51_200
    assert c.on_time(51_199) == []
    assert c.on_time(51_200) == [Trigger(Barrier(1, 51_200))]


def test_fewer_during_a_backlog() -> None:
    """The next one keeps its time, the others follow each other by the longer interval until the backlog ends."""
    c = started(interval_during_backlog=5000)
    c.on_backlog(300, "a", True)
    assert c.due == 1000 and c.on_time(1000) == [Trigger(Barrier(1, 1000))]
    whole(c, 1100, 1)
    assert c.due == 6000 and c.on_time(5999) == []
    assert c.on_time(6000) == [Trigger(Barrier(2, 6000))]
    whole(c, 6100, 2)
    assert c.on_backlog(6500, "a", False) == [] and c.due == 7500
    c.on_time(7500)
    whole(c, 7600, 3)
    assert c.due == 8500


def test_the_end_of_a_backlog_delays_no_checkpoint() -> None:
    c = started(interval_during_backlog=5000)
    c.on_backlog(100, "a", True)
    c.on_time(1000)
    whole(c, 1100, 1)
    c.on_backlog(5800, "a", False)  # 6000 is sooner than an interval from now
    assert c.due == 6000


def test_a_backlog_makes_no_difference_without_an_interval_for_it() -> None:
    for more in ({}, {"interval": None, "interval_during_backlog": 0}):
        c = started(**more)
        due = c.due
        assert c.on_backlog(300, "a", True) == c.on_backlog(400, "a", False) == [] and c.due == due


def test_a_source_that_ends_works_off_nothing() -> None:
    c = started(interval_during_backlog=0)
    c.on_backlog(100, "a", True)
    assert c.on_ended(500, "a", "end") == [] and c.due == 1500
    assert c.on_backlog(600, "a", True) == [] and c.due == 1500
    # The last checkpoint, when everybody has ended, is taken whatever was said.
    c = started(interval_during_backlog=0)
    c.on_backlog(100, "a", True)
    c.on_backlog(100, "b", True)
    c.on_ended(500, "a", "end")
    assert the(c.on_ended(600, "b", "end"), Trigger) == Trigger(Barrier(1, 600))


def test_savepoints_are_taken_during_a_backlog() -> None:
    c = started(interval_during_backlog=0)
    c.on_backlog(100, "a", True)
    assert c.request(200, Savepoint(1)) == [Trigger(Barrier(1, 200, savepoint=True))]


def test_a_restart_begins_without_a_backlog() -> None:
    c = started(interval_during_backlog=0)
    c.on_backlog(100, "a", True)
    c.stop("failed")
    assert c.begin(2000, "ab") == [] and c.due == 3000
    c.stop("failed")
    c.on_backlog(3900, "a", True)  # a task that is starting
    assert c.begin(4000, "ab") == [] and c.due is None


def test_one_that_takes_too_long() -> None:
    c = started(timeout=500)
    c.on_time(1000)
    c.on_ack(1100, 1, "a", 1)
    assert c.due == 1500
    abort, fail = c.on_time(1500)
    assert abort == Abort(1, "it expired after 500 ms; not acknowledged by b")
    assert isinstance(fail, Fail)
    assert str(fail.error).startswith("checkpoint 1 failed: it expired after 500 ms; not acknowledged by b. 1 in a row")


def test_tolerable_failures_are_in_a_row() -> None:
    c = started(tolerable_failures=1)
    c.on_time(1000)
    assert c.on_decline(1001, 1, "a", "disk full") == [Abort(1, "a could not save its state: disk full")]
    assert c.on_ack(1002, 1, "b", None) == []
    c.on_time(2000)
    whole(c, 2001, 2)
    c.on_time(3000)
    assert len(c.on_store_failed(3001, 2, "late")) == 0
    assert len(c.on_decline(3001, 3, "a", "disk full")) == 1
    c.on_time(4000)
    assert isinstance(c.on_decline(4001, 4, "a", "disk full")[-1], Fail)
    assert c.statistics.failed == 3 and c.statistics.last_failure is not None


def test_savepoint_goes_at_once_and_alone() -> None:
    c = started()
    trigger = the(c.request(500, Savepoint("r")), Trigger)
    assert trigger == Trigger(Barrier(1, 500, savepoint=True))
    assert c.on_time(1000) == []  # no checkpoint beside it
    assert whole(c, 1100, 1) == [Complete(1, Savepoint("r")), Answer("r", "chk-1"), Trigger(Barrier(2, 1100))]
    assert c.request(1200, Savepoint("s")) == []  # waits for the one under way
    assert whole(c, 1300, 2) == [Complete(2), Trigger(Barrier(3, 1300, savepoint=True))]


def test_failed_savepoints_do_not_count() -> None:
    c = started()
    c.request(500, Savepoint("r"))
    abort, answer = c.on_decline(600, 1, "a", "no room")
    assert isinstance(abort, Abort) and isinstance(answer, Answer)
    assert answer.location is None and "savepoint 1 failed: a could not save its state: no room" in str(answer.error)


def test_savepoints_without_checkpointing() -> None:
    c = started(interval=None)
    assert c.due is None
    assert c.request(5, Savepoint("r")) == [Trigger(Barrier(1, 5, savepoint=True))]
    assert whole(c, 6, 1) == [Complete(1, Savepoint("r")), Answer("r", "chk-1")]
    assert c.on_ended(7, "a", None) == [Release(frozenset("a"))]
    assert c.on_ended(7, "b", None) == [Release(frozenset("b"))]


def test_ended_subtasks_count_with_what_they_ended_with() -> None:
    c = started()
    assert c.final_id("a") == 1
    assert c.on_ended(500, "a", "end") == []
    assert c.on_time(1000) == [Trigger(Barrier(1, 1000))]
    store = the(c.on_ack(1001, 1, "b", "b1"), Store)
    assert (store.parts, store.ended) == ({"a": "end", "b": "b1"}, frozenset("a"))
    assert c.on_stored(1002, 1, "x") == [Complete(1), Release(frozenset("a"))]
    # b ends while a checkpoint waits for it
    c.on_time(2000)
    assert c.final_id("b") == 2
    store = the(c.on_ended(2100, "b", "end"), Store)
    assert (store.parts, store.ended) == ({"a": "end", "b": "end"}, frozenset("ab"))
    assert c.on_stored(2200, 2, "x") == [Complete(2), Release(frozenset("b"))]
    assert c.due is None


def test_the_last_checkpoint_does_not_wait_for_its_time() -> None:
    c = started()
    c.on_ended(10, "a", "A")
    trigger, store = c.on_ended(20, "b", "B")
    assert trigger == Trigger(Barrier(1, 20)) and isinstance(store, Store) and store.parts == {"a": "A", "b": "B"}
    assert c.on_stored(30, 1, "x") == [Complete(1), Release(frozenset("ab"))]


def test_the_last_checkpoint_is_tried_again() -> None:
    c = started(tolerable_failures=1)
    c.on_ended(10, "a", "A")
    c.on_ended(20, "b", "B")
    assert c.on_store_failed(30, 1, "disk full") == [Abort(1, "it could not be stored: disk full")]
    assert c.due == 1030
    assert c.on_time(1029) == []
    trigger, store = c.on_time(1030)
    assert isinstance(trigger, Trigger) and isinstance(store, Store)
    assert isinstance(c.on_store_failed(1040, 2, "disk full")[-1], Fail)
    assert c.due is None


def test_stop_with_savepoint() -> None:
    c = started()
    stop = Savepoint("r", stop=True)
    assert c.request(500, stop) == [Trigger(Barrier(1, 500, savepoint=True), stop=True)]
    assert c.on_ack(510, 1, "a", "a1") == []
    assert c.on_ended(520, "a", None) == []
    store = the(c.on_ack(530, 1, "b", "b1"), Store)
    assert (store.parts, store.ended) == ({"a": "a1", "b": "b1"}, frozenset())
    assert c.on_ended(540, "b", None) == []
    assert c.on_stored(600, 1, "sp") == [Complete(1, stop), Answer("r", "sp"), Release(frozenset("ab"))]
    assert c.due is None
    refusal = the(c.request(700, Savepoint("x")), Answer)
    assert "stopping already" in str(refusal.error)


def test_stop_and_drain() -> None:
    c = started()
    stop = Savepoint("r", stop=True, drain=True)
    assert c.request(500, stop) == [Drain()]
    assert c.on_time(1000) == []
    assert c.on_ended(1100, "a", "A") == []
    trigger, store = c.on_ended(1200, "b", "B")
    assert trigger == Trigger(Barrier(1, 1200, savepoint=True), stop=True)
    assert store == Store(1, 1200, {"a": "A", "b": "B"}, frozenset("ab"), stop)
    assert c.on_stored(1300, 1, "sp") == [Complete(1, stop), Answer("r", "sp"), Release(frozenset("ab"))]


def test_stop_that_fails_fails_the_job() -> None:
    c = started(tolerable_failures=99)
    c.request(500, Savepoint("r", stop=True))
    abort, answer, fail = c.on_store_failed(600, 1, "x") or c.on_decline(600, 1, "a", "x")
    assert isinstance(abort, Abort) and isinstance(answer, Answer) and isinstance(fail, Fail)


def test_a_failure_ends_what_is_under_way() -> None:
    c = started()
    c.on_time(1000)
    assert c.request(1001, Savepoint("r")) == []
    abort, answer = c.stop("the job failed")
    assert abort == Abort(1, "the job failed")
    assert isinstance(answer, Answer) and "savepoint failed: the job failed" in str(answer.error)
    assert c.due is None and c.on_ack(1002, 1, "a", None) == []
    c.continue_after(7)
    assert c.begin(2000, "ab") == []
    assert c.on_time(3000) == [Trigger(Barrier(8, 3000))]


class Life(RuleBasedStateMachine):
    """Whatever happens in whatever order: ids rise, a complete checkpoint has everybody, and nobody is stuck."""

    @initialize(
        interval=st.sampled_from([None, 5, 20]),
        pause=st.sampled_from([0, 7]),
        timeout=st.sampled_from([10, 1000]),
        concurrent=st.integers(1, 3),
        tolerable=st.sampled_from([0, 2, 1000]),
        during=st.sampled_from([None, 0, 50]),
    )
    def start(self, interval: Any, pause: int, timeout: int, concurrent: int, tolerable: int, during: Any) -> None:
        self.now = 0
        self.c = Checkpoints(
            CheckpointSettings(interval, pause, timeout, concurrent, tolerable, interval_during_backlog=during)
        )
        self.tasks = frozenset("abc")
        self.last = 0
        self.limit = concurrent
        self.asked: set[int] = set()
        self.completed: list[int] = []
        self.reset()

    def reset(self) -> None:
        self.ended: set[str] = set()
        self.released: set[str] = set()
        self.open: dict[int, set[str]] = {}
        self.storing: set[int] = set()
        self.failed = False
        self.follow(self.c.begin(self.now, self.tasks))

    def follow(self, instructions: list[Instruction]) -> None:
        for i in instructions:
            match i:
                case Trigger(barrier):
                    assert barrier.checkpoint_id > self.last
                    assert barrier.timestamp == self.now
                    self.last = barrier.checkpoint_id
                    self.open[self.last] = set(self.tasks) - self.ended
                case Store(n, _, parts, ended):
                    assert parts.keys() == self.tasks and ended <= self.ended
                    assert n in self.open and n not in self.storing
                    self.storing.add(n)
                case Complete(n):
                    assert n in self.storing and n > max(self.completed, default=0)
                    self.completed.append(n)
                    del self.open[n]
                    self.storing.discard(n)
                case Abort(n):
                    del self.open[n]
                    self.storing.discard(n)
                case Release(tasks):
                    assert tasks <= self.tasks and not tasks & self.released
                    self.released |= tasks
                case Answer(request):
                    assert isinstance(request, int)
                    self.asked.remove(request)
                case Fail():
                    assert i is instructions[-1]
                    self.failed = True
        assert len(self.open) <= self.limit
        if self.failed:
            self.failed = False
            self.follow(self.c.stop("failed"))
            assert not self.open and not self.asked
            self.reset()

    @rule(by=st.integers(1, 30))
    def wait(self, by: int) -> None:
        self.now += by
        self.follow(self.c.on_time(self.now))

    @rule(data=st.data())
    def ack(self, data: Any) -> None:
        waiting = [(n, t) for n, tasks in self.open.items() for t in sorted(tasks)]
        if waiting:
            n, task = data.draw(st.sampled_from(waiting))
            self.open[n].discard(task)
            self.follow(self.c.on_ack(self.now, n, task, f"{task}{n}"))

    @precondition(lambda self: self.storing)
    @rule(good=st.sampled_from([True, True, True, False]))
    def store(self, good: bool) -> None:
        n = min(self.storing)
        if good:
            self.follow(self.c.on_stored(self.now, n, str(n)))
        else:
            self.follow(self.c.on_store_failed(self.now, n, "x"))

    @rule(task=st.sampled_from("abc"), processing=st.booleans())
    def backlog(self, task: str, processing: bool) -> None:
        self.follow(self.c.on_backlog(self.now, task, processing))

    @rule(task=st.sampled_from("abc"))
    def decline_or_end(self, task: str) -> None:
        if task not in self.ended:
            self.ended.add(task)
            for waiting in self.open.values():
                waiting.discard(task)
            self.follow(self.c.on_ended(self.now, task, f"{task} end"))

    @rule(stop=st.booleans(), drain=st.booleans())
    def savepoint(self, stop: bool, drain: bool) -> None:
        request = len(self.asked) + 1000 * self.now
        if request not in self.asked:
            self.asked.add(request)
            self.follow(self.c.request(self.now, Savepoint(request, None, stop and drain, drain)))

    @rule()
    def fail(self) -> None:
        self.failed = True
        self.follow([])

    @invariant()
    def it_never_wants_the_past_in_vain(self) -> None:
        if hasattr(self, "c"):
            due = self.c.due
            if due is not None and due <= self.now:
                self.follow(self.c.on_time(self.now))
                due = self.c.due
                assert due is None or due > self.now

    def teardown(self) -> None:
        """From anywhere, everybody ends and is let go."""
        if not hasattr(self, "c"):
            return
        for _ in range(50):
            for task in sorted(self.tasks - self.ended):
                self.decline_or_end(task)
            for n, waiting in list(self.open.items()):
                for task in sorted(waiting):
                    if n in self.open:
                        self.open[n].discard(task)
                        self.follow(self.c.on_ack(self.now, n, task, "x"))
            for n in sorted(self.storing):
                if n in self.storing:
                    self.follow(self.c.on_stored(self.now, n, "x"))
            if self.released == self.tasks:
                break
            self.now = max(self.now, self.c.due or 0)
            self.follow(self.c.on_time(self.now))
        assert self.released == self.tasks
        assert not self.open


TestLife = Life.TestCase
TestLife.settings = settings(stateful_step_count=40)
