"""TableDescriptor: a table over a connector, described in Python instead of DDL."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from streamline.errors import ValidationException
from streamline.table.catalog import CatalogTable
from streamline.table.parse.statements import Distribution
from streamline.table.schema import Schema

__all__ = ("FormatDescriptor", "TableDescriptor")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class FormatDescriptor:
    """A format and its options."""

    name: str
    options: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def for_format(format: str) -> _FormatBuilder:
        """A builder for a format such as `json`."""
        return _FormatBuilder(format)

    def get_format(self) -> str:
        """The format's name."""
        return self.name

    def get_options(self) -> dict[str, str]:
        """Its options, without its name in front."""
        return dict(self.options)


class _FormatBuilder:
    def __init__(self, name: str) -> None:
        self._descriptor = FormatDescriptor(name)

    def option(self, key: str, value: Any) -> _FormatBuilder:
        """Set an option, without the format's name in front."""
        self._descriptor = replace(self._descriptor, options={**self._descriptor.options, key: _text(value)})
        return self

    def build(self) -> FormatDescriptor:
        """The format."""
        return self._descriptor


@dataclass(frozen=True)
class TableDescriptor:
    """What CREATE TABLE says: schema, options, partitions, comment."""

    schema: Schema | None = None
    options: dict[str, str] = field(default_factory=dict)
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    distribution: Distribution | None = None

    @staticmethod
    def for_connector(connector: str) -> TableDescriptorBuilder:
        """A builder for a table over a connector such as `kafka`."""
        return TableDescriptorBuilder(connector)

    @staticmethod
    def for_managed() -> TableDescriptorBuilder:
        """A builder for a table without a connector."""
        return TableDescriptorBuilder(None)

    def get_schema(self) -> Schema | None:
        """The schema, None where it is derived."""
        return self.schema

    def get_options(self) -> dict[str, str]:
        """The options."""
        return dict(self.options)

    def get_partition_keys(self) -> tuple[str, ...]:
        """The partition columns."""
        return self.partition_keys

    def get_comment(self) -> str | None:
        """The comment."""
        return self.comment

    def to_catalog_table(self) -> CatalogTable:
        """The table as a catalog keeps it."""
        return CatalogTable(
            self.schema or Schema(), dict(self.options), self.partition_keys, self.comment, self.distribution
        )

    def __str__(self) -> str:
        schema = "" if self.schema is None else str(self.schema)
        options = ",\n".join(f"  '{k}' = '{v}'" for k, v in sorted(self.options.items()))
        comment = "" if self.comment is None else f"\nCOMMENT '{self.comment}'"
        keys = f"\nPARTITIONED BY ({', '.join(f'`{k}`' for k in self.partition_keys)})" if self.partition_keys else ""
        return f"{schema}{comment}{keys}\nWITH (\n{options}\n)"


class TableDescriptorBuilder:
    """Collects what describes a table."""

    def __init__(self, connector: str | None) -> None:
        options = {} if connector is None else {"connector": connector}
        self._descriptor = TableDescriptor(options=options)

    def _with(self, **changes: Any) -> TableDescriptorBuilder:
        self._descriptor = replace(self._descriptor, **changes)
        return self

    def schema(self, schema: Schema) -> TableDescriptorBuilder:
        """The columns."""
        return self._with(schema=schema)

    def option(self, key: str, value: Any) -> TableDescriptorBuilder:
        """Set an option of the connector."""
        return self._with(options={**self._descriptor.options, key: _text(value)})

    def format(self, format: str | FormatDescriptor, format_option: str = "format") -> TableDescriptorBuilder:
        """Set the format, with its options.

        Args:
            format: its name, or a `FormatDescriptor`.
            format_option: the option that names it: `format`, `key.format`, `value.format`.
        """
        if isinstance(format, str):
            return self.option(format_option, format)
        prefix = format_option.removesuffix("format") + format.name
        given = {f"{prefix}.{k}": v for k, v in format.options.items()}
        return self._with(options={**self._descriptor.options, format_option: format.name, **given})

    def partitioned_by(self, *partition_keys: str) -> TableDescriptorBuilder:
        """The partition columns."""
        return self._with(partition_keys=(*self._descriptor.partition_keys, *partition_keys))

    def _distributed(self, kind: str | None, args: tuple[Any, ...]) -> TableDescriptorBuilder:
        buckets = args[0] if args and isinstance(args[0], int) else None
        columns = args[1:] if buckets is not None else args
        if not all(isinstance(c, str) for c in columns):
            raise ValidationException(f"distributed_by takes a number of buckets and column names, not {args!r}")
        return self._with(distribution=Distribution(kind, tuple(columns), buckets))

    def distributed_by(self, *args: Any) -> TableDescriptorBuilder:
        """Distribute rows over buckets: `(8, "a")` or `("a",)`."""
        return self._distributed(None, args)

    def distributed_by_hash(self, *args: Any) -> TableDescriptorBuilder:
        """Distribute rows over buckets by hash."""
        return self._distributed("HASH", args)

    def distributed_by_range(self, *args: Any) -> TableDescriptorBuilder:
        """Distribute rows over buckets by range."""
        return self._distributed("RANGE", args)

    def distributed_into(self, bucket_count: int) -> TableDescriptorBuilder:
        """Distribute rows over so many buckets."""
        return self._distributed(None, (bucket_count,))

    def comment(self, comment: str) -> TableDescriptorBuilder:
        """The table's comment."""
        return self._with(comment=comment)

    def build(self) -> TableDescriptor:
        """The descriptor."""
        return self._descriptor
