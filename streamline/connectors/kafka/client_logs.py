"""What Kafka's clients log while no broker answers: one warning now and then instead of hundreds of errors.

A client that has lost its broker says so about three times a second, in words about its inner parts. Only the clients
of this package are held back, only with what they say of connections, and only where the logger `aiokafka` is not set
to DEBUG. Levels, handlers and other users of the library are as they were.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

__all__ = ("SECONDS", "clients_of")

_log = logging.getLogger("streamline.kafka")

#: Seconds between two warnings about the same brokers.
SECONDS: Final = 60.0

#: The brokers' addresses, in the tasks of our clients.
_BROKERS: Final[ContextVar[str | None]] = ContextVar("streamline_kafka_brokers", default=None)

_LOGGERS: Final = (
    "aiokafka",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
    "aiokafka.producer.sender",
)
#: What is said of connections begins so.
_CONNECTION: Final = (
    "Cannot send %r to",
    "Could not send %r",
    "Failed fetch messages from",
    "Failed fetch offsets from",
    "Got error produce response: %s",
    "Unable connect to",
    "Unable to request metadata from",
    "Unable to update metadata from",
)
#: And so what is said of the coordinator of a group, which also is away for a moment when a cluster is new.
_COORDINATOR: Final = ("Group Coordinator Request failed", "Marking the coordinator dead")


@contextlib.contextmanager
def clients_of(bootstrap: str) -> Iterator[None]:
    """Clients that are started or called in here are ours, and so are all their tasks."""
    token = _BROKERS.set(bootstrap)
    try:
        yield
    finally:
        _BROKERS.reset(token)


class _Collapse(logging.Filter):
    """Holds back what our clients say of connections, and says it once, with the number of the others."""

    def __init__(self) -> None:
        super().__init__()
        #: By brokers, and whether it is about a connection: when it was last said (epoch seconds), and how many were
        #: held back since.
        self._said: dict[tuple[str, bool], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        brokers = _BROKERS.get()
        if brokers is None or not str(record.msg).startswith(_CONNECTION + _COORDINATOR):
            return True
        if logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return True
        key = brokers, str(record.msg).startswith(_CONNECTION)
        at, held = self._said.get(key, (None, 0))
        if at is not None and at <= record.created < at + SECONDS:
            self._said[key] = at, held + 1
            return False
        self._said[key] = record.created, 0
        more = f" ({held} more such messages since the last one)" if held else ""
        _log.warning(
            "Kafka at %s: %s%s. The clients try again by themselves; for all that they say, set the logger 'aiokafka' "
            "to DEBUG",
            brokers,
            record.getMessage(),
            more,
        )
        return False


_collapse: Final = _Collapse()
for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(_collapse)
