"""Keyed state: what a function asks for (descriptors), how long it lives (StateTtlConfig), what it gets (handles).

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int))

    def process_element(self, value, ctx):
        n = (self.count.value() or 0) + 1
        self.count.update(n)

A handle shows the state of the current key: of the record or timer that is being processed.
"""

from __future__ import annotations

import datetime as _dt
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar, overload, runtime_checkable

from streamline._core.changes import Row
from streamline._core.copying import copier, copy_value
from streamline._core.declare import StateKind, StateSpec, TtlSpec
from streamline._core.time import Duration, to_millis
from streamline._core.typeinfo import TypeInformation
from streamline._core.types import DataType
from streamline.errors import ValidationException

__all__ = (
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
)

T = TypeVar("T")
IN = TypeVar("IN", contravariant=True)
OUT = TypeVar("OUT", covariant=True)
K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


# -- handles -------------------------------------------------------------------------------------------------------


@runtime_checkable
class State(Protocol):
    """State of the current key."""

    def clear(self) -> None:
        """Remove what the current key has."""
        ...


@runtime_checkable
class ValueState(State, Protocol[T]):
    """One value for each key."""

    def value(self) -> T | None:
        """The value, None where there is none."""
        ...

    def update(self, value: T | None) -> None:
        """Put a value in; None removes it. A value that was changed in place has to be put in again."""
        ...


@runtime_checkable
class AppendingState(State, Protocol[IN, OUT]):
    """State that is added to and read as a whole."""

    def get(self) -> OUT:
        """What was added, in the state's own form."""
        ...

    def add(self, value: IN) -> None:
        """Add one."""
        ...


@runtime_checkable
class MergingState(AppendingState[IN, OUT], Protocol[IN, OUT]):
    """State whose parts can be merged: list, reducing and aggregating state."""


@runtime_checkable
class ListState(State, Protocol[T]):
    """A list for each key."""

    def get(self) -> list[T]:
        """The elements in order of their adding; empty where there are none."""
        ...

    def add(self, value: T) -> None:
        """Append one."""
        ...

    def add_all(self, values: Iterable[T]) -> None:
        """Append many."""
        ...

    def update(self, values: Iterable[T]) -> None:
        """Put others in their place."""
        ...

    def __iter__(self) -> Iterator[T]: ...


@runtime_checkable
class MapState(State, Protocol[K, V]):
    """A mapping for each key. What `items`, `keys` and `values` give may be gone through while the state is changed."""

    def get(self, key: K) -> V | None:
        """The value of a key of the map, None where there is none."""
        ...

    def put(self, key: K, value: V) -> None:
        """Put a value in."""
        ...

    def put_all(self, items: Mapping[K, V]) -> None:
        """Put many in."""
        ...

    def remove(self, key: K) -> None:
        """Remove a key of the map; no error where there is none."""
        ...

    def contains(self, key: K) -> bool:
        """Whether the map has a key."""
        ...

    def items(self) -> Iterable[tuple[K, V]]:
        """Keys and values."""
        ...

    def keys(self) -> Iterable[K]:
        """The keys of the map."""
        ...

    def values(self) -> Iterable[V]:
        """The values of the map."""
        ...

    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        ...

    def __getitem__(self, key: K) -> V: ...
    def __setitem__(self, key: K, value: V) -> None: ...
    def __delitem__(self, key: K) -> None: ...
    def __contains__(self, key: K) -> bool: ...
    def __iter__(self) -> Iterator[K]: ...
    def __len__(self) -> int: ...


@runtime_checkable
class ReducingState(State, Protocol[T]):
    """One value for each key, into which a function combines all that is added."""

    def get(self) -> T | None:
        """The combination of what was added, None where nothing was."""
        ...

    def add(self, value: T) -> None:
        """Combine one more with what is there."""
        ...


@runtime_checkable
class AggregatingState(MergingState[IN, OUT], Protocol[IN, OUT]):
    """One accumulator for each key, and its result."""


