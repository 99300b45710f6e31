"""When a sink begins another file, what its files are called, and in which folder they are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streamline._core.time import Duration, from_epoch_millis, to_millis
from streamline.connectors.builder import Builder
from streamline.errors import StreamlineError, ValidationException

__all__ = (
    "BucketAssigner",
    "BucketContext",
    "OutputFileConfig",
    "RollingPolicy",
    "bucket_function",
    "checked_bucket",
    "strftime_of",
)


# -- rolling -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RollingPolicy:
    """When a file is complete, besides at every checkpoint and at the end of the input.

    Attributes:
        part_size: bytes after which another file is begun; None: never.
        rollover_interval: milliseconds that a file is written to at most; None: no limit.
        inactivity_interval: milliseconds without a record; None: no limit.
    """

    part_size: int | None = 128 << 20
    rollover_interval: int | None = 60_000
    inactivity_interval: int | None = 60_000

    def __post_init__(self) -> None:
        for name in ("part_size", "rollover_interval", "inactivity_interval"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValidationException(f"{name} of a rolling policy has to be positive, not {value}")

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 << 20, rollover_interval: Duration = 60_000, inactivity_interval: Duration = 60_000
    ) -> RollingPolicy:
        """By size (bytes), time and inactivity (timedelta, text or ms)."""
        return RollingPolicy(
            part_size,
            to_millis(rollover_interval, "rollover_interval"),
            to_millis(inactivity_interval, "inactivity_interval"),
        )

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """At checkpoints only."""
        return RollingPolicy(None, None, None)

    def is_due(self, now: int, created: int, written: int) -> bool:
        """Whether a file's time is over; all in epoch ms."""
        rollover, inactivity = self.rollover_interval, self.inactivity_interval
        return (rollover is not None and now - created >= rollover) or (
            inactivity is not None and now - written >= inactivity
        )


# -- names ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OutputFileConfig:
    """What files are called: `<prefix>-<subtask>-<run>-<number><suffix>`."""

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        if (
            "/" in self.part_prefix + self.part_suffix
            or self.part_prefix.startswith((".", "_"))
            or not self.part_prefix
        ):
            raise ValidationException(
                f"file names cannot begin with {self.part_prefix!r} and end with {self.part_suffix!r}: the prefix must "
                "not be empty nor begin with '.' or '_', and neither has a '/' in it"
            )

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        """The same by `with_part_prefix`, `with_part_suffix`, `build`."""
        return OutputFileConfigBuilder(OutputFileConfig)


class OutputFileConfigBuilder(Builder[OutputFileConfig]):
    """The builder of an OutputFileConfig, with PyFlink's names."""

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        """What names begin with."""
        self.set_part_prefix(prefix)
        return self

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        """What names end with."""
        self.set_part_suffix(suffix)
        return self


# -- folders -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class BucketContext:
    """What is known of a record besides its value; times in epoch ms."""

    processing_time: int = 0
    watermark: int | None = None
    record_timestamp: int | None = None

    def current_processing_time(self) -> int:
        """Processing time."""
        return self.processing_time

    def current_watermark(self) -> int | None:
        """The last watermark; None before the first."""
        return self.watermark

    def timestamp(self) -> int | None:
        """The record's event time; None where it has none."""
        return self.record_timestamp


#: Gives the folder of a record, relative to the sink's, or "" for the sink's own.
Assign = Callable[[Any, BucketContext], Any]


class BucketAssigner:
    """Ways to choose folders, by PyFlink's names. Any function of (value) or (value, context) is one too."""

    @staticmethod
    def base_path_bucket_assigner() -> Assign:
        """Everything into the sink's own folder."""
        return _base_path

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> Assign:
        """By processing time.

        Args:
            format_str: of Java: yyyy, MM, dd, HH, mm and ss, text between single quotes, and what is no letter.
            timezone_id: an IANA name; UTC by default.

        Raises:
            ValidationException: another letter in the format, or no such time zone.
        """
        pattern = strftime_of(format_str)
        try:
            zone = ZoneInfo(timezone_id or "UTC")
        except (ZoneInfoNotFoundError, ValueError) as e:
            raise ValidationException(f"there is no time zone {timezone_id!r}: write e.g. 'Europe/Berlin'") from e

        last: tuple[int, str] = (-1, "")

        def assign(value: Any, context: BucketContext) -> str:
            nonlocal last
            second = context.processing_time // 1000
            if last[0] != second:
                last = (second, from_epoch_millis(context.processing_time).astimezone(zone).strftime(pattern))
            return last[1]

        return assign


def _base_path(value: Any, context: BucketContext) -> str:
    return ""


_LETTERS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "": ""}
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z'])")


def strftime_of(java: str) -> str:
    """A pattern of Java's DateTimeFormatter as one of strftime."""
    found, at = [], 0
    while at < len(java):
        token = _TOKEN.match(java, at)
        letters = token[2] if token else None
        if token is None or (letters and letters not in _LETTERS):
            raise ValidationException(
                f"{java!r} is no format of dates: {java[at:]!r} is not understood; there are yyyy, MM, dd, HH, mm, ss "
                "and text between single quotes"
            )
        text = token[4] if token[4] is not None else (token[1] or "").replace("''", "'")
        found.append(_LETTERS[letters] if letters else text.replace("%", "%%"))
        at = token.end()
    return "".join(found)


def bucket_function(assigner: Any) -> Assign | None:
    """An assigner as a function of (value, context); None: no folders.

    Raises:
        ValidationException: it cannot be called.
    """
    if assigner is None or assigner is _base_path:
        return None
    method = getattr(assigner, "get_bucket_id", None)
    found = method if method is not None else assigner
    if not callable(found):
        raise ValidationException(
            f"a bucket assigner is a function of (value) or (value, context) that gives a folder, not {assigner!r}"
        )
    try:
        inspect.signature(found).bind(None, None)
    except TypeError:
        return lambda value, _: found(value)
    except ValueError:
        return lambda value, _: found(value)
    return found  # type: ignore[no-any-return]


def checked_bucket(bucket: Any, value: Any) -> str:
    """A folder below the sink's.

    Raises:
        StreamlineError: it leaves the sink's folder, or readers would not look into it.
    """
    text = str(bucket)
    parts = text.split("/")
    if text and (text.startswith("/") or "\0" in text or any(p in ("", ".", "..") or p[0] == "." for p in parts)):
        raise StreamlineError(
            f"the bucket assigner gave {text!r} for {value!r}: a folder below the sink's is needed, such as "
            "'2024-05-01' or 'country=de/day=1', without hidden ones"
        )
    return text
