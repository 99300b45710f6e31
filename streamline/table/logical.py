"""The logical plan: what a query asks for, as frozen nodes that are checked when they are made.

Every node has a `schema` (names and types, time attributes included). Expressions in a node are over the columns of its
input, as `InputRef`s by position; a join's condition is over the left columns followed by the right ones. Both SQL
text and the Table API end in these nodes; rewrites make new ones.

A scan has no operator. It is a `RowShape`, which says how each column is read from the stream's own objects, and a
`ScanSource`, which says where in the graph those objects come from. A sink is the mirror image: an `OutputShape` builds
the objects that leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from streamline._core import types as t
from streamline._core.changes import ChangelogMode
from streamline._core.types import DataType, Field
from streamline._graph.stream_graph import StreamGraph
from streamline.abc import LookupReader
from streamline.errors import TableException, ValidationException
from streamline.table.expr.nodes import AggCall, Expr, InputRef, walk

__all__ = (
    "Aggregate",
    "Correlate",
    "Distinct",
    "Expand",
    "Filter",
    "GraphNode",
    "GroupWindow",
    "Join",
    "JoinKind",
    "Match",
    "MatchExpr",
    "MatchValue",
    "OutputShape",
    "Over",
    "OverCall",
    "OverFrame",
    "PatternElement",
    "Project",
    "Rel",
    "RowSchema",
    "RowShape",
    "Scan",
    "ScanSource",
    "SetOperation",
    "ShapeColumn",
    "Sink",
    "SinkTarget",
    "Sort",
    "SortKey",
    "TableFunctionCall",
    "TemporalJoin",
    "Union",
    "Values",
    "WatermarkSpec",
    "WindowSpec",
    "WindowTvf",
    "transform",
)


# -- schema --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowSchema:
    """Names and types of the columns of a row, in order."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, names: Iterable[str], types: Iterable[DataType]) -> RowSchema:
        """From parallel names and types."""
        return cls(tuple(Field(n, x) for n, x in zip(names, types, strict=True)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(f.type for f in self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Field:
        return self.fields[index]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def find(self, name: str) -> list[int]:
        """Positions of the columns of that name (several after a join)."""
        return [i for i, f in enumerate(self.fields) if f.name == name]

    def ref(self, index: int) -> InputRef:
        """A reference to column `index`."""
        f = self.fields[index]
        return InputRef(index, f.type, f.name)

    def refs(self) -> tuple[InputRef, ...]:
        """A reference to each column."""
        return tuple(self.ref(i) for i in range(len(self.fields)))

    @property
    def rowtimes(self) -> tuple[int, ...]:
        """Positions of the event-time columns."""
        return tuple(i for i, f in enumerate(self.fields) if f.type.is_rowtime)

    def row_type(self) -> DataType:
        """The columns as one ROW type, not null."""
        return DataType("ROW", nullable=False, fields=self.fields)

    def __str__(self) -> str:
        return ", ".join(f"{f.name} {f.type.summary(True, True)}" for f in self.fields)


# -- scans ---------------------------------------------------------------------------------------------------------


class ScanSource(Protocol):
    """Where the records of a scan come from. Equal sources are the same records: they are attached once a graph."""

    def attach(self, graph: StreamGraph) -> tuple[tuple[int, str | None], ...]:
        """The nodes that send the records (added to the graph where they are not there yet) and their side outputs."""
        ...


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A scan source that is a node of the graph already: a data stream (or one of its side outputs)."""

    node: int
    side: str | None = None

    def attach(self, graph: StreamGraph) -> tuple[tuple[int, str | None], ...]:
        if self.node not in graph.nodes:
            raise ValidationException("the table was made of a stream of another environment")
        return ((self.node, self.side),)


@dataclass(frozen=True, slots=True)
class ShapeColumn:
    """A column of a scan; exactly one of `source` and `expression` is given.

    Attributes:
        name, type: of the column; `type` has its time attribute where the column is one.
        source: Python source of its value in the inner form of `_core.types`, where `r` is the record and `t` its
            timestamp (epoch ms or None): `r.visitor`, `r[0]`, `None if t is None else t * 1000000`. It may be any
            expression; it is used as an operand, so anything but an attribute, item, call or name is put in
            parentheses.
        expression: of a computed column: over the scan's own columns, those with a `source` only.
        millis: of a TIMESTAMP: Python source of its epoch milliseconds (None for NULL) where the record has them, so
            that event time needs no detour over nanoseconds.
    """

    name: str
    type: DataType
    source: str | None = None
    expression: Expr | None = None
    millis: str | None = None

    def __post_init__(self) -> None:
        if (self.source is None) == (self.expression is None):
            raise TableException(f"column {self.name}: give its source or its expression")


@dataclass(frozen=True, slots=True)
class WatermarkSpec:
    """How a scan gets its watermarks.

    Attributes:
        column: position of the rowtime column.
        expression: the watermark as an expression over the scan's columns (a TIMESTAMP or TIMESTAMP_LTZ); None for
            SOURCE_WATERMARK(): the stream's own watermarks hold.
        on_event: a watermark behind every record that advances it; otherwise each `interval` ms of processing time.
        interval: milliseconds.
        idle_timeout: milliseconds without a record until the scan counts as idle; 0: never.
        alignment: group, largest drift (ms) and interval (ms) of watermark alignment; None: not aligned.
    """

    column: int
    expression: Expr | None = None
    on_event: bool = False
    interval: int = 200
    idle_timeout: int = 0
    alignment: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True)
class RowShape:
    """How rows are read from the objects of a stream.

    Attributes:
        columns: physical, metadata and computed columns in the table's order.
        watermark: None where the table has no event time.
        changelog: which kinds come. Not insert-only and without -U needs a primary key.
        primary_key: positions of its columns; empty where there is none.
        kind: Python source of a record's RowKind (`r.kind`); None: `Batch.kinds`, all INSERT where that is None.
        checked_insert_only: a record that is no INSERT is an error (only where `changelog` is insert-only).
        namespace: what the names in the sources (and `kind`) stand for, helpers and constants.
        element: the class of the records, where they can leave again as they came in; else None.
    """

    columns: tuple[ShapeColumn, ...]
    watermark: WatermarkSpec | None = None
    changelog: ChangelogMode = field(default_factory=ChangelogMode.insert_only)
    primary_key: tuple[int, ...] = ()
    kind: str | None = None
    checked_insert_only: bool = False
    namespace: tuple[tuple[str, Any], ...] = ()
    element: Any = None

    def __post_init__(self) -> None:
        for c in self.columns:
            for e in walk(c.expression) if c.expression is not None else ():
                if isinstance(e, InputRef) and self.columns[e.index].source is None:
                    raise ValidationException(
                        f"computed column {c.name} refers to the computed column {self.columns[e.index].name}; "
                        "only physical and metadata columns can be used"
                    )

    @property
    def schema(self) -> RowSchema:
        return RowSchema.of((c.name for c in self.columns), (c.type for c in self.columns))


# -- nodes ---------------------------------------------------------------------------------------------------------


class Rel:
    """A node of the plan. Subclasses are frozen dataclasses; `schema` is derived from the rest."""

    __slots__ = ()
    schema: RowSchema

    @property
    def inputs(self) -> tuple[Rel, ...]:
        """The nodes whose rows it reads, in order."""
        return ()

    def with_inputs(self, inputs: Sequence[Rel]) -> Rel:
        """The same node over other inputs."""
        raise NotImplementedError


def _check(what: str, expr: Expr, schema: RowSchema) -> None:
    """Every reference of the expression has to be to a column that is there, of its type."""
    for e in walk(expr):
        if not isinstance(e, InputRef):
            continue
        if not 0 <= e.index < len(schema):
            raise TableException(f"{what}: {expr} refers to column {e.index}; the input has {len(schema)} columns")
        if not e.type.same_type(schema[e.index].type):
            raise TableException(
                f"{what}: {expr} takes {schema[e.index].name} as {e.type}, but it is {schema[e.index].type}"
            )


def _check_condition(what: str, condition: Expr, schema: RowSchema) -> None:
    _check(what, condition, schema)
    if condition.type.root not in ("BOOLEAN", "NULL"):
        raise ValidationException(f"{what} has to be a BOOLEAN, not {condition.type}: {condition}")


def _check_indices(what: str, indices: Iterable[int], schema: RowSchema) -> None:
    for i in indices:
        if not 0 <= i < len(schema):
            raise TableException(f"{what}: column {i}; the input has {len(schema)} columns")


@dataclass(frozen=True)
class Scan(Rel):
    """The rows of a table or stream. `name` is the object's path as messages and explain print it."""

    name: tuple[str, ...]
    shape: RowShape
    source: ScanSource
    #: Makes what a lookup join reads the table with, by the values of these columns; None where it cannot be looked up.
    lookup: Callable[[tuple[str, ...]], LookupReader] | None = None

    def __post_init__(self) -> None:
        names = [c.name for c in self.shape.columns]
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise ValidationException(f"{'.'.join(self.name)}: column {twice} is defined twice")

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        return self.shape.schema

    def with_inputs(self, inputs: Sequence[Rel]) -> Rel:
        return self


@dataclass(frozen=True)
class Values(Rel):
    """Rows written in the query: each a tuple of constant expressions."""

    schema: RowSchema
    rows: tuple[tuple[Expr, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.schema):
                raise ValidationException("Values passed to VALUES operator must have compatible types")
            for e in row:
                _check("VALUES", e, RowSchema(()))

    def with_inputs(self, inputs: Sequence[Rel]) -> Rel:
        return self


@dataclass(frozen=True)
class _Single(Rel):
    """A node with one input."""

    input: Rel

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)

    def with_inputs(self, inputs: Sequence[Rel]) -> Rel:
        (only,) = inputs
        return self if only is self.input else type(self)(**{**self.__dict__, "input": only})


@dataclass(frozen=True)
class Project(_Single):
    """One column for each expression."""

    exprs: tuple[Expr, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.exprs) != len(self.names):
            raise TableException(f"projection of {len(self.exprs)} expressions with {len(self.names)} names")
        for e in self.exprs:
            _check("projection", e, self.input.schema)

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        return RowSchema.of(self.names, (e.type for e in self.exprs))


@dataclass(frozen=True)
class Filter(_Single):
    """The rows for which the condition is TRUE."""

    condition: Expr

    def __post_init__(self) -> None:
        _check_condition("WHERE", self.condition, self.input.schema)

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        return self.input.schema


@dataclass(frozen=True)
class GroupWindow:
    """The window of a legacy `GROUP BY TUMBLE(ts, ...)` or of a Table API group window.

    Attributes:
        spec: the kind of window and its measures.
        time: position of the time attribute in the input.
        properties: which window columns follow the aggregates: "start", "end", "rowtime", "proctime".
        early, late: delay (ms) of results before and after the end of the window; None: none, 0: with every row. The
            optimiser sets them from the configuration, and `lateness` too.
        lateness: how long (ms) a window is kept after its end.
    """

    spec: WindowSpec
    time: int
    properties: tuple[str, ...] = ()
    early: int | None = None
    late: int | None = None
    lateness: int = 0

    @property
    def emits_updates(self) -> bool:
        """Whether a window's result may be sent more than once."""
        return self.early is not None or self.late is not None or self.lateness > 0


@dataclass(frozen=True)
class Aggregate(_Single):
    """One row a group: the grouping columns, then one column for each aggregate, then properties of `window`.

    Attributes:
        keys: positions of the grouping columns; empty for a global aggregate.
        calls: the aggregates, over the input.
        names: names of all output columns.
        sets: GROUPING SETS as subsets of `keys`; empty for a plain GROUP BY. A key that is not in a set is NULL.
        window: a legacy group window, or None.
        state_ttl: milliseconds from a STATE_TTL hint; None: the configuration's.
    """

    keys: tuple[int, ...]
    calls: tuple[AggCall, ...]
    names: tuple[str, ...]
    sets: tuple[tuple[int, ...], ...] = ()
    window: GroupWindow | None = None
    state_ttl: int | None = None

    def __post_init__(self) -> None:
        schema = self.input.schema
        _check_indices("GROUP BY", self.keys, schema)
        for s in self.sets:
            if not set(s) <= set(self.keys):
                raise TableException(f"grouping set {s} is no subset of the keys {self.keys}")
        for c in self.calls:
            for a in c.args:
                _check(c.name, a, schema)
            if c.filter is not None:
                _check_condition("FILTER", c.filter, schema)
        extra = len(self.window.properties) if self.window else 0
        if len(self.names) != len(self.keys) + len(self.calls) + extra:
            raise TableException("aggregate: one name for each key, aggregate and window property")
        if self.window is not None and not schema[self.window.time].type.time_attribute:
            raise ValidationException(
                f"Window can only be defined over a time attribute column; {schema[self.window.time].name} is "
                f"{schema[self.window.time].type}"
            )

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        schema = self.input.schema
        types: list[DataType] = []
        for k in self.keys:
            x = schema[k].type
            types.append(x.null() if self.sets and not all(k in s for s in self.sets) else x)
        types += [c.type for c in self.calls]
        if self.window is not None:
            types += [window_property_type(schema[self.window.time].type, p) for p in self.window.properties]
        return RowSchema.of(self.names, types)


def window_property_type(time: DataType, name: str) -> DataType:
    """Type of TUMBLE_START and its kin over a time attribute of this type."""
    if name in ("start", "end"):
        return t.timestamp(3).not_null()
    if name == "rowtime":
        return DataType(time.root, precision=3, time_attribute="rowtime")
    return DataType("TIMESTAMP_LTZ", nullable=False, precision=3, time_attribute="proctime")


@dataclass(frozen=True)
class Distinct(_Single):
    """Each row once."""

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        return self.input.schema


@dataclass(frozen=True)
class Expand(_Single):
    """Each row once for every projection: how GROUPING SETS are computed."""

    projections: tuple[tuple[Expr, ...], ...]
    schema: RowSchema

    def __post_init__(self) -> None:
        for p in self.projections:
            if len(p) != len(self.schema):
                raise TableException("expand: projections of different width")


@dataclass(frozen=True)
class WindowSpec:
    """A kind of window and its measures, all in milliseconds.

    Attributes:
        kind: TUMBLE, HOP, CUMULATE, SESSION; ROWS_TUMBLE and ROWS_HOP count rows (Table API).
        size: the length; the maximal one of CUMULATE, the gap of SESSION, the number of rows of ROWS_*.
        step: the slide of HOP, the step of CUMULATE; else 0.
        offset: shift of the window's bounds.
    """

    kind: Literal["TUMBLE", "HOP", "CUMULATE", "SESSION", "ROWS_TUMBLE", "ROWS_HOP"]
    size: int
    step: int = 0
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size <= 0:
            what = "gap" if self.kind == "SESSION" else "size"
            raise ValidationException(f"{self.kind} window: the {what} has to be positive, not {self.size} ms")
        if self.kind in ("HOP", "CUMULATE", "ROWS_HOP") and self.step <= 0:
            what = "step" if self.kind == "CUMULATE" else "slide"
            raise ValidationException(f"{self.kind} window: the {what} has to be positive, not {self.step} ms")


@dataclass(frozen=True)
class WindowTvf(_Single):
    """A windowing table function: every row with its window (a row for each window it falls in).

    Adds window_start, window_end (TIMESTAMP(3)) and window_time (a time attribute).
    """

    spec: WindowSpec
    time: int
    #: PARTITION BY of SESSION.
    keys: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_indices(self.spec.kind, (self.time, *self.keys), self.input.schema)
        f = self.input.schema[self.time]
        if f.type.time_attribute is None:
            raise ValidationException(
                f"The window function requires the timecol is a time attribute type, but is {f.type}. "
                f"Declare a watermark for {f.name}, or select the time attribute unchanged"
            )
        if self.spec.kind in ("HOP", "CUMULATE") and self.spec.size % self.spec.step:
            what = "slide" if self.spec.kind == "HOP" else "step"
            raise ValidationException(
                f"{self.spec.kind} table function requires size must be an integral multiple of {what}, but got size "
                f"{self.spec.size} ms and {what} {self.spec.step} ms"
            )

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        f = self.input.schema.fields
        time = f[self.time].type
        window = t.timestamp(3).not_null()
        return RowSchema(
            (
                *f,
                Field("window_start", window),
                Field("window_end", window),
                Field("window_time", DataType(time.root, False, precision=3, time_attribute=time.time_attribute)),
            )
        )


JoinKind: TypeAlias = Literal["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]


@dataclass(frozen=True)
class Join(Rel):
    """Pairs of rows for which the condition is TRUE; SEMI and ANTI give left rows only.

    Attributes:
        state_ttl: milliseconds of the left and right state from hints; None: the configuration's.
    """

    left: Rel
    right: Rel
    kind: JoinKind
    condition: Expr
    state_ttl: tuple[int | None, int | None] = (None, None)

    def __post_init__(self) -> None:
        both = RowSchema(self.left.schema.fields + self.right.schema.fields)
        _check_condition("ON", self.condition, both)

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        left, right = self.left.schema.fields, self.right.schema.fields
        if self.kind in ("SEMI", "ANTI"):
            return RowSchema(left)
        if self.kind in ("RIGHT", "FULL"):
            left = tuple(Field(f.name, f.type.null()) for f in left)
        if self.kind in ("LEFT", "FULL"):
            right = tuple(Field(f.name, f.type.null()) for f in right)
        return RowSchema(left + right)

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: Sequence[Rel]) -> Rel:
        left, right = inputs
        if left is self.left and right is self.right:
            return self
        return Join(left, right, self.kind, self.condition, self.state_ttl)


@dataclass(frozen=True)
class TemporalJoin(Rel):
    """`JOIN right FOR SYSTEM_TIME AS OF time`: each left row with the right row of its key that is valid at its time.

    `time` is the position of a time attribute on the left: rowtime takes the version of then, proctime the one of now,
    or a lookup where the right side is a table that can be looked up.
    """

    left: Rel
    right: Rel
    kind: Literal["INNER", "LEFT"]
    time: int
    condition: Expr
    hints: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        both = RowSchema(self.left.schema.fields + self.right.schema.fields)
        _check_condition("ON", self.condition, both)
        _check_indices("FOR SYSTEM_TIME AS OF", (self.time,), self.left.schema)

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        right = self.right.schema.fields
        if self.kind == "LEFT":
            right = tuple(Field(f.name, f.type.null()) for f in right)
        return RowSchema(self.left.schema.fields + right)

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: Sequence[Rel]) -> Rel:
        left, right = inputs
        return TemporalJoin(left, right, self.kind, self.time, self.condition, self.hints)


@dataclass(frozen=True)
class TableFunctionCall:
    """A call that gives rows: UNNEST (of an array, map or multiset), or a table function of the user.

    Attributes:
        name: UNNEST, EXPLODE, or the function's name.
        args: over the columns of the left side.
        schema: of the rows it gives.
        function: the user's function object; None for built-in ones.
        ordinality: WITH ORDINALITY: a last column counts from 1.
    """

    name: str
    args: tuple[Expr, ...]
    schema: RowSchema
    function: Any = None
    ordinality: bool = False


@dataclass(frozen=True)
class Correlate(_Single):
    """Each row with every row that a table function gives for it; LEFT keeps rows for which there is none."""

    call: TableFunctionCall
    kind: Literal["INNER", "LEFT"] = "INNER"
    #: Over the left columns and those of the call.
    condition: Expr | None = None

    def __post_init__(self) -> None:
        for a in self.call.args:
            _check(self.call.name, a, self.input.schema)

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        right = self.call.schema.fields
        if self.kind == "LEFT":
            right = tuple(Field(f.name, f.type.null()) for f in right)
        return RowSchema(self.input.schema.fields + right)


@dataclass(frozen=True)
class _Many(Rel):
    """A node over several inputs of one schema."""

    all_inputs: tuple[Rel, ...]

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return self.all_inputs

    def with_inputs(self, inputs: Sequence[Rel]) -> Rel:
        return type(self)(**{**self.__dict__, "all_inputs": tuple(inputs)})

    def __post_init__(self) -> None:
        first = self.all_inputs[0].schema
        for other in self.all_inputs[1:]:
            if len(other.schema) != len(first):
                raise ValidationException(
                    f"the sides of a set operation have {len(first)} and {len(other.schema)} columns"
                )
            for a, b in zip(first, other.schema):
                if not a.type.same_type(b.type):
                    raise TableException(f"set operation: column {a.name} is {a.type} and {b.type}")

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        fields = []
        for columns in zip(*(i.schema for i in self.all_inputs)):
            x = columns[0].type.with_nullable(any(c.type.nullable for c in columns))
            if len({c.type.time_attribute for c in columns}) > 1:
                x = x.materialized()
            fields.append(Field(columns[0].name, x))
        return RowSchema(tuple(fields))


@dataclass(frozen=True)
class Union(_Many):
    """UNION ALL."""


@dataclass(frozen=True)
class SetOperation(_Many):
    """INTERSECT or EXCEPT of two inputs; `all` keeps duplicates."""

    kind: Literal["INTERSECT", "EXCEPT"] = "INTERSECT"
    all: bool = False


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by. NULLs are smallest unless said otherwise."""

    column: int
    ascending: bool = True
    nulls_first: bool = True


@dataclass(frozen=True)
class Sort(_Single):
    """ORDER BY with LIMIT and OFFSET; `keys` may be empty (LIMIT alone), `limit` None (no limit)."""

    keys: tuple[SortKey, ...]
    offset: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        _check_indices("ORDER BY", (k.column for k in self.keys), self.input.schema)

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        return self.input.schema


@dataclass(frozen=True, slots=True)
class OverFrame:
    """Rows that an OVER aggregate sees: from `preceding` back to `following` ahead; None is unbounded, 0 current.

    In milliseconds for RANGE, in rows for ROWS.
    """

    rows: bool = False
    preceding: int | None = None
    following: int | None = 0


@dataclass(frozen=True, slots=True)
class OverCall:
    """A function over a window: an aggregate, or ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, NTILE, ...."""

    call: AggCall
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    frame: OverFrame


@dataclass(frozen=True)
class Over(_Single):
    """The input's columns and one for each call."""

    calls: tuple[OverCall, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for c in self.calls:
            _check_indices("OVER", (*c.partition, *(k.column for k in c.order)), self.input.schema)

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        added = (Field(n, c.call.type) for n, c in zip(self.names, self.calls, strict=True))
        return RowSchema((*self.input.schema.fields, *added))


@dataclass(frozen=True, slots=True)
class MatchValue:
    """What an expression of MATCH_RECOGNIZE reads from the rows that a variable has matched.

    Attributes:
        variable: position of the variable's element in the pattern; -1: all rows of the match.
        expr: over one of the rows; None for an aggregate.
        last: counted from the last row, else from the first.
        offset: how many rows from there.
        call: an aggregate over all of the rows, else None.
    """

    variable: int
    expr: Expr | None = None
    last: bool = True
    offset: int = 0
    call: AggCall | None = None


@dataclass(frozen=True, slots=True)
class MatchExpr:
    """An expression whose references are positions in `values`."""

    expr: Expr
    values: tuple[MatchValue, ...]


@dataclass(frozen=True, slots=True)
class PatternElement:
    """A variable of a pattern with how often it matches; `most` None: any number; reluctant where not `greedy`."""

    name: str
    least: int = 1
    most: int | None = 1
    greedy: bool = True

    @property
    def loops(self) -> bool:
        """Whether it takes all it can get, and a row that it could take is no row of the next element."""
        return self.greedy and self.least != self.most and (self.least, self.most) != (0, 1)


@dataclass(frozen=True)
class Match(_Single):
    """MATCH_RECOGNIZE with ONE ROW PER MATCH: elements that follow each other directly.

    Attributes:
        partition: positions of the partition columns.
        order: the first key is a time attribute, ascending.
        elements: the pattern.
        within: milliseconds that a match is shorter than, or None.
        after: PAST LAST ROW, TO NEXT ROW, TO FIRST or TO LAST.
        target: the element that TO FIRST and TO LAST mean.
        conditions: of each element; None: every row.
        measures: the output columns after the partition columns.
        schema: of the output.
    """

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    elements: tuple[PatternElement, ...]
    within: int | None
    after: str
    target: int | None
    conditions: tuple[MatchExpr | None, ...]
    measures: tuple[MatchExpr, ...]
    schema: RowSchema

    def __post_init__(self) -> None:
        _check_indices("MATCH_RECOGNIZE", (*self.partition, *(k.column for k in self.order)), self.input.schema)
        for found in (*self.conditions, *self.measures):
            for value in () if found is None else found.values:
                for e in (value.expr, *(() if value.call is None else value.call.args)):
                    if e is not None:
                        _check("MATCH_RECOGNIZE", e, self.input.schema)


# -- sinks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutputShape:
    """How the objects that leave are built.

    Attributes:
        template: Python source with `{0}`, `{1}`, … for the values of the columns (inner form; each used at most once)
            and `{kind}` for the row's RowKind: `Clicks({0}, to_datetime({1}), {2})`. Literal braces are doubled.
            Empty: the inner tuple itself.
        namespace: what the names in the template stand for.
        element: a class: rows that come unchanged from a scan of objects of this class, all columns in order, leave as
            those objects, and nothing is built.
        kinds: whether `Batch.kinds` is set; else kinds are only in the objects (or all are INSERT).
        timestamp: the column that becomes the records' timestamps (a rowtime); None: they have none.
        row: the template is a tuple, and it leaves as the values of a Row with these names, and with its kind.
    """

    template: str = ""
    namespace: tuple[tuple[str, Any], ...] = ()
    element: Any = None
    kinds: bool = False
    timestamp: int | None = None
    row: tuple[str, ...] | None = None


class SinkTarget(Protocol):
    """Where the objects go."""

    def attach(self, graph: StreamGraph, node: int, side: str | None) -> int:
        """Add what consumes the objects that `node` sends; gives the id of the node added (`node` for none)."""
        ...


@dataclass(frozen=True)
class Sink(_Single):
    """The end of a plan.

    Attributes:
        name: the table's path, or `*anonymous_datastream_sink$1*`, as messages print it.
        shape: how the objects are built.
        target: who takes them; None: a conversion, whose node the caller wants.
        changelog: the kinds it takes. Without -U it is an upsert sink.
        primary_key: positions of the key of an upsert sink; empty: the query's upsert key is used.
        on_conflict: of INSERT: DEDUPLICATE, ERROR, NOTHING or None.
        remedies: what an error for updates that cannot be taken advises, a sentence.
    """

    name: str
    shape: OutputShape
    target: SinkTarget | None = None
    changelog: ChangelogMode = field(default_factory=ChangelogMode.all)
    primary_key: tuple[int, ...] = ()
    on_conflict: str | None = None
    remedies: str = ""

    def __post_init__(self) -> None:
        _check_indices("primary key", self.primary_key, self.input.schema)

    @property
    def schema(self) -> RowSchema:  # type: ignore[override]
        return self.input.schema


#: Nodes by name, for explain and goldens.
NODES: Final[tuple[type[Rel], ...]] = (
    Scan,
    Values,
    Project,
    Filter,
    Aggregate,
    Distinct,
    Expand,
    WindowTvf,
    Join,
    TemporalJoin,
    Correlate,
    Union,
    SetOperation,
    Sort,
    Over,
    Match,
    Sink,
)

_Transform: TypeAlias = Callable[[Rel], Rel]


def transform(rel: Rel, change: _Transform) -> Rel:
    """The plan with `change` applied to every node, inputs first."""
    return change(rel.with_inputs([transform(i, change) for i in rel.inputs]))
