"""What the front end makes of SQL text: one frozen dataclass a statement.

Names are tuples of their parts as written, unresolved (`("cat", "db", "t")`, `("t",)`). Types are
`_core.types.DataType`.
Queries and expressions are sqlglot trees in the shape that the package's docstring fixes, with the text they were
written as: `SHOW CREATE`, `DESCRIBE` and views keep text, never a printed tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import sqlglot.expressions as exp

from streamline._core.types import DataType

# fmt: off
__all__ = (
    "AddColumns", "AddDistribution", "AddPartitions", "AddPrimaryKey", "AddWatermark", "AlterAction",
    "AlterCatalog", "AlterDatabase", "AlterFunction", "AlterTable", "AlterView", "Call", "ColumnChange",
    "ColumnDef", "ComputedColumn", "CreateCatalog", "CreateDatabase", "CreateFunction", "CreateTable", "CreateView",
    "Delete", "Describe", "Distribution", "Drop", "DropColumns", "DropConstraint", "DropDistribution",
    "DropPartitions", "DropWatermark", "Explain", "Insert", "LikeClause", "LikeOption", "LoadModule",
    "MetadataColumn", "ModifyColumns", "ModifyDistribution", "ModifyPrimaryKey", "ModifyWatermark", "Partition",
    "Path", "PhysicalColumn", "PrimaryKey", "Query", "RenameColumn", "RenameTo", "Reset", "ResetOptions", "Set",
    "SetComment", "SetOptions", "SetQuery", "Show", "SqlExpression", "Statement", "StatementSet", "Truncate",
    "UnloadModule", "Update", "Use", "Watermark",
)
# fmt: on

#: A name as its parts, unresolved.
Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SqlExpression:
    """An expression with its text."""

    ast: exp.Expression
    text: str


class Statement:
    """Base of everything that `parse_statement` gives; `title` is how messages name it ("CREATE TABLE")."""

    __slots__ = ()
    title: str = ""


# -- queries and changes of tables ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """SELECT, VALUES, set operation or WITH: `ast` is a query tree."""

    ast: exp.Expression
    text: str
    title = "SELECT"


#: `PARTITION (a = 1, b)`: names with their constants, None where only the name is given.
Partition: TypeAlias = tuple[tuple[str, exp.Expression | None], ...]


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """INSERT INTO or INSERT OVERWRITE.

    Attributes:
        columns: the target columns named after the table; empty where none are. Nested ones have several parts.
        query: what is inserted; VALUES is a query too.
        partition: the static partition.
        on_conflict: DEDUPLICATE, ERROR, NOTHING, or None where the clause is absent.
        options: of a hint `/*+ OPTIONS(...) */` after the table.
    """

    path: Path
    query: Query
    columns: tuple[Path, ...] = ()
    overwrite: bool = False
    partition: Partition = ()
    on_conflict: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    title = "INSERT"


@dataclass(frozen=True, slots=True)
class StatementSet(Statement):
    """EXECUTE STATEMENT SET BEGIN ... END: inserts that run as one job."""

    inserts: tuple[Insert, ...]
    title = "STATEMENT SET"


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    path: Path
    where: SqlExpression | None = None
    alias: str | None = None
    title = "DELETE"


@dataclass(frozen=True, slots=True)
class Update(Statement):
    path: Path
    assignments: tuple[tuple[str, SqlExpression], ...]
    where: SqlExpression | None = None
    alias: str | None = None
    title = "UPDATE"


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    path: Path
    title = "TRUNCATE TABLE"


@dataclass(frozen=True, slots=True)
class Call(Statement):
    """CALL of a procedure: `call` is a function call node."""

    call: SqlExpression
    title = "CALL"


# -- CREATE --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    name: str
    type: DataType
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """`name AS expression`; its type is known after binding."""

    name: str
    expression: SqlExpression
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """`name TYPE METADATA [FROM 'key'] [VIRTUAL]`; `key` is None where the column's own name is the key."""

    name: str
    type: DataType
    key: str | None = None
    virtual: bool = False
    comment: str | None = None


ColumnDef: TypeAlias = PhysicalColumn | ComputedColumn | MetadataColumn


