"""Catalogs: databases, tables, views and functions by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import sqlglot.expressions as exp

from streamline.errors import ValidationException
from streamline.table.parse.statements import Distribution
from streamline.table.schema import Schema

__all__ = (
    "Catalog",
    "CatalogBaseTable",
    "CatalogDatabase",
    "CatalogFunction",
    "CatalogTable",
    "CatalogView",
    "GenericInMemoryCatalog",
    "ObjectPath",
    "QueryView",
)


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """A database and the name of an object in it."""

    database_name: str
    object_name: str

    def __str__(self) -> str:
        return f"{self.database_name}.{self.object_name}"


@dataclass(frozen=True)
class CatalogDatabase:
    """A database: its properties and comment."""

    properties: dict[str, str] = field(default_factory=dict)
    comment: str | None = None


@dataclass(frozen=True)
class CatalogTable:
    """A table of CREATE TABLE or of a descriptor.

    Attributes:
        schema: as declared.
        options: of WITH.
        partition_keys: names of columns.
        comment: of the table.
        distribution: DISTRIBUTED BY, or None.
    """

    schema: Schema
    options: dict[str, str] = field(default_factory=dict)
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    distribution: Distribution | None = None

    def get_schema(self) -> Schema:
        """The schema as declared."""
        return self.schema

    def get_options(self) -> dict[str, str]:
        """The options."""
        return dict(self.options)

    def get_comment(self) -> str | None:
        """The comment."""
        return self.comment


@dataclass(frozen=True)
class CatalogView:
    """A view of CREATE VIEW: its query, and where names in it are looked up.

    Attributes:
        query: the query's tree.
        text: its text as written.
        columns: the names of its columns.
        catalog, database: the current ones when it was made.
        comment: of the view.
    """

    query: exp.Expression
    text: str
    columns: tuple[str, ...]
    catalog: str
    database: str
    comment: str | None = None

    def get_original_query(self) -> str:
        """The query's text."""
        return self.text

    def get_comment(self) -> str | None:
        """The comment."""
        return self.comment


@dataclass(frozen=True)
class QueryView:
    """A view of a Table object, or of a stream: a plan without a text."""

    table: Any


@dataclass(frozen=True)
class CatalogFunction:
    """A user's function: the object, or the dotted path it is loaded from."""

    function: Any
    identifier: str | None = None
    language: str = "PYTHON"


CatalogBaseTable: TypeAlias = CatalogTable | CatalogView | QueryView


