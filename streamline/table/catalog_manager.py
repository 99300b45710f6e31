"""The catalogs of one table environment: current names, temporary objects over permanent ones, functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from streamline.errors import ValidationException
from streamline.table.catalog import (
    Catalog,
    CatalogBaseTable,
    CatalogFunction,
    CatalogTable,
    GenericInMemoryCatalog,
    ObjectPath,
)

__all__ = ("CatalogManager", "Found", "FullPath", "dotted", "quoted_path")

#: Catalog, database, object.
FullPath: TypeAlias = tuple[str, str, str]

_Kind: TypeAlias = Literal["TABLE", "VIEW"]


def dotted(path: tuple[str, ...]) -> str:
    """The parts with points between them."""
    return ".".join(path)


def quoted_path(path: tuple[str, ...]) -> str:
    """The parts in backticks."""
    return ".".join(f"`{p}`" for p in path)


@dataclass(frozen=True, slots=True)
class Found:
    """An object with its full path, and whether it is a temporary one."""

    path: FullPath
    object: CatalogBaseTable
    temporary: bool

    @property
    def kind(self) -> _Kind:
        """TABLE or VIEW."""
        return "TABLE" if isinstance(self.object, CatalogTable) else "VIEW"


class CatalogManager:
    """Finds and keeps objects by name. A temporary object hides the permanent one of its name."""

    def __init__(self, catalog_name: str, database_name: str) -> None:
        self._catalogs: dict[str, Catalog] = {catalog_name: GenericInMemoryCatalog(catalog_name, database_name)}
        self.current_catalog: str | None = catalog_name
        self.current_database: str | None = database_name
        self._temporary: dict[FullPath, CatalogBaseTable] = {}
        self._temporary_functions: dict[FullPath, CatalogFunction] = {}
        self._system_functions: dict[str, CatalogFunction] = {}

    # -- catalogs ------------------------------------------------------------------------------------------------

    def register(self, name: str, catalog: Catalog) -> None:
        """Add a catalog."""
        if name in self._catalogs:
            raise ValidationException(f"Catalog {name} already exists.")
        catalog.open()
        self._catalogs[name] = catalog

    def drop_catalog(self, name: str, if_exists: bool) -> None:
        """Remove a catalog; not the current one."""
        if name not in self._catalogs:
            if if_exists:
                return
            raise ValidationException(f"Catalog {name} does not exist.")
        if name == self.current_catalog:
            raise ValidationException("Cannot drop a catalog which is currently in use.")
        self._catalogs.pop(name).close()

    def list_catalogs(self) -> list[str]:
        """The names of the catalogs."""
        return sorted(self._catalogs)

    def get_catalog(self, name: str) -> Catalog | None:
        """A catalog, None where there is none."""
        return self._catalogs.get(name)

    def catalog(self, name: str) -> Catalog:
        """A catalog; an error where there is none."""
        found = self._catalogs.get(name)
        if found is None:
            raise ValidationException(f"A catalog with name [{name}] does not exist.")
        return found

    def use_catalog(self, name: str) -> None:
        """Make a catalog the current one, and its default database too."""
        self.current_database = self.catalog(name).get_default_database()
        self.current_catalog = name

    def use_database(self, name: str, catalog: str | None = None) -> None:
        """Make a database the current one."""
        where = catalog if catalog is not None else self.current_catalog
        if where is None:
            raise ValidationException("A current catalog has not been set.")
        if not self.catalog(where).database_exists(name):
            raise ValidationException(f"A database with name [{name}] does not exist in the catalog: [{where}].")
        self.current_catalog, self.current_database = where, name

    def current(self) -> Catalog:
        """The current catalog."""
        if self.current_catalog is None:
            raise ValidationException("A current catalog has not been set. Please use USE CATALOG.")
        return self.catalog(self.current_catalog)

    def database(self) -> str:
        """The name of the current database."""
        if self.current_database is None:
            raise ValidationException("A current database has not been set. Please use USE.")
        return self.current_database

    # -- names ---------------------------------------------------------------------------------------------------

    def qualify(self, path: tuple[str, ...]) -> FullPath:
        """The full path of a name: missing parts are the current ones."""
        match path:
            case (catalog, database, name):
                return catalog, database, name
            case (database, name):
                return self.current_catalog or "", database, name
            case (name,):
                return self.current_catalog or "", self.current_database or "", name
        raise ValidationException(f"{dotted(path)} is no name of an object: it has more than three parts")

    # -- tables and views ----------------------------------------------------------------------------------------

    def find(self, path: tuple[str, ...]) -> Found | None:
        """The table or view of that name, a temporary one first."""
        full = self.qualify(path)
        temporary = self._temporary.get(full)
        if temporary is not None:
            return Found(full, temporary, True)
        catalog = self._catalogs.get(full[0])
        permanent = None if catalog is None else catalog.get_table(ObjectPath(full[1], full[2]))
        return None if permanent is None else Found(full, permanent, False)

    def get(self, path: tuple[str, ...]) -> Found:
        """The table or view of that name; an error where there is none."""
        found = self.find(path)
        if found is None:
            raise self.missing(path)
        return found

    def missing(self, path: tuple[str, ...], kind: str = "Table") -> ValidationException:
        """The error for a name that nothing has."""
        return ValidationException(f"{kind} with identifier '{dotted(self.qualify(path))}' does not exist.")

    def create(
        self, path: tuple[str, ...], table: CatalogBaseTable, *, temporary: bool, ignore_if_exists: bool = False
    ) -> FullPath:
        """Add a table or view."""
        full = self.qualify(path)
        if temporary:
            if full in self._temporary:
                if ignore_if_exists:
                    return full
                raise ValidationException(f"Temporary table '{quoted_path(full)}' already exists")
            self._temporary[full] = table
            return full
        self._permanent(full[0]).create_table(ObjectPath(full[1], full[2]), table, ignore_if_exists)
        return full

    def _permanent(self, name: str) -> Catalog:
        found = self._catalogs.get(name)
        if found is None:
            raise ValidationException(f"Catalog {name} does not exist.")
        return found

    def replace(self, found: Found, table: CatalogBaseTable) -> None:
        """Put another definition in an object's place."""
        if found.temporary:
            self._temporary[found.path] = table
        else:
            self.catalog(found.path[0]).alter_table(ObjectPath(*found.path[1:]), table)

    def rename(self, found: Found, new_path: tuple[str, ...]) -> None:
        """Give an object another name in its database."""
        full = self.qualify(new_path if len(new_path) > 1 else (*found.path[:2], *new_path))
        if full[:2] != found.path[:2]:
            raise ValidationException(
                f"The catalog and database of {dotted(found.path)} cannot be changed by renaming it to {dotted(full)}."
            )
        if found.temporary:
            if full in self._temporary:
                raise ValidationException(f"Temporary table '{quoted_path(full)}' already exists.")
            self._temporary[full] = self._temporary.pop(found.path)
        else:
            self.catalog(full[0]).rename_table(ObjectPath(*found.path[1:]), full[2])

    def drop(self, path: tuple[str, ...], kind: _Kind, *, temporary: bool, if_exists: bool) -> bool:
        """Remove a table or view; whether it was there.

        Raises:
            ValidationException: it is not there, is of the other kind, or is hidden by a temporary object.
        """
        full = self.qualify(path)
        word = "Table" if kind == "TABLE" else "View"
        held = self._temporary.get(full)
        if temporary:
            if held is not None and isinstance(held, CatalogTable) == (kind == "TABLE"):
                del self._temporary[full]
                return True
            if if_exists:
                return False
            raise ValidationException(f"Temporary {word.lower()} with identifier '{dotted(full)}' does not exist.")
        if held is not None:
            raise ValidationException(
                f"Temporary {word.lower()} with identifier '{dotted(full)}' exists. Drop it first before removing the "
                f"permanent {word.lower()}: DROP TEMPORARY {'TABLE' if isinstance(held, CatalogTable) else 'VIEW'} "
                f"{quoted_path(full)}"
            )
        catalog = self._catalogs.get(full[0])
        stored = None if catalog is None else catalog.get_table(ObjectPath(full[1], full[2]))
        if catalog is None or stored is None or isinstance(stored, CatalogTable) != (kind == "TABLE"):
            if if_exists:
                return False
            raise ValidationException(f"{word} with identifier '{dotted(full)}' does not exist.")
        catalog.drop_table(ObjectPath(full[1], full[2]))
        return True

    def list_tables(self, catalog: str | None = None, database: str | None = None) -> list[str]:
        """The names of all tables and views of a database, temporary ones included."""
        where = (catalog or self.current_catalog or "", database or self.current_database or "")
        stored = set(self.catalog(where[0]).list_tables(where[1]))
        return sorted(stored | {p[2] for p in self._temporary if p[:2] == where})

    def list_views(self, catalog: str | None = None, database: str | None = None) -> list[str]:
        """The names of all views of a database, temporary ones included."""
        where = (catalog or self.current_catalog or "", database or self.current_database or "")
        names = set(self.catalog(where[0]).list_views(where[1]))
        for path, table in self._temporary.items():
            if path[:2] == where:
                names = names - {path[2]} if isinstance(table, CatalogTable) else names | {path[2]}
        return sorted(names)

    def list_temporary(self, kind: _Kind | None = None) -> list[str]:
        """The names of the temporary objects in the current database."""
        where = (self.current_catalog, self.current_database)
        return sorted(
            p[2]
            for p, table in self._temporary.items()
            if p[:2] == where and (kind is None or isinstance(table, CatalogTable) == (kind == "TABLE"))
        )

    # -- functions -----------------------------------------------------------------------------------------------

    def find_function(self, path: tuple[str, ...]) -> Any | None:
        """The user's function of that name: temporary system, temporary and permanent ones of the database."""
        if len(path) == 1 and (system := self._system_functions.get(path[0].lower())) is not None:
            return system.function
        full = self.qualify(path)
        found = self._temporary_functions.get((full[0], full[1], full[2].lower()))
        if found is None:
            catalog = self._catalogs.get(full[0])
            found = None if catalog is None else catalog.get_function(ObjectPath(full[1], full[2]))
        return None if found is None else found.function

    def create_system_function(self, name: str, function: CatalogFunction, ignore_if_exists: bool = False) -> None:
        """Add a function that hides built-in ones and is found from every database."""
        if name.lower() in self._system_functions:
            if ignore_if_exists:
                return
            raise ValidationException(f"Could not register temporary system function '{name}': it exists already.")
        self._system_functions[name.lower()] = function

    def drop_system_function(self, name: str, if_exists: bool) -> bool:
        """Remove a temporary system function; whether it was there."""
        if self._system_functions.pop(name.lower(), None) is not None:
            return True
        if if_exists:
            return False
        raise ValidationException(f"Temporary system function '{name}' does not exist.")

    def create_function(
        self, path: tuple[str, ...], function: CatalogFunction, *, temporary: bool, ignore_if_exists: bool = False
    ) -> None:
        """Add a function to a database."""
        full = self.qualify(path)
        if not temporary:
            self._permanent(full[0]).create_function(ObjectPath(full[1], full[2]), function, ignore_if_exists)
            return
        key = (full[0], full[1], full[2].lower())
        if key in self._temporary_functions:
            if ignore_if_exists:
                return
            raise ValidationException(f"Temporary function '{dotted(full)}' already exists.")
        self._temporary_functions[key] = function

    def alter_function(
        self, path: tuple[str, ...], function: CatalogFunction, *, temporary: bool, if_exists: bool
    ) -> None:
        """Put another function in one's place."""
        full = self.qualify(path)
        if temporary:
            raise ValidationException("Alter temporary catalog function is not supported: drop it and create it again.")
        self._permanent(full[0]).alter_function(ObjectPath(full[1], full[2]), function, if_exists)

    def drop_function(self, path: tuple[str, ...], *, temporary: bool, if_exists: bool) -> bool:
        """Remove a function from a database; whether it was there."""
        full = self.qualify(path)
        key = (full[0], full[1], full[2].lower())
        if temporary:
            if self._temporary_functions.pop(key, None) is not None:
                return True
            if if_exists:
                return False
            raise ValidationException(f"Temporary function '{dotted(full)}' does not exist.")
        if key in self._temporary_functions:
            raise ValidationException(
                f"Temporary function '{dotted(full)}' exists. Drop it first before removing the permanent function."
            )
        catalog = self._permanent(full[0])
        there = catalog.function_exists(ObjectPath(full[1], full[2]))
        catalog.drop_function(ObjectPath(full[1], full[2]), if_exists)
        return there

    def list_functions(self) -> list[str]:
        """The names of the user's functions that can be called without a path."""
        where = (self.current_catalog, self.current_database)
        names = {*self._system_functions, *(p[2] for p in self._temporary_functions if p[:2] == where)}
        if self.current_catalog in self._catalogs and self.current_database is not None:
            catalog = self._catalogs[self.current_catalog]
            if catalog.database_exists(self.current_database):
                names.update(catalog.list_functions(self.current_database))
        return sorted(names)
