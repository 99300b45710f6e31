"""What a format is: bytes to values and back, for streams (schemas) and for tables (decoders and encoders of rows)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from streamline._core.types import Field
from streamline.connectors.options import Option, Options
from streamline.errors import StreamlineError

__all__ = (
    "DeserializationException",
    "DeserializationSchema",
    "FormatFactory",
    "RowDecoder",
    "RowEncoder",
    "SerializationSchema",
    "excerpt",
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class DeserializationException(StreamlineError):
    """Bytes that are no value of the declared type. Who produced them has to act, or who declared the type.

    Attributes:
        reason: what is wrong, without the place.
        column: the column or field, where it is known.
        where: the place, e.g. "topic 'events', partition 0, offset 3"; the connector fills it in.
        value: the bytes.
    """

    def __init__(self, reason: str, *, value: bytes = b"", column: str | None = None, where: str = "") -> None:
        self.reason = reason
        self.column = column
        self.where = where
        self.value = value
        super().__init__(f"{where}: {reason}" if where else reason)

    def at(self, where: str) -> DeserializationException:
        """The same with its place."""
        return type(self)(self.reason, value=self.value, column=self.column, where=where)


def excerpt(value: bytes, length: int = 200) -> str:
    """A value as text for messages, cut where it is long."""
    text = value[: 4 * length].decode(errors="backslashreplace")
    return text if len(text) <= length else f"{text[:length]}… ({len(value)} bytes)"


class DeserializationSchema(ABC, Generic[T]):
    """Makes a value of the bytes of a record, for streams."""

    #: Whether bytes that cannot be read are skipped and counted instead of failing the job.
    ignore_parse_errors: bool = False

    @abstractmethod
    def deserialize(self, message: bytes) -> T | None:
        """The value, or None for none.

        Raises:
            Exception: the bytes cannot be read; a `DeserializationException` can name the field.
        """

    def get_produced_type(self) -> Any:
        """The Python type of the values where it is known, else None."""
        return None


class SerializationSchema(ABC, Generic[T]):
    """Makes the bytes of a record of a value, for streams."""

    @abstractmethod
    def serialize(self, element: T) -> bytes | None:
        """The bytes; None writes a record without a value (a tombstone)."""


class RowDecoder(Protocol):
    """Decodes values of one table.

    Attributes:
        sources: by field: Python source of its value in the inner form, where `r` is a decoded row.
        namespace: what the names in the sources stand for.
        ignore_errors: values that cannot be read are to be skipped and counted.
    """

    @property
    def sources(self) -> Mapping[str, str]: ...
    @property
    def namespace(self) -> Mapping[str, Any]: ...
    @property
    def ignore_errors(self) -> bool: ...

    def decode(self, values: Sequence[bytes]) -> list[Any]:
        """One row for each value, fast. Any exception: decode them one by one to find the culprit."""
        ...

    def empty(self) -> Any:
        """A row whose fields are all NULL, for a record without a value."""
        ...

    def decode_one(self, value: bytes) -> Any:
        """The row of one value, by all the rules; None for no row.

        Raises:
            DeserializationException: it cannot be read; names the column.
        """
        ...


class RowEncoder(Protocol):
    """Encodes rows of one table.

    Attributes:
        template: Python source of an object that holds a row, with `{0}`, `{1}`, … for the values of the fields in the
            inner form, each used once.
        namespace: what the names in the template stand for.
        encode: the bytes of such an object; None for a record without a value.
    """

    @property
    def template(self) -> str: ...
    @property
    def namespace(self) -> Mapping[str, Any]: ...
    @property
    def encode(self) -> Callable[[Any], bytes | None]: ...


class FormatFactory(ABC):
    """A format by its SQL name."""

    #: The value of the option `format`.
    identifier: ClassVar[str]
    #: Its options, without the prefix (`json.`).
    options: ClassVar[tuple[Option[Any], ...]] = ()

    @abstractmethod
    def decoder(self, options: Options, fields: Sequence[Field], extras: Sequence[str] = ()) -> RowDecoder:
        """Decodes these fields. Decoded rows have attributes of the names `extras` besides, for the connector to set.

        Raises:
            ValidationException: an option or the type of a field is not one of this format.
        """

    @abstractmethod
    def encoder(self, options: Options, fields: Sequence[Field]) -> RowEncoder:
        """Encodes these fields.

        Raises:
            ValidationException: an option or the type of a field is not one of this format.
        """