class Catalog(ABC):
    """A place where databases, tables and functions are kept. Implement it to put another store behind a name."""

    name: str

    def open(self) -> None:  # noqa: B027  an offer, not a duty
        """Called when it is registered."""

    def close(self) -> None:  # noqa: B027
        """Called when it is dropped."""

    @abstractmethod
    def get_default_database(self) -> str:
        """The database that is current when the catalog is first used."""

    # -- databases -----------------------------------------------------------------------------------------------

    @abstractmethod
    def list_databases(self) -> list[str]:
        """The names of the databases, sorted."""

    @abstractmethod
    def get_database(self, database_name: str) -> CatalogDatabase | None:
        """A database, None where there is none."""

    def database_exists(self, database_name: str) -> bool:
        """Whether there is such a database."""
        return self.get_database(database_name) is not None

    @abstractmethod
    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool = False) -> None:
        """Add a database."""

    @abstractmethod
    def drop_database(self, name: str, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        """Remove a database, with `cascade` all that is in it."""

    @abstractmethod
    def alter_database(self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool = False) -> None:
        """Change a database."""

    # -- tables and views ----------------------------------------------------------------------------------------

    @abstractmethod
    def list_tables(self, database_name: str) -> list[str]:
        """The names of tables and views, sorted."""

    def list_views(self, database_name: str) -> list[str]:
        """The names of views, sorted."""
        found = ((n, self.get_table(ObjectPath(database_name, n))) for n in self.list_tables(database_name))
        return [n for n, table in found if isinstance(table, CatalogView)]

    @abstractmethod
    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable | None:
        """A table or view, None where there is none."""

    def table_exists(self, table_path: ObjectPath) -> bool:
        """Whether there is such a table or view."""
        return self.get_table(table_path) is not None

    @abstractmethod
    def create_table(self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool = False) -> None:
        """Add a table or view."""

    @abstractmethod
    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool = False) -> None:
        """Remove a table or view."""

    @abstractmethod
    def rename_table(self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool = False) -> None:
        """Give a table or view another name."""

    @abstractmethod
    def alter_table(
        self, table_path: ObjectPath, new_table: CatalogBaseTable, ignore_if_not_exists: bool = False
    ) -> None:
        """Change a table or view."""

    # -- partitions ----------------------------------------------------------------------------------------------

    def list_partitions(self, table_path: ObjectPath) -> list[dict[str, str]]:
        """The partitions of a table, each as its columns and values."""
        return []

    def create_partition(
        self, table_path: ObjectPath, spec: Mapping[str, str], options: Mapping[str, str], ignore_if_exists: bool
    ) -> None:
        """Add a partition."""
        raise ValidationException(f"catalog {self.name} keeps no partitions")

    def drop_partition(self, table_path: ObjectPath, spec: Mapping[str, str], ignore_if_not_exists: bool) -> None:
        """Remove a partition."""
        raise ValidationException(f"catalog {self.name} keeps no partitions")

    # -- functions -----------------------------------------------------------------------------------------------

    @abstractmethod
    def list_functions(self, database_name: str) -> list[str]:
        """The names of functions, sorted."""

    @abstractmethod
    def get_function(self, function_path: ObjectPath) -> CatalogFunction | None:
        """A function, None where there is none."""

    def function_exists(self, function_path: ObjectPath) -> bool:
        """Whether there is such a function."""
        return self.get_function(function_path) is not None

    @abstractmethod
    def create_function(
        self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool = False
    ) -> None:
        """Add a function."""

    @abstractmethod
    def drop_function(self, function_path: ObjectPath, ignore_if_not_exists: bool = False) -> None:
        """Remove a function."""

    @abstractmethod
    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool = False
    ) -> None:
        """Change a function."""


@dataclass
class _Database:
    info: CatalogDatabase
    tables: dict[str, CatalogBaseTable] = field(default_factory=dict)
    functions: dict[str, CatalogFunction] = field(default_factory=dict)
    partitions: dict[str, dict[tuple[tuple[str, str], ...], dict[str, str]]] = field(default_factory=dict)


