"""From the name of a connector or format in SQL to its factory, without importing any other.

Packages add theirs by entry points in the groups `streamline.connectors` and `streamline.formats`; a name that is
ours cannot be taken over.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from streamline.abc import TableFactory
from streamline.connectors.formats.base import FormatFactory
from streamline.errors import ValidationException

__all__ = ("connector", "connector_names", "format_factory", "format_names")

_CONNECTORS: Final = {
    "blackhole": "streamline.connectors.blackhole:BlackholeFactory",
    "datagen": "streamline.connectors.datagen.table:DatagenTableFactory",
    "filesystem": "streamline.connectors.files.table:FilesystemTableFactory",
    "kafka": "streamline.connectors.kafka.table:KafkaTableFactory",
    "print": "streamline.connectors.print:PrintFactory",
    "upsert-kafka": "streamline.connectors.kafka.upsert:UpsertKafkaTableFactory",
}
_FORMATS: Final = {
    "csv": "streamline.connectors.formats.csv:CsvFormatFactory",
    "json": "streamline.connectors.formats.json:JsonFormatFactory",
    "raw": "streamline.connectors.formats.raw:RawFormatFactory",
}


def connector_names() -> list[str]:
    """The names that the option `connector` may have."""
    return sorted({*_CONNECTORS, *_plugins("streamline.connectors")})


def format_names() -> list[str]:
    """The names that the option `format` may have."""
    return sorted({*_FORMATS, *_plugins("streamline.formats")})


def connector(identifier: str) -> TableFactory:
    """The factory of a connector.

    Raises:
        ValidationException: there is none of this name, or a package it needs is missing.
    """
    factory = _load("connector", identifier, _CONNECTORS, "streamline.connectors")
    if factory is None:
        raise ValidationException(
            f"Could not find any factory for identifier '{identifier}' that implements a table.\n\n"
            "Available factory identifiers are:\n\n" + "\n".join(connector_names())
        )
    if not isinstance(factory, TableFactory):
        raise ValidationException(f"connector '{identifier}': {factory!r} is no streamline.abc.TableFactory")
    return factory


def format_factory(identifier: str) -> FormatFactory:
    """The factory of a format.

    Raises:
        ValidationException: there is none of this name, or a package it needs is missing.
    """
    factory = _load("format", identifier, _FORMATS, "streamline.formats")
    if factory is None:
        raise ValidationException(
            f"Could not find any format factory for identifier '{identifier}'.\n\n"
            "Available factory identifiers are:\n\n" + "\n".join(format_names())
        )
    if not isinstance(factory, FormatFactory):
        raise ValidationException(f"format '{identifier}': {factory!r} is no FormatFactory")
    return factory


@cache
def _plugins(group: str) -> dict[str, EntryPoint]:
    return {e.name: e for e in entry_points(group=group)}


def _load(what: str, identifier: str, ours: dict[str, str], group: str) -> Any:
    try:
        if identifier in ours:
            module, _, name = ours[identifier].partition(":")
            return getattr(importlib.import_module(module), name)()
        if identifier in _plugins(group):
            return _plugins(group)[identifier].load()()
    except ImportError as e:
        raise ValidationException(f"{what} '{identifier}' needs a package that is not installed: {e}") from e
    return None