@runtime_checkable
class ReadOnlyBroadcastState(Protocol[K, V_co]):
    """Broadcast state as the side sees it that may not change it."""

    def get(self, key: K) -> V_co | None:
        """The value under a key, None where there is none."""
        ...

    def contains(self, key: K) -> bool:
        """Whether it has a key."""
        ...

    def items(self) -> Iterable[tuple[K, V_co]]:
        """Keys and values."""
        ...

    def keys(self) -> Iterable[K]:
        """The keys."""
        ...

    def values(self) -> Iterable[V_co]:
        """The values."""
        ...

    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        ...


@runtime_checkable
class BroadcastState(ReadOnlyBroadcastState[K, V], Protocol[K, V]):
    """A mapping that is the same in every subtask; changed for broadcast records only."""

    def put(self, key: K, value: V) -> None:
        """Put a value in."""
        ...

    def put_all(self, items: Mapping[K, V]) -> None:
        """Put many in."""
        ...

    def remove(self, key: K) -> None:
        """Remove a key; no error where there is none."""
        ...

    def clear(self) -> None:
        """Remove everything."""
        ...


# -- time to live --------------------------------------------------------------------------------------------------


class TtlUpdateType(Enum):
    """What renews an entry's time to live."""

    Disabled = 0
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class TtlVisibility(Enum):
    """Whether an expired entry that is not yet cleaned up is still returned."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class TtlTime(Enum):
    """The time that an entry's age is measured in."""

    ProcessingTime = 0


