"""The session of a table environment: what names mean, and what the planner has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlglot.expressions as exp

from streamline._core.options import ALIASES, FOREIGN, OPTIONS
from streamline.abc import TableScan
from streamline.errors import ValidationException
from streamline.table import build
from streamline.table.catalog import CatalogTable, CatalogView, QueryView
from streamline.table.catalog_manager import CatalogManager, Found, quoted_path
from streamline.table.config import TableConfig
from streamline.table.expr.context import EvalContext
from streamline.table.logical import Rel, Scan
from streamline.table.parse import path_of
from streamline.table.planner import plan_query
from streamline.table.planner_config import PlannerConfig, time_zone
from streamline.table.schema import ResolvedSchema
from streamline.table.sources import connector_shape, scan_of
from streamline.table.table import Table
from streamline.table.udf import UserFunction, as_user_function

__all__ = ("TableSession",)


class _Options:
    """The configuration as the planner reads it: keys that are no options are not set."""

    def __init__(self, config: TableConfig) -> None:
        self._config = config

    def get(self, key: str, default: Any = None, /) -> Any:
        known = ALIASES.get(key, key)
        if (known not in OPTIONS and known not in FOREIGN) or not self._config.is_set(key):
            return default
        if key == "table.local-time-zone":
            return self._config.get_local_timezone()
        return self._config.get(key, default)


class TableSession:
    """Tables and functions by name, and the settings of one table environment.

    Args:
        config: the options.
        catalogs: the catalogs.
    """

    def __init__(self, config: TableConfig, catalogs: CatalogManager) -> None:
        self.config = config
        self.catalogs = catalogs
        #: Tables that SQL text or trees refer to by a made-up name.
        self.named: dict[str, Table] = {}
        self.scans: dict[Any, tuple[CatalogTable, TableScan]] = {}
        #: Views that are being bound, for the message of those that contain themselves.
        self._open: list[tuple[str, ...]] = []

    @property
    def planner_config(self) -> PlannerConfig:
        """The settings of the next plan."""
        settings = PlannerConfig.read(_Options(self.config))
        return replace(
            settings,
            database=self.catalogs.current_database or "",
            catalog=self.catalogs.current_catalog or "",
        )

    @property
    def eval_context(self) -> EvalContext:
        """What constants depend on; the planner's other settings are not looked at, so an error in them can wait."""
        return EvalContext(
            zone=time_zone(self.config.get_local_timezone()),
            database=self.catalogs.current_database or "",
            catalog=self.catalogs.current_catalog or "",
            legacy_cast=bool(self.config.value("table.exec.legacy-cast-behaviour") in ("ENABLED", True)),
        )

    # -- functions -----------------------------------------------------------------------------------------------

    def function(self, path: tuple[str, ...]) -> UserFunction | None:
        """The user's function of that name, None where there is none."""
        found = self.catalogs.find_function(path)
        return None if found is None else as_user_function(found)

    # -- queries -------------------------------------------------------------------------------------------------

    def bind_query(self, query: exp.Expression, *, inserted: bool = False) -> Rel:
        """The plan of a query, names looked up from the current database.

        Args:
            query: its tree.
            inserted: the rows go into a table, so that NULL needs no type of its own.

        Raises:
            ValidationException: a name or type that does not fit.
        """
        settings = self.planner_config
        try:
            return plan_query(query, self, settings, inserted=inserted)
        except ValidationException as e:
            if "not found in any table" in str(e) and (advice := self._columns_of(query)):
                e.args = (f"{e}\n{advice}",)
            raise

    def _columns_of(self, query: exp.Expression) -> str:
        """What columns the tables of a query have, and how to name those that have no names."""
        lines: dict[str, None] = {}
        unnamed = False
        for node in query.find_all(exp.Table):
            path = tuple(path_of(node))
            found = self.catalogs.find(path)
            if found is None or isinstance(found.object, CatalogView):
                continue
            names = self.resolved_of(found).get_column_names()
            lines[f"{'.'.join(path)} has the columns {', '.join(names)}"] = None
            unnamed = unnamed or names == [f"f{i}" for i in range(len(names))]
        if unnamed:
            lines["Name the columns by a Schema, or by fields: create_temporary_view(name, stream, schema)"] = None
        return "\n".join(lines)

    def name_table(self, table: Table) -> str:
        """A made-up name under which queries can refer to a table."""
        name = f"UnnamedTable${len(self.named)}"
        self.named[name] = table
        return name

    def table(self, path: tuple[str, ...], options: Mapping[str, str]) -> Rel | None:
        """The plan of a table or view (see `bind.context.Catalog`)."""
        if len(path) == 1 and path[0] in self.named:
            return self.named[path[0]].rel
        found = self.catalogs.find(path)
        return None if found is None else self.plan_of(found, options)

    def plan_of(self, found: Found, options: Mapping[str, str] | None = None) -> Rel:
        """The plan of an object of a catalog."""
        match found.object:
            case CatalogTable() as table:
                return self.scan(found, table, options or {})
            case CatalogView() as view:
                self._no_options(found, options)
                return self._view(found, view)
            case QueryView() as view:
                self._no_options(found, options)
                return renamed(view.table.rel, found.path)

    def resolved_of(self, found: Found) -> ResolvedSchema:
        """The schema of an object as DESCRIBE prints it."""
        match found.object:
            case CatalogTable() as table:
                return connector_shape(self, table).resolved
            case QueryView() as view:
                schema: ResolvedSchema = view.table.get_resolved_schema()
                return ResolvedSchema(tuple(replace(c, extras=None) for c in schema.columns))
            case CatalogView() as view:
                return ResolvedSchema.of(self._view(found, view).schema)

    @staticmethod
    def _no_options(found: Found, options: Mapping[str, str] | None) -> None:
        if options:
            raise ValidationException(
                f"View '{quoted_path(found.path)}' cannot be enriched with new options. Hints can only be applied to "
                "tables."
            )

    def check_hint(self, options: Mapping[str, str] | None) -> None:
        """Options of a hint have to be allowed.

        Raises:
            ValidationException: the configuration forbids them.
        """
        if options and not self.config.value("table.dynamic-table-options.enabled"):
            raise ValidationException(
                "The 'OPTIONS' hint is allowed only when the config option 'table.dynamic-table-options.enabled' is "
                "set to true."
            )

    def scan(self, found: Found, table: CatalogTable, options: Mapping[str, str]) -> Scan:
        """The scan of a table over a connector."""
        self.check_hint(options)
        return scan_of(self, found.path, table, options)

    def _view(self, found: Found, view: CatalogView) -> Rel:
        if found.path in self._open:
            raise ValidationException(f"View {quoted_path(found.path)} refers to itself")
        catalogs = self.catalogs
        saved = catalogs.current_catalog, catalogs.current_database
        self._open.append(found.path)
        catalogs.current_catalog, catalogs.current_database = view.catalog, view.database
        try:
            rel = self.bind_query(view.query)
        finally:
            self._open.pop()
            catalogs.current_catalog, catalogs.current_database = saved
        if len(rel.schema) != len(view.columns):
            raise ValidationException(
                f"View {quoted_path(found.path)} has {len(view.columns)} columns, but its query now gives "
                f"{len(rel.schema)}; drop it and create it again"
            )
        return build.rename(rel, view.columns)


def renamed(rel: Rel, path: tuple[str, ...]) -> Rel:
    """A scan of a stream under the name it is registered as."""
    return replace(rel, name=path) if isinstance(rel, Scan) and rel.name[-1:] != path[-1:] else rel
