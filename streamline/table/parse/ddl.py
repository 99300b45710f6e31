"""CREATE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import sqlglot.expressions as exp

from streamline.table.parse import statements as st
from streamline.table.parse.cursor import MAX_DEPTH
from streamline.table.parse.queries import QueryParser
from streamline.table.parse.source import locate, syntax_error

__all__ = ("DdlParser", "Definitions")

_LIKE_ACTIONS = ("INCLUDING", "EXCLUDING", "OVERWRITING")
_LIKE_FEATURES = ("ALL", "CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")
_LANGUAGES = ("JAVA", "SCALA", "SQL", "PYTHON")

#: What streamline has no use for; the statements about it are refused by name.
UNSUPPORTED_OBJECTS = ("MODEL", "CONNECTION", "MATERIALIZED")


@dataclass(slots=True)
class Definitions:
    """What the brackets of CREATE TABLE or of ALTER TABLE ADD hold."""

    columns: list[st.ColumnChange] = field(default_factory=list)
    watermarks: list[st.Watermark] = field(default_factory=list)
    primary_key: st.PrimaryKey | None = None


class DdlParser(QueryParser):
    """Reads CREATE statements."""

    # -- parts that several statements share -----------------------------------------------------------------------

    def sql_expression(self) -> st.SqlExpression:
        """A scalar expression with its text."""
        start = self.at
        ast = self.expression()
        self.check_depth(ast)
        return st.SqlExpression(ast, self.span(start).text)

    def sql_query(self) -> st.Query:
        """A query with its text."""
        start = self.at
        ast = self.query()
        self.check_depth(ast)
        return st.Query(ast, self.span(start).text)

    def check_depth(self, tree: exp.Expression) -> None:
        """Refuse a tree deeper than `MAX_DEPTH`: whoever walks it may recurse."""
        level, depth = [tree], 0
        while level:
            depth += 1
            if depth > MAX_DEPTH:
                place = next((s for s in map(locate, level) if s is not None), self.span(0))
                raise syntax_error(place, f"nested deeper than {MAX_DEPTH} levels")
            level = [child for node in level for child in node.iter_expressions()]

    def options(self) -> dict[str, str]:
        """`('key' = 'value', …)`."""
        self.need("(")
        found: dict[str, str] = {}
        if self.take(")"):
            return found
        while True:
            key = self.string()
            self.need("=")
            found[key] = self.string()
            if not self.take(","):
                break
        self.need(")")
        return found

    def keys(self) -> tuple[str, ...]:
        """`('key', …)`."""
        self.need("(")
        if self.take(")"):
            return ()
        found = self.comma_list(self.string)
        self.need(")")
        return tuple(found)

    def with_options(self) -> dict[str, str]:
        return self.options() if self.take("WITH") else {}

    def comment(self) -> str | None:
        return self.string() if self.take("COMMENT") else None

    def if_not_exists(self) -> bool:
        return self.take("IF", "NOT", "EXISTS")

    def if_exists(self) -> bool:
        return self.take("IF", "EXISTS")

    def names(self) -> tuple[str, ...]:
        """`(a, b)`."""
        return tuple(self.in_parens(self.name))

    def unsupported(self, start: int, what: str) -> NoReturn:
        self.refuse(start, f"{what} is not supported.")

    # -- CREATE ----------------------------------------------------------------------------------------------------

    def create(self) -> st.Statement:
        start = self.at
        self.need("CREATE")
        if self.next_are("OR", "REPLACE"):
            self.at += 2
            if self.token.key in ("VIEW", "FUNCTION"):
                self.unsupported(start, f"CREATE OR REPLACE {self.token.key}")
            temporary = self.take("TEMPORARY")
            return self._create_table(start, temporary, or_replace=True)
        if self.next_are("OR", "ALTER"):
            self.unsupported(start, "CREATE OR ALTER")
        temporary = self.take("TEMPORARY")
        system = self.take("SYSTEM")
        if system or self.next_is("FUNCTION"):
            return self._create_function(temporary, system)
        if self.next_is("TABLE"):
            return self._create_table(start, temporary)
        if self.next_is("VIEW"):
            return self._create_view(temporary)
        if not temporary and self.take("CATALOG"):
            if_not_exists = self.if_not_exists()
            name = self.name()
            comment = self.comment()
            return st.CreateCatalog(name, self.with_options(), comment, if_not_exists)
        if not temporary and self.take("DATABASE"):
            if_not_exists = self.if_not_exists()
            path = self.path()
            comment = self.comment()
            return st.CreateDatabase(path, self.with_options(), comment, if_not_exists)
        if self.token.key in UNSUPPORTED_OBJECTS:
            kind = "MATERIALIZED TABLE" if self.token.key == "MATERIALIZED" else self.token.key
            self.unsupported(start, f"CREATE {kind}")
        return self.fail()

    def _create_view(self, temporary: bool) -> st.Statement:
        self.need("VIEW")
        if_not_exists = self.if_not_exists()
        path = self.path()
        columns = self.names() if self.token.key == "(" else ()
        comment = self.comment()
        self.need("AS")
        return st.CreateView(path, self.sql_query(), columns, comment, temporary, if_not_exists)

    def _create_function(self, temporary: bool, system: bool) -> st.Statement:
        self.need("FUNCTION")
        if system and not temporary:
            self.fail_at(self.at - 2, "SYSTEM FUNCTION without TEMPORARY", "Write CREATE TEMPORARY SYSTEM FUNCTION.")
        if_not_exists = self.if_not_exists()
        path = self.path()
        self.need("AS")
        identifier = self.string()
        language = self.need_one(*_LANGUAGES) if self.take("LANGUAGE") else None
        resources: list[tuple[str, str]] = []
        at = self.at
        if self.take("USING"):
            resources = self.comma_list(self._resource)
            if language in ("SQL", "PYTHON"):
                self.fail_at(at, f"USING JAR with LANGUAGE {language}", "The module of a Python function is imported.")
        return st.CreateFunction(
            path, identifier, language, tuple(resources), temporary, system, if_not_exists, self.with_options()
        )

    def _resource(self) -> tuple[str, str]:
        return self.need_one("JAR", "ARTIFACT"), self.string()

    # -- CREATE TABLE ----------------------------------------------------------------------------------------------

    def replace_table(self) -> st.Statement:
        """REPLACE TABLE … AS."""
        start = self.at
        self.need("REPLACE")
        return self._create_table(start, temporary=False, replace=True)

    def _create_table(
        self, start: int, temporary: bool, or_replace: bool = False, replace: bool = False
    ) -> st.CreateTable:
        self.need("TABLE")
        if_not_exists = False if replace else self.if_not_exists()
        path = self.path()
        definitions = Definitions()
        as_columns: tuple[str, ...] = ()
        if self.token.key == "(":
            if self.ahead(1).kind in ("word", "quoted") and self.ahead(2).key in (",", ")"):
                as_columns = self.names()
            else:
                self.in_parens(lambda: self.definition(definitions))
        comment = self.comment()
        distribution = self.distribution() if self.take("DISTRIBUTED") else None
        partitioned_by: tuple[str, ...] = ()
        if self.take("PARTITIONED"):
            self.need("BY")
            partitioned_by = self.names()
        options = self.with_options()
        like = self._like() if self.take("LIKE") else None
        as_query = None
        if like is None and self.take("AS"):
            as_query = self.sql_query()
        if as_query is None:
            if as_columns:
                self._wanted("AS")
                self.fail("", "Columns without types only stand in CREATE TABLE … AS query.")
            if or_replace or replace:
                self.refuse(start, "REPLACE TABLE takes AS query: the table is made anew from a query.")
        return st.CreateTable(
            path=path,
            columns=tuple(c.column for c in definitions.columns),
            watermarks=tuple(definitions.watermarks),
            primary_key=definitions.primary_key,
            comment=comment,
            distribution=distribution,
            partitioned_by=partitioned_by,
            options=options,
            like=like,
            as_query=as_query,
            as_columns=as_columns,
            temporary=temporary,
            if_not_exists=if_not_exists,
            or_replace=or_replace,
            replace=replace,
        )

    def definition(self, found: Definitions, positions: bool = False) -> None:
        """One item between the brackets: a column, a watermark or a constraint."""
        start = self.at
        if self.next_is("WATERMARK"):
            found.watermarks.append(self.watermark())
            if len(found.watermarks) > 1:
                self.fail_at(start, "a second WATERMARK: a table has one")
        elif self.token.key in ("CONSTRAINT", "PRIMARY", "UNIQUE"):
            self._primary_key(found, self.primary_key(), start)
        else:
            column = self._column_definition(found)
            if any(c.column.name == column.name for c in found.columns):
                self.refuse(start, f"A column named '{column.name}' already exists in the table.")
            found.columns.append(self._positioned(column) if positions else st.ColumnChange(column))

    def _positioned(self, column: st.ColumnDef) -> st.ColumnChange:
        if self.take("FIRST"):
            return st.ColumnChange(column, first=True)
        return st.ColumnChange(column, after=self.path() if self.take("AFTER") else None)

    def _primary_key(self, found: Definitions, key: st.PrimaryKey, start: int) -> None:
        if found.primary_key is not None:
            self.refuse(start, "Duplicate primary key definition")
        found.primary_key = key

    def _column_definition(self, found: Definitions) -> st.ColumnDef:
        name = self.name()
        if self.take("AS"):
            expression = self.sql_expression()
            return st.ComputedColumn(name, expression, self.comment())
        type_ = self.data_type(intervals=False)
        if self.take("METADATA"):
            key = self.string() if self.take("FROM") else None
            virtual = self.take("VIRTUAL")
            return st.MetadataColumn(name, type_, key, virtual, self.comment())
        at = self.at
        if self.token.key in ("CONSTRAINT", "PRIMARY", "UNIQUE"):
            self._primary_key(found, self.primary_key(name), at)
        return st.PhysicalColumn(name, type_, self.comment())

    def watermark(self) -> st.Watermark:
        """`WATERMARK FOR column AS expression`."""
        self.need("WATERMARK", "FOR")
        column = self.path()
        self.need("AS")
        return st.Watermark(column, self.sql_expression())

    def primary_key(self, column: str | None = None) -> st.PrimaryKey:
        """`[CONSTRAINT name] PRIMARY KEY [(columns)] NOT ENFORCED`; after a column without its list."""
        start = self.at
        name = self.name() if self.take("CONSTRAINT") else None
        if self.take("UNIQUE"):
            self.refuse(start, "UNIQUE constraint is not supported yet")
        self.need("PRIMARY", "KEY")
        columns = self.names() if column is None else (column,)
        if not self.take("NOT", "ENFORCED"):
            self.take("ENFORCED")
            self.refuse(
                start,
                "A PRIMARY KEY is declared NOT ENFORCED: the data is not ours, so that nothing can be checked on it. "
                "Write PRIMARY KEY … NOT ENFORCED.",
            )
        if len(set(columns)) < len(columns):
            self.refuse(start, "A column stands twice in the PRIMARY KEY.")
        return st.PrimaryKey(columns, name)

    def distribution(self) -> st.Distribution:
        """What follows DISTRIBUTED or DISTRIBUTION."""
        kind = None
        columns: tuple[str, ...] = ()
        if self.take("BY"):
            kind = self.take_one("HASH", "RANGE")
            columns = self.names()
        elif not self.next_is("INTO"):
            self.fail()
        buckets = None
        if self.take("INTO"):
            at = self.at
            buckets = self.integer()
            if buckets < 1:
                self.refuse(at, "A table has at least one bucket.")
            self.need("BUCKETS")
        return st.Distribution(kind, columns, buckets)

    def _like(self) -> st.LikeClause:
        path = self.path()
        options: list[st.LikeOption] = []
        if self.take("("):
            while not options or self.token.key in _LIKE_ACTIONS:
                action = self.need_one(*_LIKE_ACTIONS)
                options.append(st.LikeOption(action, self.need_one(*_LIKE_FEATURES)))
            self.need(")")
        return st.LikeClause(path, tuple(options))

    # -- partitions ------------------------------------------------------------------------------------------------

    def partition(self, values: bool = True) -> st.Partition:
        """`(a = 1, b = 'x')` after PARTITION."""
        return tuple(self.in_parens(lambda: self._partition_value(values)))

    def _partition_value(self, needed: bool) -> tuple[str, exp.Expression | None]:
        name = self.name()
        if not needed and not self.next_is("="):
            return name, None
        self.need("=")
        return name, self.expression(80)
