"""Joins and co-groups of two streams in the same windows."""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

from streamline._channel.partition import Hash
from streamline._core.time import Duration, to_millis
from streamline._operators.window.assign import WindowAssigner
from streamline._operators.window.call import WindowCall
from streamline._operators.window.co_group import CoGroupWindows, Paired, Pairing, tagged_selector
from streamline._operators.window.evict import Evictor
from streamline._operators.window.general import GeneralWindows
from streamline._operators.window.trigger import Trigger
from streamline.errors import ValidationException
from streamline.stream.adapt import checked, event_time_of, result_type, selector_of
from streamline.stream.datastream import DataStream

__all__ = ("CoGroupedStreams", "JoinedStreams")

T1 = TypeVar("T1")
T2 = TypeVar("T2")


class _Together(Generic[T1, T2]):
    """Two streams, their keys, their windows: told one after the other."""

    _what = ""

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]) -> None:
        if not isinstance(stream2, DataStream):
            raise ValidationException(f"{self._what} needs another stream, not {stream2!r}")
        if stream1.get_execution_environment() is not stream2.get_execution_environment():
            raise ValidationException(f"{self._what}: the streams belong to different environments")
        self._streams = (stream1, stream2)
        self._selectors: list[Any] = [None, None]
        self._assigner: WindowAssigner[Any, Any] | None = None
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor | None = None
        self._lateness = 0

    def where(self, key_selector: Any) -> Self:
        """The key of records of the first stream: KeySelector or callable."""
        self._selectors[0] = selector_of(key_selector, f"{self._what}.where")
        return self

    def equal_to(self, key_selector: Any) -> Self:
        """The key of records of the second stream: KeySelector or callable."""
        self._selectors[1] = selector_of(key_selector, f"{self._what}.equal_to")
        return self

    def window(self, assigner: WindowAssigner[Any, Any]) -> Self:
        """The windows in which records meet.

        Raises:
            ValidationException: they follow event time, and a stream can carry no timestamps.
        """
        if not isinstance(assigner, WindowAssigner):
            raise ValidationException(f"a window assigner is needed (streamline.windows), not {assigner!r}")
        if assigner.is_event_time() and event_time_of([s.event_time for s in self._streams]) == "no":
            raise ValidationException(
                f"{assigner} follows event time, and one of the joined streams can carry no timestamps: use "
                "assign_timestamps_and_watermarks(...) on both before the join"
            )
        self._assigner = assigner
        return self

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Fire when this trigger says so, instead of the assigner's own."""
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Have records removed before or after the function; a record is (0, left) or (1, right) to it."""
        self._evictor = evictor
        return self

    def allowed_lateness(self, time: Duration) -> Self:
        """Keep windows for so long behind their end."""
        self._lateness = to_millis(time, "allowed_lateness")
        return self

    def _apply(self, function: Any, pairing: Pairing, method: str, output_type: Any) -> DataStream[Any]:
        for given, name in (
            (self._selectors[0], "where"),
            (self._selectors[1], "equal_to"),
            (self._assigner, "window"),
        ):
            if given is None:
                raise ValidationException(f"{self._what} needs {name}(...) before apply")
        checked(function, method, self._what)
        assigner = self._assigner
        assert assigner is not None
        one, two = self._streams
        selectors = (self._selectors[0], self._selectors[1])
        tagged = tagged_selector(*selectors)
        trigger, evictor, lateness = (
            self._trigger or assigner.get_default_trigger(one.get_execution_environment()),
            self._evictor,
            self._lateness,
        )

        def operator() -> CoGroupWindows:
            call = WindowCall(Paired(function, pairing), "apply")
            return CoGroupWindows(GeneralWindows(tagged, assigner, trigger, evictor, lateness, None, call, None))

        edges = [*one._edges(0, Hash(selectors[0])), *two._edges(1, Hash(selectors[1]))]
        node = one._attach(
            self._what,
            operator,
            output_type=result_type(output_type, function, method, elements=pairing != "join"),
            key=selectors,
            edges=edges,
            event_time="yes" if assigner.is_event_time() else "no",
            description=repr(assigner),
        )
        return DataStream(one._env, one._new(node).origins, node.output_type)


class JoinedStreams(_Together[T1, T2]):
    """An inner join per key and window: `a.join(b).where(k1).equal_to(k2).window(w).apply(f)`."""

    _what = "join"

    def apply(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Call a function for every pair of records of a key and window.

        Args:
            func: a JoinFunction or a callable of (left, right) that gives one result, or yields; a FlatJoinFunction
                returns an iterable or yields.
            output_type: type of the results; by default from the return annotation.
        """
        flat = getattr(func, "flat", False) is True
        return self._apply(func, "flat_join" if flat else "join", "join", output_type)


class CoGroupedStreams(_Together[T1, T2]):
    """Both sides of every key and window: `a.co_group(b).where(k1).equal_to(k2).window(w).apply(f)`."""

    _what = "co_group"

    def apply(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Call a function with the records of both sides of a key and window; one side may be empty.

        Args:
            func: a CoGroupFunction or a callable of (list of left, list of right); it returns or yields results.
            output_type: type of the results; by default from the return annotation.
        """
        return self._apply(func, "co_group", "co_group", output_type)