@dataclass(frozen=True, slots=True)
class Watermark:
    """`WATERMARK FOR column AS expression`; a nested column has several parts."""

    column: Path
    expression: SqlExpression


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Distribution:
    """`DISTRIBUTED BY [HASH|RANGE] (columns) INTO n BUCKETS`, or only a number of buckets."""

    kind: str | None
    columns: tuple[str, ...]
    buckets: int | None


@dataclass(frozen=True, slots=True)
class LikeOption:
    """`action`: INCLUDING EXCLUDING OVERWRITING; `feature`: ALL CONSTRAINTS DISTRIBUTION GENERATED METADATA OPTIONS
    PARTITIONS WATERMARKS."""

    action: str
    feature: str


@dataclass(frozen=True, slots=True)
class LikeClause:
    path: Path
    options: tuple[LikeOption, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """CREATE TABLE, with LIKE or AS query where they are given.

    Attributes:
        columns: in declared order.
        as_columns: the names in `CREATE TABLE t (a, b) AS SELECT ...`: columns of the query, put in this order.
        or_replace: CREATE OR REPLACE TABLE; `replace`: REPLACE TABLE, which wants the table to be there.
    """

    path: Path
    columns: tuple[ColumnDef, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    primary_key: PrimaryKey | None = None
    comment: str | None = None
    distribution: Distribution | None = None
    partitioned_by: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    like: LikeClause | None = None
    as_query: Query | None = None
    as_columns: tuple[str, ...] = ()
    temporary: bool = False
    if_not_exists: bool = False
    or_replace: bool = False
    replace: bool = False
    title = "CREATE TABLE"


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    path: Path
    query: Query
    columns: tuple[str, ...] = ()
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False
    title = "CREATE VIEW"


@dataclass(frozen=True, slots=True)
class CreateFunction(Statement):
    """CREATE FUNCTION name AS 'identifier': for LANGUAGE PYTHON a dotted path to a function or class.

    `resources` are the (kind, path) pairs of USING JAR 'path', ...; `language` is upper case, None where not given.
    """

    path: Path
    identifier: str
    language: str | None = None
    resources: tuple[tuple[str, str], ...] = ()
    temporary: bool = False
    system: bool = False
    if_not_exists: bool = False
    options: dict[str, str] = field(default_factory=dict)
    title = "CREATE FUNCTION"


@dataclass(frozen=True, slots=True)
class CreateCatalog(Statement):
    name: str
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    if_not_exists: bool = False
    title = "CREATE CATALOG"


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    path: Path
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    if_not_exists: bool = False
    title = "CREATE DATABASE"


# -- DROP, ALTER ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """DROP of anything; `cascade` is for databases, `system` for TEMPORARY SYSTEM FUNCTION."""

    kind: Literal["CATALOG", "DATABASE", "TABLE", "VIEW", "FUNCTION"]
    path: Path
    if_exists: bool = False
    temporary: bool = False
    system: bool = False
    cascade: bool = False
    title = "DROP"


@dataclass(frozen=True, slots=True)
class SetOptions:
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class ResetOptions:
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameTo:
    path: Path


@dataclass(frozen=True, slots=True)
class RenameColumn:
    column: Path
    new_name: str


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column to add or to put in another's place; `first` and `after` say where, neither means the end."""

    column: ColumnDef
    first: bool = False
    after: Path | None = None


@dataclass(frozen=True, slots=True)
class AddColumns:
    columns: tuple[ColumnChange, ...]


@dataclass(frozen=True, slots=True)
class ModifyColumns:
    columns: tuple[ColumnChange, ...]


@dataclass(frozen=True, slots=True)
class DropColumns:
    columns: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class AddPrimaryKey:
    key: PrimaryKey


@dataclass(frozen=True, slots=True)
class ModifyPrimaryKey:
    key: PrimaryKey


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """`name` None: the primary key."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class AddWatermark:
    watermark: Watermark


@dataclass(frozen=True, slots=True)
class ModifyWatermark:
    watermark: Watermark


@dataclass(frozen=True, slots=True)
class DropWatermark:
    pass


@dataclass(frozen=True, slots=True)
class AddDistribution:
    distribution: Distribution


@dataclass(frozen=True, slots=True)
class ModifyDistribution:
    distribution: Distribution


@dataclass(frozen=True, slots=True)
class DropDistribution:
    pass


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Partitions with their options."""

    partitions: tuple[tuple[Partition, dict[str, str]], ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPartitions:
    partitions: tuple[Partition, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetQuery:
    """ALTER VIEW ... AS query."""

    query: Query


@dataclass(frozen=True, slots=True)
class SetComment:
    comment: str


AlterAction: TypeAlias = (
    SetOptions
    | ResetOptions
    | RenameTo
    | RenameColumn
    | AddColumns
    | ModifyColumns
    | DropColumns
    | AddPrimaryKey
    | ModifyPrimaryKey
    | DropConstraint
    | AddWatermark
    | ModifyWatermark
    | DropWatermark
    | AddDistribution
    | ModifyDistribution
    | DropDistribution
    | AddPartitions
    | DropPartitions
    | SetQuery
    | SetComment
)


@dataclass(frozen=True, slots=True)
class AlterTable(Statement):
    """ALTER TABLE: the actions are applied together; ADD (a INT, PRIMARY KEY ...) gives several."""

    path: Path
    actions: tuple[AlterAction, ...]
    if_exists: bool = False
    title = "ALTER TABLE"


@dataclass(frozen=True, slots=True)
class AlterView(Statement):
    path: Path
    action: AlterAction
    title = "ALTER VIEW"


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    path: Path
    action: AlterAction
    title = "ALTER DATABASE"


@dataclass(frozen=True, slots=True)
class AlterCatalog(Statement):
    name: str
    action: AlterAction
    title = "ALTER CATALOG"


@dataclass(frozen=True, slots=True)
class AlterFunction(Statement):
    path: Path
    identifier: str
    language: str | None = None
    if_exists: bool = False
    temporary: bool = False
    system: bool = False
    title = "ALTER FUNCTION"


# -- looking, and the session --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """EXPLAIN; `details`: ESTIMATED_COST CHANGELOG_MODE JSON_EXECUTION_PLAN PLAN_ADVICE."""

    statement: Statement
    details: tuple[str, ...] = ()
    title = "EXPLAIN"


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    kind: Literal["TABLE", "CATALOG", "DATABASE", "FUNCTION"]
    path: Path
    extended: bool = False
    title = "DESCRIBE"


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW of a list, of the current catalog or database, or of a definition.

    Attributes:
        what: CATALOGS DATABASES TABLES VIEWS FUNCTIONS COLUMNS PARTITIONS PROCEDURES MODULES JARS JOBS MODELS
            MATERIALIZED TABLES · CURRENT CATALOG, CURRENT DATABASE · CREATE TABLE, CREATE VIEW, CREATE CATALOG.
        path: after FROM or IN, or the object whose definition or columns are shown.
        pattern: of LIKE or ILIKE (`ignore_case`); `negated` for NOT LIKE.
        user_only: SHOW USER FUNCTIONS; full: SHOW FULL MODULES.
        partition: of SHOW PARTITIONS t PARTITION (...).
    """

    what: str
    path: Path | None = None
    pattern: str | None = None
    ignore_case: bool = False
    negated: bool = False
    user_only: bool = False
    full: bool = False
    partition: Partition = ()
    title = "SHOW"


@dataclass(frozen=True, slots=True)
class Use(Statement):
    """USE CATALOG name, USE [catalog.]database, USE MODULES a, b (one name a part of `path`)."""

    kind: Literal["CATALOG", "DATABASE", "MODULES"]
    path: Path
    title = "USE"


@dataclass(frozen=True, slots=True)
class Set(Statement):
    """SET 'key' = 'value', or SET alone, which lists (key and value None)."""

    key: str | None = None
    value: str | None = None
    title = "SET"


@dataclass(frozen=True, slots=True)
class Reset(Statement):
    """RESET 'key', or RESET alone for all keys."""

    key: str | None = None
    title = "RESET"


@dataclass(frozen=True, slots=True)
class LoadModule(Statement):
    name: str
    options: dict[str, str] = field(default_factory=dict)
    title = "LOAD MODULE"


@dataclass(frozen=True, slots=True)
class UnloadModule(Statement):
    name: str
    title = "UNLOAD MODULE"
