"""What the planner reads from the configuration, parsed and checked once a planning."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streamline._core.time import to_millis
from streamline.errors import TableException, ValidationException

__all__ = ("AsyncOptions", "ConfigReader", "MiniBatch", "PlannerConfig")

_EARLY = "table.exec.emit.early-fire"
_LATE = "table.exec.emit.late-fire"
_MINI = "table.exec.mini-batch"
_ASYNC = "table.exec.async-scalar"


class ConfigReader(Protocol):
    """A configuration: a mapping of keys to text does."""

    def get(self, key: str, default: Any = None, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Bundles of input: at most `latency` ms old and `size` records large. 0: the key is not set."""

    latency: int
    size: int

    def check(self) -> None:
        """Both keys have to be set.

        Raises:
            ValidationException: names every key that is missing.
        """
        missing = [f"'{_MINI}.allow-latency'"] * (self.latency <= 0) + [f"'{_MINI}.size'"] * (self.size <= 0)
        if missing:
            verb = "has" if len(missing) == 1 else "have"
            raise ValidationException(
                f"'{_MINI}.enabled' is true, but {' and '.join(missing)} {verb} to be set to a value > 0 as well"
            )


@dataclass(frozen=True, slots=True)
class AsyncOptions:
    """How async functions are called: so many calls at a time, each with all its attempts within `timeout` ms.

    A call that fails is made again after `delay` ms, `retries` times. Answers come in the order of the rows, or not
    (`ordered`).
    """

    capacity: int = 10
    timeout: int = 180_000
    retries: int = 3
    delay: int = 100
    ordered: bool = True

    @classmethod
    def read(cls, config: ConfigReader) -> AsyncOptions:
        """From the keys `table.exec.async-scalar.*`.

        Raises:
            ValidationException: a value is not one of the option's.
        """
        strategy = str(config.get(f"{_ASYNC}.retry-strategy", None) or "FIXED_DELAY").upper()
        if strategy not in ("FIXED_DELAY", "NO_RETRY"):
            raise ValidationException(f"'{_ASYNC}.retry-strategy' has to be FIXED_DELAY or NO_RETRY, not {strategy}")
        found = cls(
            capacity=_number(config, f"{_ASYNC}.max-concurrent-operations", 10),
            timeout=_duration(config, f"{_ASYNC}.timeout", 180_000),
            retries=_number(config, f"{_ASYNC}.max-attempts", 3),
            delay=_duration(config, f"{_ASYNC}.retry-delay", 100),
            ordered=str(config.get(f"{_ASYNC}.output-mode", None) or "ORDERED").upper() == "ORDERED",
        )
        return found if strategy == "FIXED_DELAY" else replace(found, retries=0)


