"""What each statement does."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from streamline._core import types as t
from streamline._core.types import Field
from streamline.errors import TableException, ValidationException
from streamline.table import build
from streamline.table.alter import alter_table, alter_view
from streamline.table.catalog import (
    CatalogDatabase,
    CatalogFunction,
    CatalogTable,
    CatalogView,
    GenericInMemoryCatalog,
    ObjectPath,
)
from streamline.table.catalog_manager import Found, dotted
from streamline.table.expr import aggregates
from streamline.table.expr.registry import function_names, lookup
from streamline.table.like import merged_like
from streamline.table.parse import statements as s
from streamline.table.result import TableResult, message_result, rows_result
from streamline.table.schema import Schema
from streamline.table.show import describe_rows, show_create_table, show_create_view
from streamline.table.sources import connector_shape

if TYPE_CHECKING:
    from streamline.table.environment import TableEnvironment

__all__ = ("StatementRunner",)

_CLIENT_ONLY: Final = (
    "Unsupported SQL query! executeSql() only accepts a single SQL statement of type CREATE TABLE, DROP TABLE, ALTER "
    "TABLE, CREATE DATABASE, DROP DATABASE, ALTER DATABASE, CREATE FUNCTION, DROP FUNCTION, ALTER FUNCTION, CREATE "
    "CATALOG, DROP CATALOG, USE CATALOG, USE [CATALOG.]DATABASE, SHOW CATALOGS, SHOW DATABASES, SHOW TABLES, SHOW "
    "[USER] FUNCTIONS, SHOW PARTITIONS, CREATE VIEW, DROP VIEW, SHOW VIEWS, INSERT, DESCRIBE, LOAD MODULE, UNLOAD "
    "MODULE, USE MODULES, SHOW [FULL] MODULES. "
)


class StatementRunner:
    """Runs the statements of one table environment."""

    def __init__(self, env: TableEnvironment) -> None:
        self._env = env
        #: Loaded modules in order, and whether they are in use.
        self._modules: dict[str, bool] = {"core": True}

    async def run(self, statement: s.Statement) -> TableResult:
        """Run one statement."""
        handler = _HANDLERS.get(type(statement))
        if handler is None:
            raise TableException(f"{statement.title} is not supported")
        result = handler(self, statement)
        found: TableResult = await result if isinstance(result, Awaitable) else result
        return found

    # -- queries and inserts -------------------------------------------------------------------------------------

    async def _query(self, statement: s.Query) -> TableResult:
        env = self._env
        return await env.execution.select(env.session.bind_query(statement.ast))

    async def _insert(self, statement: s.Insert) -> TableResult:
        env = self._env
        return await env.execute_inserts([env.insert_statement(statement)])

    async def _statement_set(self, statement: s.StatementSet) -> TableResult:
        env = self._env
        return await env.execute_inserts([env.insert_statement(i) for i in statement.inserts])

    def _explain(self, statement: s.Explain) -> TableResult:
        env = self._env
        match statement.statement:
            case s.Query() as query:
                text = env.execution.explain([env.session.bind_query(query.ast)], statement.details)
            case s.Insert() as insert:
                text = env.explain_inserts([env.insert_statement(insert)], statement.details)
            case s.StatementSet() as many:
                text = env.explain_inserts([env.insert_statement(i) for i in many.inserts], statement.details)
            case other:
                raise TableException(f"EXPLAIN takes a query, INSERT or STATEMENT SET, not {other.title}")
        return message_result(text, content=True)

    def _refuse_in_streaming(self, statement: s.Statement) -> TableResult:
        if isinstance(statement, (s.Delete, s.Update)):
            self._env.catalogs.get(statement.path)
            raise ValidationException(
                f"{statement.title} statement is not supported in streaming mode: a stream of changes is written with "
                "INSERT INTO"
            )
        raise TableException(f"{statement.title} statement is not supported in streaming mode.")

    # -- tables and views ----------------------------------------------------------------------------------------

    async def _create_table(self, statement: s.CreateTable) -> TableResult:
        catalogs = self._env.catalogs
        table = self._declared(statement)
        if statement.as_query is not None:
            return await self._create_table_as(statement, table, statement.as_query)
        connector_shape(self._env.session, table)
        if statement.or_replace or statement.replace:
            self._replace(statement)
        catalogs.create(statement.path, table, temporary=statement.temporary, ignore_if_exists=statement.if_not_exists)
        return message_result()

    def _replace(self, statement: s.CreateTable) -> None:
        there = self._env.catalogs.find(statement.path)
        if there is None and statement.replace and not statement.or_replace:
            raise ValidationException(
                f"The table '{dotted(self._env.catalogs.qualify(statement.path))}' to be replaced doesn't exist. You "
                "can try to use CREATE TABLE AS statement or CREATE OR REPLACE TABLE AS statement."
            )
        if there is not None:
            self._env.catalogs.drop(statement.path, "TABLE", temporary=there.temporary, if_exists=True)

    def _declared(self, statement: s.CreateTable) -> CatalogTable:
        schema = Schema(statement.columns, statement.watermarks, statement.primary_key)
        table = CatalogTable(
            schema, dict(statement.options), statement.partitioned_by, statement.comment, statement.distribution
        )
        if statement.like is None:
            return table
        other = self._env.catalogs.get(statement.like.path)
        if not isinstance(other.object, CatalogTable):
            raise ValidationException(f"LIKE takes a table, and {dotted(other.path)} is a view")
        return merged_like(table, other.object, statement.like)

    async def _create_table_as(self, statement: s.CreateTable, declared: CatalogTable, query: s.Query) -> TableResult:
        env = self._env
        rel = env.session.bind_query(query.ast)
        if statement.as_columns:
            names = rel.schema.names
            unknown = [c for c in statement.as_columns if c not in names]
            if unknown or len(statement.as_columns) != len(names):
                raise ValidationException(
                    f"The column list ({', '.join(statement.as_columns)}) has to hold the query's columns "
                    f"({', '.join(names)}), in any order"
                )
            rel = build.project(
                rel, [rel.schema.ref(names.index(c)) for c in statement.as_columns], statement.as_columns
            )
        derived = tuple(s.PhysicalColumn(f.name, f.type.materialized()) for f in rel.schema)
        known = {c.name for c in declared.schema.columns}
        columns = declared.schema.columns + tuple(c for c in derived if c.name not in known)
        table = replace(declared, schema=replace(declared.schema, columns=columns))
        if statement.or_replace or statement.replace:
            self._replace(statement)
        elif statement.if_not_exists and env.catalogs.find(statement.path) is not None:
            return message_result()
        env.catalogs.create(statement.path, table, temporary=statement.temporary)
        insert = s.Insert(statement.path, query, columns=tuple((c,) for c in rel.schema.names))
        if statement.as_columns:
            insert = replace(insert, columns=tuple((n,) for n in env.session.bind_query(query.ast).schema.names))
        return await env.execute_inserts([env.insert_statement(insert)])

    def _create_view(self, statement: s.CreateView) -> TableResult:
        env = self._env
        catalogs = env.catalogs
        rel = env.session.bind_query(statement.query.ast)
        columns = statement.columns or rel.schema.names
        if len(columns) != len(rel.schema):
            raise ValidationException(
                f"VIEW definition and input fields not match:\n\tDef fields: [{', '.join(columns)}]\n\tInput fields: "
                f"[{', '.join(rel.schema.names)}]"
            )
        view = CatalogView(
            statement.query.ast,
            statement.query.text,
            tuple(columns),
            catalogs.current_catalog or "",
            catalogs.current_database or "",
            statement.comment,
        )
        catalogs.create(statement.path, view, temporary=statement.temporary, ignore_if_exists=statement.if_not_exists)
        return message_result()

    def _alter_table(self, statement: s.AlterTable) -> TableResult:
        found = self._env.catalogs.find(statement.path)
        if found is None:
            if statement.if_exists:
                return message_result()
            raise self._env.catalogs.missing(statement.path)
        if not isinstance(found.object, CatalogTable):
            raise ValidationException(f"ALTER TABLE for a view is not allowed: {dotted(found.path)}; use ALTER VIEW")
        alter_table(self._env.session, found, statement.actions)
        return message_result()

    def _alter_view(self, statement: s.AlterView) -> TableResult:
        found = self._env.catalogs.find(statement.path)
        if found is None:
            raise self._env.catalogs.missing(statement.path, "View")
        if isinstance(found.object, CatalogTable):
            raise ValidationException(f"ALTER VIEW for a table is not allowed: {dotted(found.path)}; use ALTER TABLE")
        alter_view(self._env.session, found, statement.action)
        return message_result()

    # -- catalogs, databases, functions --------------------------------------------------------------------------

    def _create_catalog(self, statement: s.CreateCatalog) -> TableResult:
        self.create_catalog(statement.name, statement.options, statement.comment, statement.if_not_exists)
        return message_result()

    def create_catalog(self, name: str, options: dict[str, str], comment: str | None, if_not_exists: bool) -> None:
        """Add a catalog of the type that the options name."""
        if if_not_exists and self._env.catalogs.get_catalog(name) is not None:
            return
        kind = options.get("type")
        if kind is None:
            raise ValidationException(
                "Catalog options do not contain an option key 'type' for discovering a catalog: write e.g. "
                "WITH ('type' = 'generic_in_memory')"
            )
        if kind != "generic_in_memory":
            raise ValidationException(
                f"Could not find any factory for identifier '{kind}' that implements a catalog.\n\nAvailable factory "
                "identifiers are:\n\ngeneric_in_memory\n\nregister_catalog(name, catalog) adds one of your own."
            )
        unknown = sorted(set(options) - {"type", "default-database", "property-version"})
        if unknown:
            raise ValidationException(
                f"Unsupported options found for '{kind}'.\n\nUnsupported options:\n\n"
                + "\n".join(unknown)
                + "\n\nSupported options:\n\ndefault-database\ntype"
            )
        catalog = GenericInMemoryCatalog(name, options.get("default-database", "default"))
        catalog.options, catalog.comment = dict(options), comment
        self._env.catalogs.register(name, catalog)

    def _create_database(self, statement: s.CreateDatabase) -> TableResult:
        catalog, name = self._database(statement.path)
        catalog.create_database(
            name, CatalogDatabase(dict(statement.options), statement.comment), statement.if_not_exists
        )
        return message_result()

    def _database(self, path: s.Path) -> tuple[Any, str]:
        catalogs = self._env.catalogs
        if len(path) > 2:
            raise ValidationException(f"{dotted(path)} is no name of a database: write database or catalog.database")
        return (catalogs.catalog(path[0]) if len(path) == 2 else catalogs.current()), path[-1]

    def _alter_database(self, statement: s.AlterDatabase) -> TableResult:
        catalog, name = self._database(statement.path)
        found = catalog.get_database(name)
        if found is None:
            raise ValidationException(f"Database {name} does not exist in Catalog {catalog.name}.")
        properties = dict(found.properties)
        match statement.action:
            case s.SetOptions(options):
                properties.update(options)
            case s.ResetOptions(keys):
                for key in keys:
                    properties.pop(key, None)
            case other:
                raise ValidationException(f"ALTER DATABASE takes SET or RESET, not {type(other).__name__}")
        catalog.alter_database(name, CatalogDatabase(properties, found.comment))
        return message_result()

    def _alter_catalog(self, statement: s.AlterCatalog) -> TableResult:
        catalog = self._env.catalogs.catalog(statement.name)
        if not isinstance(catalog, GenericInMemoryCatalog):
            raise ValidationException(f"Catalog {statement.name} cannot be altered by a statement")
        match statement.action:
            case s.SetOptions(options):
                if "type" in options:
                    raise ValidationException("ALTER CATALOG does not support changing 'type' option")
                catalog.options.update(options)
            case s.ResetOptions(keys):
                if "type" in keys:
                    raise ValidationException("ALTER CATALOG RESET does not support changing 'type'")
                for key in keys:
                    catalog.options.pop(key, None)
            case s.SetComment(comment):
                catalog.comment = comment
            case other:
                raise ValidationException(f"ALTER CATALOG takes SET, RESET or COMMENT, not {type(other).__name__}")
        return message_result()

    def _create_function(self, statement: s.CreateFunction) -> TableResult:
        catalogs = self._env.catalogs
        if statement.resources:
            raise ValidationException("CREATE FUNCTION ... USING JAR: functions are Python's; there are no JARs here")
        if statement.language not in (None, "PYTHON"):
            raise ValidationException(
                f"CREATE FUNCTION ... LANGUAGE {statement.language}: functions are Python's; write LANGUAGE PYTHON AS "
                "'package.module.function'"
            )
        function = CatalogFunction(
            self._env.load_function(statement.identifier, statement.path[-1]), statement.identifier
        )
        if statement.system:
            catalogs.create_system_function(statement.path[-1], function, statement.if_not_exists)
        else:
            catalogs.create_function(
                statement.path, function, temporary=statement.temporary, ignore_if_exists=statement.if_not_exists
            )
        return message_result()

    def _alter_function(self, statement: s.AlterFunction) -> TableResult:
        if statement.system:
            raise ValidationException("Alter temporary system function is not supported")
        function = CatalogFunction(
            self._env.load_function(statement.identifier, statement.path[-1]), statement.identifier
        )
        self._env.catalogs.alter_function(
            statement.path, function, temporary=statement.temporary, if_exists=statement.if_exists
        )
        return message_result()

    def _drop(self, statement: s.Drop) -> TableResult:
        catalogs = self._env.catalogs
        match statement.kind:
            case "TABLE" | "VIEW" as kind:
                catalogs.drop(statement.path, kind, temporary=statement.temporary, if_exists=statement.if_exists)
            case "CATALOG":
                catalogs.drop_catalog(statement.path[-1], statement.if_exists)
            case "DATABASE":
                catalog, name = self._database(statement.path)
                if catalog is catalogs.current() and name == catalogs.current_database:
                    raise ValidationException("Cannot drop a database which is currently in use.")
                catalog.drop_database(name, statement.if_exists, statement.cascade)
            case "FUNCTION" if statement.system:
                catalogs.drop_system_function(statement.path[-1], statement.if_exists)
            case "FUNCTION":
                catalogs.drop_function(statement.path, temporary=statement.temporary, if_exists=statement.if_exists)
        return message_result()

    # -- looking -------------------------------------------------------------------------------------------------

    def _use(self, statement: s.Use) -> TableResult:
        catalogs = self._env.catalogs
        match statement.kind:
            case "CATALOG":
                catalogs.use_catalog(statement.path[-1])
            case "DATABASE":
                catalogs.use_database(statement.path[-1], statement.path[0] if len(statement.path) == 2 else None)
            case "MODULES":
                self.use_modules(statement.path)
        return message_result()

    def _describe(self, statement: s.Describe) -> TableResult:
        env = self._env
        match statement.kind:
            case "TABLE":
                found = env.catalogs.find(statement.path)
                if found is None:
                    raise ValidationException(
                        f"Tables or views with the identifier '{dotted(env.catalogs.qualify(statement.path))}' doesn't "
                        "exist."
                    )
                return describe_rows(env.session.resolved_of(found))
            case "DATABASE":
                catalog, name = self._database(statement.path)
                info = catalog.get_database(name)
                if info is None:
                    raise ValidationException(f"Database {name} does not exist in Catalog {catalog.name}.")
                rows = [("database name", name), ("comment", info.comment or "")]
                if statement.extended:
                    rows += sorted(info.properties.items())
                return _pairs("database description item", "database description value", rows)
            case "CATALOG":
                catalog = env.catalogs.catalog(statement.path[-1])
                options = getattr(catalog, "options", {})
                rows = [
                    ("name", statement.path[-1]),
                    ("type", options.get("type", "generic_in_memory")),
                    ("comment", getattr(catalog, "comment", None) or ""),
                ]
                if statement.extended:
                    rows += [(f"option:{k}", v) for k, v in sorted(options.items())]
                return _pairs("info name", "info value", rows)
            case "FUNCTION":
                return self._describe_function(statement)

    def _describe_function(self, statement: s.Describe) -> TableResult:
        path = statement.path
        user = self._env.catalogs.find_function(path)
        builtin = lookup(path[-1]) if user is None and len(path) == 1 else None
        aggregate = aggregates.lookup_aggregate(path[-1]) if user is None and len(path) == 1 else None
        if user is None and builtin is None and aggregate is None:
            raise ValidationException(f"Function '{dotted(path)}' doesn't exist.")
        rows = [("is system function", "true" if user is None else "false"), ("is temporary", "false")]
        if user is not None:
            rows[1] = ("is temporary", "true")
        if statement.extended:
            if user is not None:
                kind = {"async scalar": "ASYNC_SCALAR"}.get(user.kind, user.kind.upper().replace(" ", "_"))
                deterministic = user.deterministic
            else:
                kind = "AGGREGATE" if aggregate is not None else "SCALAR"
                deterministic = builtin.deterministic if builtin is not None else True
            rows += [
                ("kind", kind),
                ("requirements", "[]"),
                ("is deterministic", str(deterministic).lower()),
                ("supports constant folding", str(deterministic and user is None).lower()),
            ]
        return _pairs("info name", "info value", rows)

    def _show(self, statement: s.Show) -> TableResult:
        found = self._shown(statement)
        if isinstance(found, TableResult):
            return found
        column, names = found
        if statement.pattern is not None:
            matches = _like_pattern(statement.pattern, statement.ignore_case)
            names = [n for n in names if (matches(n) is not None) != statement.negated]
        return rows_result([Field(column, t.STRING.not_null())], [(n,) for n in names])

    def _shown(self, statement: s.Show) -> tuple[str, list[str]] | TableResult:
        env, catalogs = self._env, self._env.catalogs
        where = statement.path
        match statement.what:
            case "CATALOGS":
                return "catalog name", catalogs.list_catalogs()
            case "DATABASES":
                catalog = catalogs.catalog(where[-1]) if where else catalogs.current()
                return "database name", catalog.list_databases()
            case "TABLES":
                return "table name", catalogs.list_tables(*self._scope(where))
            case "VIEWS":
                return "view name", catalogs.list_views(*self._scope(where))
            case "FUNCTIONS":
                names = catalogs.list_functions() if statement.user_only else self.function_names()
                return "function name", names
            case "PROCEDURES":
                raise TableException(f"catalog {catalogs.current_catalog} has no procedures")
            case "MODULES":
                if statement.full:
                    fields = [Field("module name", t.STRING), Field("used", t.BOOLEAN)]
                    return rows_result(fields, self.modules())
                return "module name", self.modules_in_use()
            case "JARS":
                return "jars", []
            case "JOBS":
                raise TableException("SHOW JOBS is not supported: result.get_job_client() is a statement's job")
            case "MODELS":
                return "model name", []
            case "MATERIALIZED TABLES":
                return "materialized table", []
            case "CURRENT CATALOG":
                return "current catalog name", [catalogs.current_catalog or ""]
            case "CURRENT DATABASE":
                return "current database name", [catalogs.current_database or ""]
        assert where is not None
        match statement.what:
            case "COLUMNS":
                return self._columns(statement, self._found(where))
            case "PARTITIONS":
                return "partition name", self._partitions(statement, where)
            case "CREATE TABLE":
                return message_result(show_create_table(env.session, self._found(where)), content=True)
            case "CREATE VIEW":
                return message_result(show_create_view(self._found(where, "View")), content=True)
            case "CREATE CATALOG":
                return message_result(self._create_catalog_text(where[-1]), content=True)
        raise TableException(f"SHOW {statement.what} is not supported")

    def _found(self, path: s.Path, kind: str = "Table") -> Found:
        found = self._env.catalogs.find(path)
        if found is None:
            full = dotted(self._env.catalogs.qualify(path))
            raise ValidationException(f"Could not execute SHOW: {kind} with identifier '{full}' does not exist.")
        return found

    def _scope(self, path: s.Path | None) -> tuple[str | None, str | None]:
        """The catalog and database of SHOW TABLES FROM."""
        if path is None:
            return None, None
        catalog, name = self._database(path)
        if not catalog.database_exists(name):
            raise ValidationException(f"Database '{dotted((catalog.name, name))}' doesn't exist.")
        return (path[0] if len(path) == 2 else None), name

    def _columns(self, statement: s.Show, found: Found) -> TableResult:
        matches = None
        if statement.pattern is not None:
            like = _like_pattern(statement.pattern, statement.ignore_case)
            matches = lambda name: (like(name) is not None) != statement.negated  # noqa: E731
        return describe_rows(self._env.session.resolved_of(found), matches)

    def _partitions(self, statement: s.Show, path: s.Path) -> list[str]:
        found = self._found(path)
        if not isinstance(found.object, CatalogTable) or not found.object.partition_keys:
            raise ValidationException(f"Table {dotted(found.path)} is not partitioned.")
        if found.temporary:
            return []
        catalog = self._env.catalogs.catalog(found.path[0])
        wanted = {k: getattr(v, "name", str(v)) for k, v in statement.partition}
        specs = catalog.list_partitions(ObjectPath(*found.path[1:]))
        chosen = [p for p in specs if all(p.get(k) == v for k, v in wanted.items())]
        return ["/".join(f"{k}={v}" for k, v in p.items()) for p in chosen]

    def _create_catalog_text(self, name: str) -> str:
        catalog = self._env.catalogs.catalog(name)
        options = getattr(catalog, "options", None)
        if not options:
            raise ValidationException(f"Cannot obtain metadata information from Catalog {name}.")
        comment = getattr(catalog, "comment", None)
        shown = ",\n".join(f"  '{k}' = '{v}'" for k, v in sorted(options.items()))
        return f"CREATE CATALOG `{name}`{f' COMMENT {comment!r}' if comment else ''} WITH (\n{shown}\n)\n"

    # -- modules and the client's statements ---------------------------------------------------------------------

    def function_names(self) -> list[str]:
        """The names of all functions."""
        builtin = {n for n in (*function_names(), *aggregates.names()) if n[:1].isalpha() and " " not in n}
        return sorted({*builtin, *self._env.catalogs.list_functions()})

    def modules(self) -> list[tuple[str, bool]]:
        """The names of the modules that are loaded, and whether they are in use."""
        return list(self._modules.items())

    def modules_in_use(self) -> list[str]:
        """The names of the modules in use, in order."""
        return [m for m, used in self._modules.items() if used]

    def use_modules(self, names: Sequence[str]) -> None:
        """Which modules are used."""
        for n in names:
            if n not in self._modules:
                raise ValidationException(f"No module with name '{n}' exists")
        others = {m: False for m in self._modules if m not in names}
        self._modules = {**dict.fromkeys(names, True), **others}

    def _load_module(self, statement: s.LoadModule) -> TableResult:
        if statement.name in self._modules:
            raise ValidationException(f"A module with name '{statement.name}' already exists")
        if statement.name != "core":
            raise ValidationException(
                f"Could not find any factory for identifier '{statement.name}' that implements a module.\n\nAvailable "
                "factory identifiers are:\n\ncore"
            )
        self._modules["core"] = True
        return message_result()

    def _unload_module(self, statement: s.UnloadModule) -> TableResult:
        if self._modules.pop(statement.name, None) is None:
            raise ValidationException(f"No module with name '{statement.name}' exists")
        return message_result()

    def _client_only(self, statement: s.Statement) -> TableResult:
        raise TableException(
            f"{_CLIENT_ONLY}{statement.title} belongs to a client's session: use t_env.get_config().set(key, value)"
        )

    def _call(self, statement: s.Call) -> TableResult:
        raise ValidationException(f"No match found for procedure {statement.call.text}: no catalog here has procedures")


def _pairs(first: str, second: str, rows: Sequence[tuple[str, str]]) -> TableResult:
    return rows_result([Field(first, t.STRING), Field(second, t.STRING)], rows)


def _like_pattern(pattern: str, ignore_case: bool) -> Callable[[str], re.Match[str] | None]:
    parts = [{"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern]
    return re.compile("".join(parts), re.IGNORECASE if ignore_case else 0).fullmatch


_HANDLERS: Final[dict[type[s.Statement], Callable[[StatementRunner, Any], Any]]] = {
    s.Query: StatementRunner._query,
    s.Insert: StatementRunner._insert,
    s.StatementSet: StatementRunner._statement_set,
    s.Explain: StatementRunner._explain,
    s.Delete: StatementRunner._refuse_in_streaming,
    s.Update: StatementRunner._refuse_in_streaming,
    s.Truncate: StatementRunner._refuse_in_streaming,
    s.Call: StatementRunner._call,
    s.CreateTable: StatementRunner._create_table,
    s.CreateView: StatementRunner._create_view,
    s.CreateFunction: StatementRunner._create_function,
    s.CreateCatalog: StatementRunner._create_catalog,
    s.CreateDatabase: StatementRunner._create_database,
    s.AlterTable: StatementRunner._alter_table,
    s.AlterView: StatementRunner._alter_view,
    s.AlterDatabase: StatementRunner._alter_database,
    s.AlterCatalog: StatementRunner._alter_catalog,
    s.AlterFunction: StatementRunner._alter_function,
    s.Drop: StatementRunner._drop,
    s.Use: StatementRunner._use,
    s.Describe: StatementRunner._describe,
    s.Show: StatementRunner._show,
    s.LoadModule: StatementRunner._load_module,
    s.UnloadModule: StatementRunner._unload_module,
    s.Set: StatementRunner._client_only,
    s.Reset: StatementRunner._client_only,
}
