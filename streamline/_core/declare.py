"""What an operator or a user's function declares about its state; no storage here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ("StateKind", "StateSpec", "TtlSpec")

StateKind: TypeAlias = Literal["value", "list", "map", "reducing", "aggregating"]


@dataclass(frozen=True, slots=True)
class TtlSpec:
    """How long an entry lives, in processing time.

    Attributes:
        millis: time to live.
        refresh_on_read: reading renews it too (OnReadAndWrite).
        return_expired: expired entries that are not yet cleaned up are still returned.
        cleanup_size: how many entries each access looks at to remove expired ones nobody reads; 0: none.
        cleanup_in_snapshot: expired entries are left out of snapshots.
    """

    millis: int
    refresh_on_read: bool = False
    return_expired: bool = False
    cleanup_size: int = 5
    cleanup_in_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One named state of an operator.

    Attributes:
        type: Python type of a value (an element for lists, a map value for maps); Any where it is not known. It decides
            how values are decoded from a checkpoint: classes come back as themselves.
        default: what an absent value reads as.
        kind: the shape that a user's handle gives it.
        map_key: type of a map's keys.
        namespaced: entries are per key and namespace (a window) instead of per key.
        reduce: the combining function of "reducing".
        aggregate: the AggregateFunction of "aggregating"; `type` is then its accumulator's.
        ttl: when entries expire, or None.
        copy: makes an independent copy of a value that the operator changes in place; None for values that are never
            changed in place. The memory backend needs it while a snapshot is being written.
    """

    type: Any = Any
    default: Any = None
    kind: StateKind = "value"
    map_key: Any = Any
    namespaced: bool = False
    reduce: Callable[[Any, Any], Any] | None = None
    aggregate: Any = None
    ttl: TtlSpec | None = None
    copy: Callable[[Any], Any] | None = None
