"""TableEnvironment: where tables and SQL begin."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import sqlglot.expressions as exp

from streamline._core.changes import ChangelogMode, Row
from streamline._core.config import Configuration
from streamline._core.typeinfo import infer, to_data_type
from streamline._core.types import Field
from streamline.errors import TableException, ValidationException
from streamline.table import build
from streamline.table.bridge import StreamHost, new_environment
from streamline.table.catalog import Catalog, CatalogFunction, QueryView
from streamline.table.catalog_manager import CatalogManager, Found, dotted
from streamline.table.config import TableConfig
from streamline.table.data_types import type_of
from streamline.table.descriptor import TableDescriptor
from streamline.table.execution import Execution
from streamline.table.expression import Expression
from streamline.table.expressions import lit
from streamline.table.insert import InsertTarget, insert_sink
from streamline.table.logical import RowSchema, Values
from streamline.table.parse import parse_path, parse_query, parse_statement
from streamline.table.parse.statements import Insert as InsertStatement
from streamline.table.parse.statements import Query, Statement
from streamline.table.result import CloseableIterator, TableResult
from streamline.table.session import TableSession
from streamline.table.settings import EnvironmentSettings
from streamline.table.statement_set import Insert, StatementSet, TablePipeline
from streamline.table.statements import StatementRunner
from streamline.table.table import Table
from streamline.table.table_scope import Names, TableScope, names_of
from streamline.table.udf import UserFunction, as_user_function

__all__ = ("TableEnvironment",)

Path = tuple[str, ...]


class TableEnvironment:
    """Catalogs, tables, SQL and the configuration of one session.

    What runs (`execute_sql`, `table.execute`, …) is awaited; all else only builds, and checks what it is given.
    """

    def __init__(self, host: StreamHost, settings: EnvironmentSettings) -> None:
        self._host = host
        self._settings = settings
        self._config = TableConfig(settings.configuration, host.configuration)
        self._catalogs = CatalogManager(settings.built_in_catalog_name, settings.built_in_database_name)
        self._session = TableSession(self._config, self._catalogs)
        self._execution = Execution(host, self._session, settings.streaming)
        self._statements = StatementRunner(self)

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration | None = None) -> TableEnvironment:
        """An environment of its own, without streams.

        Args:
            environment_settings: settings, or only options; None: streaming mode.
        """
        settings = settings_of(environment_settings)
        return TableEnvironment(StreamHost(new_environment()), settings)

    # -- what it is made of --------------------------------------------------------------------------------------

    def get_config(self) -> TableConfig:
        """The options; in force from the next plan."""
        return self._config

    @property
    def session(self) -> TableSession:
        """Names and settings."""
        return self._session

    @property
    def execution(self) -> Execution:
        """How plans are run."""
        return self._execution

    @property
    def catalogs(self) -> CatalogManager:
        """The catalogs."""
        return self._catalogs

    # -- tables --------------------------------------------------------------------------------------------------

    def from_path(self, path: str) -> Table:
        """A table or view by its name.

        Raises:
            ValidationException: there is none.
        """
        parts = parse_path(path)
        found = self._catalogs.find(parts)
        if found is None:
            raise ValidationException(f"Table '{path}' was not found.{self._near(parts)}")
        return self.table_of(found)

    def table_of(self, found: Found) -> Table:
        """An object of a catalog as a table."""
        rel = self._session.plan_of(found)
        resolved = self._session.resolved_of(found)
        if isinstance(found.object, QueryView):
            resolved = found.object.table.get_resolved_schema()
        return Table(self, rel, names_of(rel, found.path[2]), resolved)

    def _near(self, parts: Path) -> str:
        known = self._catalogs.list_tables() if len(parts) == 1 else []
        return f" There are: {', '.join(known)}." if known else ""

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """A table over a connector, without a name."""
        path = self._anonymous("table")
        self._catalogs.create(path, descriptor.to_catalog_table(), temporary=True)
        return self.table_of(self._catalogs.get(path))

    def _anonymous(self, what: str) -> Path:
        return (self._execution.anonymous(what),)

    def from_elements(self, elements: Sequence[Any], schema: Any = None, verify_schema: bool = True) -> Table:
        """A table of rows that are given here.

        Args:
            elements: tuples, Rows, lists, or plain values of one column.
            schema: a ROW type, a list of column names, or None: columns `_1`, `_2`, ….
            verify_schema: no effect: values are always checked.
        """
        rows = [list(e) if isinstance(e, (tuple, list, Row)) else [e] for e in elements]
        names: list[str] | None = None
        types = None
        if schema is not None and not isinstance(schema, (list, tuple)):
            given = type_of(schema, "the schema")
            names = [f.name for f in given.fields]
            types = [f.type for f in given.fields]
        elif schema is not None:
            names = [str(s) for s in schema]
        if not rows:
            raise ValidationException("from_elements needs at least one row")
        names = names or [f"_{i + 1}" for i in range(len(rows[0]))]
        if types is None:
            found = infer(map(tuple, rows))
            types = None if found is None else [f.type.null() for f in to_data_type(found).fields]
        return self._values(rows, names, types)

    def from_values(self, *values: Any) -> Table:
        """A table of rows of expressions or values; a ROW type may come first."""
        types = None
        names: list[str] | None = None
        given = list(values)
        if given and hasattr(given[0], "fields") and hasattr(given[0], "root"):
            row_type = given.pop(0)
            types, names = [f.type for f in row_type.fields], [f.name for f in row_type.fields]
        if len(given) == 1 and isinstance(given[0], list):
            given = given[0]
        rows = []
        for value in given:
            if isinstance(value, Expression):
                node = value.ast
                rows.append(node.expressions if isinstance(node, exp.Tuple) else [node])
            else:
                rows.append(list(value) if isinstance(value, (tuple, list, Row)) else [value])
        if not rows:
            raise ValidationException("from_values needs at least one row")
        return self._values(rows, names or [f"f{i}" for i in range(len(rows[0]))], types)

    def _values(self, rows: Sequence[Sequence[Any]], names: Sequence[str], types: Any) -> Table:
        scope = TableScope(Names(RowSchema(())), self._session, clause="values")
        width = len(names)
        for row in rows:
            if len(row) != width:
                raise ValidationException(f"a row has {len(row)} values, but there are {width} columns: {names}")
        bound = []
        for row in rows:
            exprs = []
            for i, value in enumerate(row):
                node = value if isinstance(value, exp.Expression) else lit(value).ast
                if types is not None:
                    node = Expression(node, "").cast(types[i]).ast
                exprs.append(scope.bind(node))
            bound.append(exprs)
        rel = build.values(bound, list(names))
        if types is not None and isinstance(rel, Values):
            rel = replace(rel, schema=RowSchema.of(names, types))
        return Table(self, rel)

    # -- SQL -----------------------------------------------------------------------------------------------------

    def sql_query(self, query: str) -> Table:
        """The table that a query describes.

        Raises:
            SqlParserException: it is no sentence of the dialect.
            ValidationException: a name or type in it does not fit; the message names and underlines the place.
        """
        return Table(self, self._session.bind_query(parse_query(query).ast))

    async def execute_sql(self, stmt: str) -> TableResult:
        """Run one statement: a query, INSERT (returns when its job runs), CREATE, DROP, ALTER, SHOW, ….

        Raises:
            SqlParserException: it is no sentence of the dialect.
            ValidationException: a name or type in it does not fit.
            TableException: it cannot be planned as asked.
        """
        return await self.execute_statement(parse_statement(stmt))

    async def execute_statement(self, statement: Statement) -> TableResult:
        """Run a statement that was read."""
        return await self._statements.run(statement)

    def explain_sql(self, stmt: str, *extra_details: Any) -> str:
        """The plans of a query or an INSERT as text."""
        statement = parse_statement(stmt)
        if isinstance(statement, Query):
            return self._execution.explain([self._session.bind_query(statement.ast)], extra_details)
        if isinstance(statement, InsertStatement):
            return self.explain_inserts([self.insert_statement(statement)], extra_details)
        raise TableException(
            f"Unsupported SQL query! explainSql() only accepts SELECT and INSERT, not {statement.title}"
        )

    # -- TableHost -----------------------------------------------------------------------------------------------

    @property
    def eval_context(self) -> Any:
        """What constants depend on."""
        return self._session.eval_context

    def function(self, path: Path) -> UserFunction | None:
        """The user's function of that name."""
        return self._session.function(path)

    def bind_query(self, query: exp.Expression) -> Any:
        """The plan of a query's tree."""
        return self._session.bind_query(query)

    def name_table(self, table: Table) -> str:
        """A made-up name for a table."""
        return self._session.name_table(table)

    def explain_table(self, table: Table, details: Sequence[Any]) -> str:
        """The plans of a table as text."""
        return self._execution.explain([table.rel], details)

    async def execute_table(self, table: Table) -> TableResult:
        """Run a table as a job of its own."""
        return await self._execution.select(table.rel)

    def collect_table(self, table: Table) -> CloseableIterator:
        """The rows of a job of its own."""
        return self._execution.collect(table.rel)

    def pipeline(self, table: Table, target: str | TableDescriptor, overwrite: bool) -> TablePipeline:
        """A table's rows on their way into another."""
        return TablePipeline(self, self.insert_table(table, target, overwrite))

    def to_data_stream(self, table: Table, target: Any = None) -> Any:
        """Needs a stream environment."""
        raise ValidationException("a TableEnvironment has no streams; use StreamTableEnvironment.create(env)")

    def to_changelog_stream(
        self, table: Table, target_schema: Any = None, changelog_mode: ChangelogMode | None = None
    ) -> Any:
        """Needs a stream environment."""
        raise ValidationException("a TableEnvironment has no streams; use StreamTableEnvironment.create(env)")

    # -- inserts -------------------------------------------------------------------------------------------------

    def create_statement_set(self) -> StatementSet:
        """Inserts that run as one job."""
        return StatementSet(self)

    def insert_sql(self, statement: str) -> Insert:
        """An INSERT statement."""
        parsed = parse_statement(statement)
        if not isinstance(parsed, InsertStatement):
            raise TableException(
                f"Only insert statement is supported now: add_insert_sql takes INSERT, not {parsed.title}"
            )
        return self.insert_statement(parsed)

    def insert_statement(self, statement: InsertStatement) -> Insert:
        """An INSERT statement that was read: its table has to be there, its query to mean something."""
        found = self._sink(statement.path)
        rel = self._session.bind_query(statement.query.ast, inserted=True)
        target = InsertTarget(
            statement.columns, statement.partition, statement.overwrite, statement.on_conflict, statement.options
        )
        return Insert(dotted(found.path), partial(insert_sink, self._session, found, rel, target))

    def insert_table(self, table: Table, target: str | TableDescriptor, overwrite: bool) -> Insert:
        """A table's rows into another table."""
        if table.host is not self:
            raise ValidationException("the table belongs to another TableEnvironment")
        if isinstance(target, TableDescriptor):
            path = self._anonymous(str(target.options.get("connector", "table")))
            given = target.to_catalog_table()
            described = type(given)(
                given.schema.with_derived([Field(f.name, f.type.materialized()) for f in table.rel.schema]),
                given.options,
                given.partition_keys,
                given.comment,
                given.distribution,
            )
            self._catalogs.create(path, described, temporary=True)
        else:
            path = parse_path(target)
        found = self._sink(path)
        options = InsertTarget(overwrite=overwrite)
        return Insert(dotted(found.path), partial(insert_sink, self._session, found, table.rel, options))

    def _sink(self, path: Path) -> Found:
        found = self._catalogs.find(path)
        if found is None:
            full = dotted(self._catalogs.qualify(path))
            raise ValidationException(
                f"Sink '{full}' does not exist: Cannot find table '{full}' in any of the catalogs "
                f"{self._catalogs.list_catalogs()}, nor as a temporary table.{self._near(path)}"
            )
        return found

    def explain_inserts(self, inserts: Sequence[Insert], details: Sequence[Any]) -> str:
        """The plans of inserts as text."""
        return self._execution.explain([i.plan() for i in inserts], details)

    async def execute_inserts(self, inserts: Sequence[Insert]) -> TableResult:
        """Run inserts as one job; returns when it runs."""
        return await self._execution.insert([i.plan() for i in inserts])

    def attach_inserts(self, inserts: Sequence[Insert]) -> None:
        """Add inserts to the graph of the stream environment."""
        self._execution.attach([i.plan() for i in inserts])

    # -- registering ---------------------------------------------------------------------------------------------

    def create_temporary_view(self, view_path: str, values_or_table: Any, *how: Any) -> None:
        """Register a table under a name, for this session.

        Raises:
            ValidationException: the name is taken by another temporary object.
        """
        self._register_view(parse_path(view_path), values_or_table, temporary=True)

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool = False) -> bool:
        """Register a table under a name in the catalog; whether it was new."""
        return self._register_view(parse_path(view_path), table, temporary=False, ignore_if_exists=ignore_if_exists)

    def _register_view(self, path: Path, table: Any, *, temporary: bool, ignore_if_exists: bool = False) -> bool:
        if not isinstance(table, Table):
            raise ValidationException(f"a view is made of a Table, not of {type(table).__name__}")
        if table.host is not self:
            raise ValidationException("the table belongs to another TableEnvironment; its views are unknown here")
        there = self._catalogs.find(path) is not None
        self._catalogs.create(path, QueryView(table), temporary=temporary, ignore_if_exists=ignore_if_exists)
        return not there

    def create_temporary_table(self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False) -> None:
        """Register a table over a connector under a name, for this session."""
        self._create_table(parse_path(path), descriptor, True, ignore_if_exists)

    def create_table(self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False) -> bool:
        """Register a table over a connector under a name in the catalog; whether it was new."""
        return self._create_table(parse_path(path), descriptor, False, ignore_if_exists)

    def _create_table(self, path: Path, descriptor: TableDescriptor, temporary: bool, ignore: bool) -> bool:
        there = self._catalogs.find(path) is not None
        table = descriptor.to_catalog_table()
        if not table.schema.columns:
            raise ValidationException(f"{dotted(path)}: the descriptor of a table needs a schema with columns")
        self._catalogs.create(path, table, temporary=temporary, ignore_if_exists=ignore)
        return not there

    def drop_temporary_view(self, view_path: str) -> bool:
        """Remove a temporary view; whether it was there."""
        return self._catalogs.drop(parse_path(view_path), "VIEW", temporary=True, if_exists=True)

    def drop_view(self, view_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Remove a view; whether it was there."""
        return self._catalogs.drop(parse_path(view_path), "VIEW", temporary=False, if_exists=ignore_if_not_exists)

    def drop_temporary_table(self, table_path: str) -> bool:
        """Remove a temporary table; whether it was there."""
        return self._catalogs.drop(parse_path(table_path), "TABLE", temporary=True, if_exists=True)

    def drop_table(self, table_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Remove a table; whether it was there."""
        return self._catalogs.drop(parse_path(table_path), "TABLE", temporary=False, if_exists=ignore_if_not_exists)

    # -- functions -----------------------------------------------------------------------------------------------

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Register a function that is found from every database and hides a built-in one of its name."""
        self._catalogs.create_system_function(name, CatalogFunction(as_user_function(function).named(name)))

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Register a function in a database, for this session."""
        parts = parse_path(path)
        made = CatalogFunction(as_user_function(function).named(parts[-1]))
        self._catalogs.create_function(parts, made, temporary=True)

    def create_function(self, path: str, function: Any, ignore_if_exists: bool = False) -> None:
        """Register a function in a catalog."""
        parts = parse_path(path)
        made = CatalogFunction(as_user_function(function).named(parts[-1]))
        self._catalogs.create_function(parts, made, temporary=False, ignore_if_exists=ignore_if_exists)

    def create_java_temporary_function(self, path: str, function_class_name: str) -> None:
        """There is no Java here."""
        raise ValidationException(f"{function_class_name}: functions are Python's; use create_temporary_function")

    def drop_temporary_system_function(self, name: str) -> bool:
        """Remove a temporary system function; whether it was there."""
        return self._catalogs.drop_system_function(name, True)

    def drop_temporary_function(self, path: str) -> bool:
        """Remove a temporary function; whether it was there."""
        return self._catalogs.drop_function(parse_path(path), temporary=True, if_exists=True)

    def drop_function(self, path: str) -> bool:
        """Remove a function; whether it was there."""
        return self._catalogs.drop_function(parse_path(path), temporary=False, if_exists=True)

    def load_function(self, identifier: str, name: str) -> UserFunction:
        """The function of a dotted path, as CREATE FUNCTION ... LANGUAGE PYTHON names it.

        Raises:
            ValidationException: there is none.
        """
        return load_function(identifier, name)

    # -- catalogs ------------------------------------------------------------------------------------------------

    def register_catalog(self, catalog_name: str, catalog: Catalog) -> None:
        """Add a catalog."""
        self._catalogs.register(catalog_name, catalog)

    def create_catalog(self, catalog_name: str, options: Mapping[str, str]) -> None:
        """Add a catalog as CREATE CATALOG does."""
        self._statements.create_catalog(catalog_name, dict(options), None, False)

    def get_catalog(self, catalog_name: str) -> Catalog | None:
        """A catalog, None where there is none."""
        return self._catalogs.get_catalog(catalog_name)

    def use_catalog(self, catalog_name: str) -> None:
        """Make a catalog the current one."""
        self._catalogs.use_catalog(catalog_name)

    def use_database(self, database_name: str) -> None:
        """Make a database of the current catalog the current one."""
        self._catalogs.use_database(database_name)

    def get_current_catalog(self) -> str | None:
        """The name of the current catalog."""
        return self._catalogs.current_catalog

    def get_current_database(self) -> str | None:
        """The name of the current database."""
        return self._catalogs.current_database

    def list_catalogs(self) -> list[str]:
        """The names of the catalogs."""
        return self._catalogs.list_catalogs()

    def list_databases(self) -> list[str]:
        """The names of the databases of the current catalog."""
        return self._catalogs.current().list_databases()

    def list_tables(self, catalog_name: str | None = None, database_name: str | None = None) -> list[str]:
        """The names of tables and views in a database."""
        return self._catalogs.list_tables(catalog_name, database_name)

    def list_views(self) -> list[str]:
        """The names of views in the current database."""
        return self._catalogs.list_views()

    def list_temporary_tables(self) -> list[str]:
        """The names of temporary tables and views in the current database."""
        return self._catalogs.list_temporary()

    def list_temporary_views(self) -> list[str]:
        """The names of temporary views in the current database."""
        return self._catalogs.list_temporary("VIEW")

    def list_user_defined_functions(self) -> list[str]:
        """The names of the user's functions."""
        return self._catalogs.list_functions()

    def list_functions(self) -> list[str]:
        """The names of all functions."""
        return self._statements.function_names()

    def list_modules(self) -> list[str]:
        """The names of the modules in use."""
        return self._statements.modules_in_use()

    def list_full_modules(self) -> list[tuple[str, bool]]:
        """The names of all modules, and whether they are in use."""
        return self._statements.modules()

    def use_modules(self, *module_names: str) -> None:
        """Which modules are used, in which order."""
        self._statements.use_modules(module_names)


def settings_of(given: EnvironmentSettings | Configuration | None) -> EnvironmentSettings:
    """Settings, of only options too."""
    if given is None:
        return EnvironmentSettings()
    if isinstance(given, Configuration):
        mode = str(given.get("execution.runtime-mode", None) or "STREAMING").upper()
        return EnvironmentSettings(streaming=mode != "BATCH", configuration=given)
    return given


def load_function(identifier: str, name: str) -> UserFunction:
    """The function of a dotted path.

    Raises:
        ValidationException: there is none.
    """
    module, _, attribute = identifier.rpartition(".")
    try:
        found: Any = getattr(importlib.import_module(module), attribute) if module else None
    except (ImportError, AttributeError) as e:
        raise ValidationException(f"Could not load function '{name}' of class or path '{identifier}': {e}") from e
    if found is None:
        raise ValidationException(
            f"Could not load function '{name}': '{identifier}' is no dotted path to a function or class"
        )
    return as_user_function(found, name).named(name)