@dataclass(frozen=True, slots=True)
class PlannerConfig:
    """The settings that a plan depends on; durations in milliseconds.

    Attributes:
        zone: the session time zone.
        mini_batch: None where it is off.
        state_ttl: 0: state is kept for ever.
        early_fire, late_fire: delay of legacy group windows, None: off; 0: with every record.
        allow_lateness: how long a legacy group window is kept after its end.
        prefer_append_only: take an insert-only variant wherever one gives the same final rows.
        require_on_conflict: an INSERT whose key differs from the query's needs ON CONFLICT.
        source_idle_timeout: 0: sources never count as idle.
        on_event_watermarks: declared watermarks are emitted behind every record that advances them.
        watermark_interval: else each so many milliseconds.
        legacy_cast: a failing CAST gives NULL.
        database, catalog: the current ones.
        async_scalar: how async scalar functions are called.
    """

    zone: tzinfo = field(default=UTC)
    mini_batch: MiniBatch | None = None
    state_ttl: int = 0
    early_fire: int | None = None
    late_fire: int | None = None
    allow_lateness: int = 0
    prefer_append_only: bool = False
    require_on_conflict: bool = True
    source_idle_timeout: int = 0
    on_event_watermarks: bool = False
    watermark_interval: int = 200
    legacy_cast: bool = False
    database: str = "default_database"
    catalog: str = "default_catalog"
    async_scalar: AsyncOptions = field(default_factory=AsyncOptions)

    @classmethod
    def read(cls, config: ConfigReader) -> PlannerConfig:
        """From configuration keys; absent ones have Flink's defaults (the time zone is UTC)."""
        mini = None
        if _flag(config, f"{_MINI}.enabled"):
            size = config.get(f"{_MINI}.size", None)
            mini = MiniBatch(_duration(config, f"{_MINI}.allow-latency", 0), int(size) if size is not None else 0)
        return cls(
            zone=time_zone(str(config.get("table.local-time-zone", None) or "UTC")),
            mini_batch=mini,
            state_ttl=_duration(config, "table.exec.state.ttl", 0),
            early_fire=_delay(config, _EARLY, "Early"),
            late_fire=_delay(config, _LATE, "Late"),
            allow_lateness=_duration(config, "table.exec.emit.allow-lateness", 0),
            prefer_append_only=_flag(config, "table.exec.streaming.prefer-append-only"),
            require_on_conflict=_flag(config, "table.exec.sink.require-on-conflict", True),
            source_idle_timeout=_duration(config, "table.exec.source.idle-timeout", 0),
            on_event_watermarks=str(config.get("scan.watermark.emit.strategy", None)) == "on-event",
            watermark_interval=_duration(config, "pipeline.auto-watermark-interval", 200),
            legacy_cast=str(config.get("table.exec.legacy-cast-behaviour", None)).upper() in ("ENABLED", "TRUE"),
            database=str(config.get("table.builtin-database-name", None) or "default_database"),
            catalog=str(config.get("table.builtin-catalog-name", None) or "default_catalog"),
            async_scalar=AsyncOptions.read(config),
        )


def _flag(config: ConfigReader, key: str, default: bool = False) -> bool:
    value = config.get(key, None)
    if value is None or isinstance(value, bool):
        return default if value is None else value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValidationException(f"'{key}' has to be true or false, not {value!r}")
    return text == "true"


def _number(config: ConfigReader, key: str, default: int) -> int:
    value = config.get(key, None)
    try:
        number = default if value is None else int(value)
    except ValueError:
        number = 0
    if number <= 0:
        raise ValidationException(f"'{key}' has to be a number > 0, not {value!r}")
    return number


def _duration(config: ConfigReader, key: str, default: int) -> int:
    value = config.get(key, None)
    if value is None:
        return default
    if isinstance(value, str) and value.strip().lstrip("-").isdigit():
        return int(value)
    return to_millis(value, f"'{key}'")


def _delay(config: ConfigReader, prefix: str, what: str) -> int | None:
    if not _flag(config, f"{prefix}.enabled"):
        return None
    delay = _duration(config, f"{prefix}.delay", -1)
    if delay < 0:
        raise TableException(
            f"{what}-fire delay should not be null or negative value when enable {what.lower()}-fire emit strategy. "
            f"Set '{prefix}.delay'"
        )
    return delay


def time_zone(name: str) -> tzinfo:
    """The time zone of that name, or of an offset such as `GMT+08:00`.

    Raises:
        ValidationException: there is none.
    """
    if name.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if name[:3].upper() in ("GMT", "UTC") and name[3:4] in ("+", "-"):
        return _offset(name[3:], name)
    if name[:1] in ("+", "-"):
        return _offset(name, name)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValidationException(
            f"'table.local-time-zone' is no time zone: {name!r}; write e.g. 'UTC', 'Europe/Berlin', 'GMT+08:00'"
        ) from None


def _offset(text: str, name: str) -> tzinfo:
    from_text = text[1:].split(":")
    try:
        hours, minutes = int(from_text[0]), int(from_text[1]) if len(from_text) > 1 else 0
    except ValueError:
        raise ValidationException(f"'table.local-time-zone' is no time zone: {name!r}") from None
    delta = timedelta(hours=hours, minutes=minutes)
    return timezone(-delta if text[0] == "-" else delta)