class StateTtlConfig:
    """How long the entries of a state live: `StateTtlConfig.new_builder(timedelta(hours=1)).build()`.

    Time is processing time. By default writing renews an entry, expired entries are never returned, and each access of
    the state looks at a few entries to remove the expired ones. Lists and maps expire element by element.
    """

    UpdateType: TypeAlias = TtlUpdateType
    StateVisibility: TypeAlias = TtlVisibility
    TtlTimeCharacteristic: TypeAlias = TtlTime

    __slots__ = ("_cleanup_size", "_in_snapshot", "_millis", "_update_type", "_visibility")

    def __init__(
        self,
        ttl: Duration,
        update_type: TtlUpdateType = TtlUpdateType.OnCreateAndWrite,
        state_visibility: TtlVisibility = TtlVisibility.NeverReturnExpired,
        *,
        cleanup_size: int = 5,
        cleanup_in_snapshot: bool = False,
    ) -> None:
        """
        Args:
            ttl: time to live: a timedelta, text such as '1 h', or milliseconds.
            update_type: what renews an entry.
            state_visibility: whether expired entries may be seen until they are removed.
            cleanup_size: how many entries each access looks at to remove expired ones; 0: none.
            cleanup_in_snapshot: expired entries are left out of snapshots.

        Raises:
            ValidationException: the time to live is not positive.
        """
        self._millis = to_millis(ttl, "the time to live")
        if self._millis <= 0:
            raise ValidationException(f"the time to live has to be positive: {ttl!r}")
        self._update_type = update_type
        self._visibility = state_visibility
        self._cleanup_size = cleanup_size
        self._in_snapshot = cleanup_in_snapshot

    @staticmethod
    def new_builder(ttl: Duration) -> StateTtlConfig.Builder:
        """Start with a time to live: a timedelta, text such as '1 h', or milliseconds."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> TtlUpdateType:
        """What renews an entry."""
        return self._update_type

    def get_state_visibility(self) -> TtlVisibility:
        """Whether expired entries may be seen until they are removed."""
        return self._visibility

    def get_ttl(self) -> _dt.timedelta:
        """The time to live."""
        return _dt.timedelta(milliseconds=self._millis)

    def get_ttl_time_characteristic(self) -> TtlTime:
        """Always processing time."""
        return TtlTime.ProcessingTime

    def is_enabled(self) -> bool:
        """Whether entries expire at all."""
        return self._update_type is not TtlUpdateType.Disabled

    def __repr__(self) -> str:
        return f"StateTtlConfig({self.get_ttl()}, {self._update_type.name}, {self._visibility.name})"

    @property
    def spec(self) -> TtlSpec | None:
        """What a state declares; None where entries do not expire."""
        if not self.is_enabled():
            return None
        return TtlSpec(
            self._millis,
            refresh_on_read=self._update_type is TtlUpdateType.OnReadAndWrite,
            return_expired=self._visibility is TtlVisibility.ReturnExpiredIfNotCleanedUp,
            cleanup_size=self._cleanup_size,
            cleanup_in_snapshot=self._in_snapshot,
        )

    class Builder:
        """Builds a StateTtlConfig; every method gives the builder back."""

        def __init__(self, ttl: Duration) -> None:
            self._ttl = ttl
            self._update_type = TtlUpdateType.OnCreateAndWrite
            self._visibility = TtlVisibility.NeverReturnExpired
            self._cleanup_size = 5
            self._in_snapshot = False

        def set_update_type(self, update_type: TtlUpdateType) -> StateTtlConfig.Builder:
            """What renews an entry."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Creating and writing renew an entry (the default)."""
            return self.set_update_type(TtlUpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Reading renews an entry too."""
            return self.set_update_type(TtlUpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: TtlVisibility) -> StateTtlConfig.Builder:
            """Whether expired entries may be seen until they are removed."""
            self._visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Expired entries are returned as long as they are there."""
            return self.set_state_visibility(TtlVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Expired entries are never returned (the default)."""
            return self.set_state_visibility(TtlVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(self, characteristic: TtlTime) -> StateTtlConfig.Builder:
            """The time that an entry's age is measured in; there is processing time only."""
            if characteristic is not TtlTime.ProcessingTime:
                raise ValidationException(f"state expires in processing time only, not in {characteristic!r}")
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Age is measured in processing time (it always is)."""
            return self

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leave expired entries out of snapshots, so that they are gone after a restore."""
            self._in_snapshot = True
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool = False
        ) -> StateTtlConfig.Builder:
            """Each access of the state looks at so many entries; there is no look for records that do not use it."""
            if cleanup_size <= 0:
                raise ValidationException(f"cleanup_size has to be positive: {cleanup_size}")
            self._cleanup_size = cleanup_size
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int = 1000, periodic_compaction_time: Duration = "30 d"
        ) -> StateTtlConfig.Builder:
            """Accepted: entries are removed as they are met and by `cleanup_incrementally` on every backend."""
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Remove expired entries only when they are met."""
            self._cleanup_size = 0
            return self

        def set_ttl(self, ttl: Duration) -> StateTtlConfig.Builder:
            """The time to live."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """The configuration.

            Raises:
                ValidationException: the time to live is not positive.
            """
            return StateTtlConfig(
                self._ttl,
                self._update_type,
                self._visibility,
                cleanup_size=self._cleanup_size,
                cleanup_in_snapshot=self._in_snapshot,
            )


# -- descriptors ---------------------------------------------------------------------------------------------------


class StateDescriptor:
    """A state's name, unique in its function, and its types.

    A type is a Python type or annotation, a `Types.…()`, or left out. It decides nothing about what may be put in; it
    helps to find classes again when a job is restored, and to know which values can be changed in place. Where a job is
    restored with another type, what was written has to fit it.
    """

    _kind: StateKind

    def __init__(self, name: str, type_info: Any = Any) -> None:
        if not isinstance(name, str) or not name:
            raise ValidationException(f"a state needs a name, a text that is not empty: {name!r}")
        self.name = name
        self.type_info = type_info
        self._ttl: StateTtlConfig | None = None

    def get_name(self) -> str:
        """The state's name."""
        return self.name

    def get_type_info(self) -> Any:
        """The type as it was given."""
        return self.type_info

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let the entries expire.

        Raises:
            ValidationException: it is no StateTtlConfig.
        """
        if not isinstance(ttl_config, StateTtlConfig):
            raise ValidationException(
                f"enable_time_to_live takes a StateTtlConfig, not {ttl_config!r}: "
                "StateTtlConfig.new_builder(timedelta(hours=1)).build()"
            )
        self._ttl = ttl_config

    @property
    def spec(self) -> StateSpec:
        """What is declared to the state backend."""
        hint = hint_of(self.type_info)
        return StateSpec(
            type=hint,
            kind=self._kind,
            ttl=None if self._ttl is None else self._ttl.spec,
            copy=copier(hint),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ValueStateDescriptor(StateDescriptor, Generic[T]):
    """One value for each key."""

    _kind = "value"

    if TYPE_CHECKING:

        @property
        def _handle(self) -> ValueState[T]: ...

    @overload
    def __init__(self, name: str, value_type_info: type[T], default_value: T | None = None) -> None: ...
    @overload
    def __init__(
        self: ValueStateDescriptor[Any], name: str, value_type_info: Any = Any, default_value: Any = None
    ) -> None: ...
    def __init__(self, name: str, value_type_info: Any = Any, default_value: Any = None) -> None:
        """
        Args:
            name: the state's name.
            value_type_info: type of the value.
            default_value: what `value()` gives where there is none.
        """
        super().__init__(name, value_type_info)
        self.default_value = default_value

    @property
    def spec(self) -> StateSpec:
        """What is declared to the state backend."""
        hint = hint_of(self.type_info)
        ttl = None if self._ttl is None else self._ttl.spec
        return StateSpec(type=hint, default=self.default_value, kind="value", ttl=ttl, copy=copier(hint))


class ListStateDescriptor(StateDescriptor, Generic[T]):
    """A list for each key; as operator state, a list for each subtask."""

    _kind = "list"

    if TYPE_CHECKING:

        @property
        def _handle(self) -> ListState[T]: ...

    @overload
    def __init__(self, name: str, elem_type_info: type[T]) -> None: ...
    @overload
    def __init__(self: ListStateDescriptor[Any], name: str, elem_type_info: Any = Any) -> None: ...
    def __init__(self, name: str, elem_type_info: Any = Any) -> None:
        """
        Args:
            name: the state's name.
            elem_type_info: type of an element.
        """
        super().__init__(name, elem_type_info)


class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """A mapping for each key; as broadcast state, one for all subtasks."""

    _kind = "map"

    if TYPE_CHECKING:

        @property
        def _handle(self) -> MapState[K, V]: ...

    @overload
    def __init__(self, name: str, key_type_info: type[K], value_type_info: type[V]) -> None: ...
    @overload
    def __init__(
        self: MapStateDescriptor[Any, Any], name: str, key_type_info: Any = Any, value_type_info: Any = Any
    ) -> None: ...
    def __init__(self, name: str, key_type_info: Any = Any, value_type_info: Any = Any) -> None:
        """
        Args:
            name: the state's name.
            key_type_info: type of the mapping's keys.
            value_type_info: type of its values.
        """
        super().__init__(name, value_type_info)
        self.key_type_info = key_type_info

    @property
    def spec(self) -> StateSpec:
        """What is declared to the state backend."""
        hint = hint_of(self.type_info)
        ttl = None if self._ttl is None else self._ttl.spec
        key = hint_of(self.key_type_info)
        return StateSpec(type=hint, map_key=key, kind="map", ttl=ttl, copy=copier(hint))


class ReducingStateDescriptor(StateDescriptor, Generic[T]):
    """One value for each key, into which a function combines all that is added."""

    _kind = "reducing"

    if TYPE_CHECKING:

        @property
        def _handle(self) -> ReducingState[T]: ...

    @overload
    def __init__(self, name: str, reduce_function: Any, type_info: type[T]) -> None: ...
    @overload
    def __init__(self: ReducingStateDescriptor[Any], name: str, reduce_function: Any, type_info: Any = Any) -> None: ...
    def __init__(self, name: str, reduce_function: Any, type_info: Any = Any) -> None:
        """
        Args:
            name: the state's name.
            reduce_function: a callable of two values, or a ReduceFunction.
            type_info: type of a value.

        Raises:
            ValidationException: the function is none, or a coroutine function.
        """
        super().__init__(name, type_info)
        method = getattr(reduce_function, "reduce", None)
        reduce: Any = method if callable(method) else reduce_function
        if not callable(reduce):
            raise ValidationException(
                f"state {name!r}: a callable or ReduceFunction is needed, not {reduce_function!r}"
            )
        if inspect.iscoroutinefunction(reduce):
            raise ValidationException(f"state {name!r}: the function of reducing state cannot be async")
        self.reduce_function: Callable[[Any, Any], Any] = reduce

    @property
    def spec(self) -> StateSpec:
        """What is declared to the state backend."""
        hint = hint_of(self.type_info)
        ttl = None if self._ttl is None else self._ttl.spec
        return StateSpec(type=hint, kind="reducing", reduce=self.reduce_function, ttl=ttl, copy=copier(hint))


class AggregatingStateDescriptor(StateDescriptor, Generic[T]):
    """One accumulator for each key, and the result of it."""

    _kind = "aggregating"

    def __init__(self, name: str, agg_function: Any, state_type_info: Any = Any) -> None:
        """
        Args:
            name: the state's name.
            agg_function: an AggregateFunction.
            state_type_info: type of its accumulator.

        Raises:
            ValidationException: it lacks a method of an AggregateFunction.
        """
        super().__init__(name, state_type_info)
        missing = [
            m for m in ("create_accumulator", "add", "get_result") if not callable(getattr(agg_function, m, None))
        ]
        if missing:
            raise ValidationException(
                f"state {name!r}: {agg_function!r} has no {', '.join(missing)}: no AggregateFunction"
            )
        self.agg_function = agg_function

    @property
    def spec(self) -> StateSpec:
        """What is declared to the state backend."""
        hint = hint_of(self.type_info)
        ttl = None if self._ttl is None else self._ttl.spec
        # An accumulator whose type is not declared is changed in place more often than not.
        copy = copy_value if hint is Any else copier(hint)
        return StateSpec(type=hint, kind="aggregating", aggregate=self.agg_function, ttl=ttl, copy=copy)


_HINTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("STRING", "CHAR"), str),
    **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG", "BIG_INT"), int),
    **dict.fromkeys(("FLOAT", "DOUBLE"), float),
    "BOOLEAN": bool,
    "BIG_DEC": Decimal,
    **dict.fromkeys(("INSTANT", "SQL_TIMESTAMP"), _dt.datetime),
    "SQL_DATE": _dt.date,
    "SQL_TIME": _dt.time,
    "ROW": Row,
}


def hint_of(type_info: Any) -> Any:
    """The Python type or annotation of what a descriptor was given as a type; Any where it tells nothing."""
    if isinstance(type_info, TypeInformation):
        if type_info.kind in _HINTS:
            return _HINTS[type_info.kind]
        parts = tuple(map(hint_of, type_info.parts))
        match type_info.kind:
            case "LIST" | "BASIC_ARRAY" | "OBJECT_ARRAY" | "PRIMITIVE_ARRAY":
                return list[parts[0]]  # type: ignore[valid-type]
            case "MAP":
                return dict[parts[0], parts[1]]  # type: ignore[valid-type]
            case "TUPLE":
                return tuple[parts]  # type: ignore[valid-type]
        return Any
    if isinstance(type_info, DataType):
        return type_info.cls if isinstance(type_info.cls, type) else Any
    return Any if type_info is None else type_info