class GenericInMemoryCatalog(Catalog):
    """A catalog that lives as long as its table environment. Function names are the same in any case of letters."""

    def __init__(self, name: str, default_database: str = "default") -> None:
        self.name = name
        #: What CREATE CATALOG said of it.
        self.options: dict[str, str] = {}
        self.comment: str | None = None
        self._default = default_database
        self._databases: dict[str, _Database] = {default_database: _Database(CatalogDatabase())}

    def get_default_database(self) -> str:
        return self._default

    def _database(self, name: str) -> _Database:
        found = self._databases.get(name)
        if found is None:
            raise ValidationException(f"Database {name} does not exist in Catalog {self.name}.")
        return found

    # -- databases -----------------------------------------------------------------------------------------------

    def list_databases(self) -> list[str]:
        return sorted(self._databases)

    def get_database(self, database_name: str) -> CatalogDatabase | None:
        found = self._databases.get(database_name)
        return None if found is None else found.info

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool = False) -> None:
        if name in self._databases:
            if ignore_if_exists:
                return
            raise ValidationException(f"Database {name} already exists in Catalog {self.name}.")
        self._databases[name] = _Database(database)

    def drop_database(self, name: str, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        if name not in self._databases:
            if ignore_if_not_exists:
                return
            raise ValidationException(f"Database {name} does not exist in Catalog {self.name}.")
        found = self._databases[name]
        if (found.tables or found.functions) and not cascade:
            raise ValidationException(f"Database {name} in catalog {self.name} is not empty.")
        del self._databases[name]

    def alter_database(self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool = False) -> None:
        if name not in self._databases and ignore_if_not_exists:
            return
        self._database(name).info = new_database

    # -- tables --------------------------------------------------------------------------------------------------

    def list_tables(self, database_name: str) -> list[str]:
        return sorted(self._database(database_name).tables)

    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable | None:
        found = self._databases.get(table_path.database_name)
        return None if found is None else found.tables.get(table_path.object_name)

    def create_table(self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool = False) -> None:
        tables = self._database(table_path.database_name).tables
        if table_path.object_name in tables:
            if ignore_if_exists:
                return
            raise ValidationException(f"Table (or view) {table_path} already exists in Catalog {self.name}.")
        tables[table_path.object_name] = table

    def _table(self, path: ObjectPath, ignore: bool) -> bool:
        if self.get_table(path) is not None:
            return True
        if ignore:
            return False
        raise ValidationException(f"Table (or view) {path} does not exist in Catalog {self.name}.")

    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool = False) -> None:
        if self._table(table_path, ignore_if_not_exists):
            database = self._database(table_path.database_name)
            del database.tables[table_path.object_name]
            database.partitions.pop(table_path.object_name, None)

    def rename_table(self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool = False) -> None:
        if not self._table(table_path, ignore_if_not_exists):
            return
        database = self._database(table_path.database_name)
        if new_table_name in database.tables:
            raise ValidationException(
                f"Table (or view) {table_path.database_name}.{new_table_name} already exists in Catalog {self.name}."
            )
        database.tables[new_table_name] = database.tables.pop(table_path.object_name)
        if table_path.object_name in database.partitions:
            database.partitions[new_table_name] = database.partitions.pop(table_path.object_name)

    def alter_table(
        self, table_path: ObjectPath, new_table: CatalogBaseTable, ignore_if_not_exists: bool = False
    ) -> None:
        if self._table(table_path, ignore_if_not_exists):
            self._database(table_path.database_name).tables[table_path.object_name] = new_table

    # -- partitions ----------------------------------------------------------------------------------------------

    def list_partitions(self, table_path: ObjectPath) -> list[dict[str, str]]:
        self._table(table_path, False)
        return [dict(p) for p in self._database(table_path.database_name).partitions.get(table_path.object_name, ())]

    def create_partition(
        self, table_path: ObjectPath, spec: Mapping[str, str], options: Mapping[str, str], ignore_if_exists: bool
    ) -> None:
        self._table(table_path, False)
        found = self._database(table_path.database_name).partitions.setdefault(table_path.object_name, {})
        key = tuple(spec.items())
        if key in found and not ignore_if_exists:
            raise ValidationException(f"Partition {dict(spec)} of table {table_path} already exists.")
        found.setdefault(key, dict(options))

    def drop_partition(self, table_path: ObjectPath, spec: Mapping[str, str], ignore_if_not_exists: bool) -> None:
        self._table(table_path, False)
        found = self._database(table_path.database_name).partitions.get(table_path.object_name, {})
        if found.pop(tuple(spec.items()), None) is None and not ignore_if_not_exists:
            raise ValidationException(f"Partition {dict(spec)} of table {table_path} does not exist.")

    # -- functions -----------------------------------------------------------------------------------------------

    def list_functions(self, database_name: str) -> list[str]:
        return sorted(self._database(database_name).functions)

    def get_function(self, function_path: ObjectPath) -> CatalogFunction | None:
        found = self._databases.get(function_path.database_name)
        return None if found is None else found.functions.get(function_path.object_name.lower())

    def create_function(
        self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool = False
    ) -> None:
        functions = self._database(function_path.database_name).functions
        name = function_path.object_name.lower()
        if name in functions:
            if ignore_if_exists:
                return
            raise ValidationException(f"Function {function_path} already exists in Catalog {self.name}.")
        functions[name] = function

    def drop_function(self, function_path: ObjectPath, ignore_if_not_exists: bool = False) -> None:
        functions = self._database(function_path.database_name).functions
        if functions.pop(function_path.object_name.lower(), None) is None and not ignore_if_not_exists:
            raise ValidationException(f"Function {function_path} does not exist in Catalog {self.name}.")

    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool = False
    ) -> None:
        functions = self._database(function_path.database_name).functions
        name = function_path.object_name.lower()
        if name in functions:
            functions[name] = new_function
        elif not ignore_if_not_exists:
            raise ValidationException(f"Function {function_path} does not exist in Catalog {self.name}.")


def with_options(table: CatalogTable, changes: Mapping[str, str | None]) -> CatalogTable:
    """The table with options set, or removed where the value is None."""
    options = {**table.options, **{k: v for k, v in changes.items() if v is not None}}
    return replace(table, options={k: v for k, v in options.items() if changes.get(k, v) is not None})
