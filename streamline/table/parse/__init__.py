r"""The SQL front end: text in, statements out.

Entry points

| function | text | gives |
|---|---|---|
| `parse_statement(text)` | exactly one statement, an optional `;` after it | a `Statement` (`statements.py`) |
| `parse_statements(text)` | a script | a tuple of statements; `;` inside a STATEMENT SET does not split |
| `parse_query(text)` | one query | a `Query`; any other statement is a `ValidationException`, as from `sql_query` |
| `parse_expression(text)` | a scalar expression | a `SqlExpression` (tree and text) |
| `parse_data_type(text)` | a type: `DECIMAL(10, 2) NOT NULL` | a `_core.types.DataType` |
| `parse_path(text)` | an identifier: `` cat.db.`my table` `` | a tuple of its parts |
| `split_statements(text)` | a script | the texts of its statements, unparsed |

All raise `SqlParserException` (with `line`, `column`, both from 1) for what is not a sentence of the dialect, and
`ValidationException` for a sentence that is one but that streamline, like Flink, does not go on with.

How: `lexer.py` cuts the text into tokens by Flink's lexical rules; a recursive-descent parser with Flink's grammar,
precedences and reserved words (`expressions.py`, `functions.py`, `tables.py`, `queries.py`, `ddl.py`, ...) builds the
tree. The tree is of sqlglot's own node classes: nothing is subclassed, so the compiled and the pure sqlglot give the
same. Why the grammar is ours and not sqlglot's: `docs/decisions/0006-own-sql-grammar.md`.

# The tree: what the binder gets

Rules that hold everywhere

* No `exp.Paren`: parentheses are spent on the shape. No `exp.Command`. Nothing is re-based, re-ordered or dropped.
* Every `exp.Identifier` has `quoted=True` and its text as it stands for (backticks removed, case kept).
* Keywords that a construct takes as an argument (units, TRIM's side, modes) are `exp.Var` in upper case.
* `locate(node)` is where a node was written (a `Span`), `error_at(node, message)` the `ValidationException` that names
  and underlines it, `text_of(node)` the text it was written as. A printed tree (`.sql()`) is for debugging only:
  without parentheses it need not mean the same.
* A chain of AND, of OR, of `||` and of UNION ALL is a balanced tree (500 terms are 9 levels), operands in order; all
  else associates to the left. Depth is guarded: a tree is at most `MAX_DEPTH` levels deep, more is a `SqlParserException`.
* Values that are not nodes sit in `args` where said so below (tuples, frozen dataclasses): use them as they are.

## Expressions

| SQL | node |
|---|---|
| `a`, `t.a`, `c.d.t.a` | `exp.Column(this[, table[, db[, catalog]]])`: up to four parts, as sqlglot has them; which part is a table and which a field is the binder's to say. `name_of(column)` gives the parts in order |
| `a.b.c.d.e` (more parts) | `exp.Dot(this=<the shorter name>, expression=Identifier)`; `name_of` takes it too |
| `f(x).y`, `a[1].y` | `exp.Dot(this=<expression>, expression=Identifier)`; `name_of` gives None. `(a).b` is a Dot over a Column, which `name_of` reads as `a.b` |
| `*`, `t.*` | `exp.Star()`; `exp.Column(this=Star, table=...)`; only in a select list and in `COUNT(*)` |
| `1`, `1.50`, `1e3` | `exp.Literal(is_string=False)`, text as written: digits alone are an integer, with a point a decimal, with an exponent a DOUBLE. `-1` is `exp.Neg(Literal)` |
| `'it''s'`, `U&'\00e9'`, `_utf8'x'` | `exp.Literal(is_string=True)`, decoded |
| `X'0aff'` | `exp.HexString(this="0aff")`, of even length |
| `NULL`, `TRUE`, `FALSE`, `UNKNOWN` | `exp.Null`, `exp.Boolean`; UNKNOWN is `exp.Cast(Null, BOOLEAN)` |
| `DATE '…'`, `TIME '…'`, `TIMESTAMP '…'` | `exp.Date`, `exp.Time`, `exp.Timestamp` with `this` = the string Literal, not validated |
| `INTERVAL '1 2' DAY(3) TO SECOND(2)` | `exp.Interval(this=Literal or expression, unit=Var("DAY(3) TO SECOND(2)"), negative=bool)`; `interval_of(node)` gives an `IntervalValue` (months or milliseconds, and its type), raising `ValidationException` for text that does not fit |
| `f(a, b)` | `exp.Anonymous(this="f", expressions=[...])`, **all** functions, aggregates included, the name as written. `cat.db.f(a)` has `path=("cat", "db")` in `args` |
| `f(x => 1, y => DEFAULT)` | arguments are `exp.Kwarg(this=Identifier, expression=...)`; DEFAULT is `exp.Var("DEFAULT")` |
| `COUNT(*)`, `COUNT()` | `expressions=[exp.Star()]`, `[]` |
| `f(TABLE t)`, `f((SELECT 1) PARTITION BY a)`, `f(SELECT 1)` | a table argument (see Tables); a bare query is an `exp.Subquery` |
| `f(DISTINCT a, b)` | `expressions=[exp.Distinct(expressions=[a, b])]`; ALL leaves no trace |
| `f(x) IGNORE NULLS`, `RESPECT NULLS` | `exp.IgnoreNulls(this=call)`, `exp.RespectNulls(this=call)` |
| `f(x) WITHIN GROUP (ORDER BY y)` | `exp.WithinGroup(this=call, expression=exp.Order)` |
| `ARRAY_AGG(x ORDER BY y)` | the same; of other functions it is refused |
| `f(x) FILTER (WHERE c)` | `exp.Filter(this=call, expression=exp.Where(this=c))` |
| `… OVER (PARTITION BY p ORDER BY o ROWS …)` | `exp.Window(this=<call, Filter, ...>, partition_by=[...], order=exp.Order or None, spec=exp.WindowSpec or None, alias=Identifier or None)`: alias is the named window that is used (`OVER w`, `OVER (w ROWS …)`) |
| frame | `exp.WindowSpec(kind="ROWS" or "RANGE", start, start_side, end, end_side)`: start and end are "UNBOUNDED", "CURRENT ROW" or an expression; sides "PRECEDING", "FOLLOWING", None for CURRENT ROW; `end` is "CURRENT ROW" where only a start was written; `allow_partial` is False only for DISALLOW PARTIAL |
| `CAST(x AS T)`, `TRY_CAST` | `exp.Cast`, `exp.TryCast` with `this`; the type is `cast_type(node)`, a `_core.types.DataType` |
| `CASE` | `exp.Case(this=operand or None, ifs=[exp.If(this=condition, true=value)], default=... or None)` |
| `CASE x WHEN 1, 2 THEN` | `If.this` is an `exp.Tuple` of the values |
| `ROW(a, b)`, `(a, b)`, `ROW(a)` | `exp.Tuple` |
| `ARRAY[a]`, `MAP[k, v]` | `exp.Array(expressions)`, `exp.Map(keys=exp.Array, values=exp.Array)`; empty ones too |
| `a[i]` | `exp.Bracket(this, expressions=[i])`, i as written (Flink counts from 1) |
| `(SELECT …)` | `exp.Subquery(this=query)` |
| `+ - * / % \|\|`, unary `-` | `exp.Add Sub Mul Div Mod DPipe`, `exp.Neg`; unary `+` leaves no trace |
| `= <> < <= > >=` | `exp.EQ NEQ LT LTE GT GTE` |
| `x = ANY (…)`, `SOME`, `ALL` | the comparison with `expression=exp.Any` or `exp.All` (this = `exp.Subquery`, or `exp.Tuple` of a list) |
| `AND OR NOT` | `exp.And Or Not` |
| `IS [NOT] NULL, TRUE, FALSE, UNKNOWN` | `exp.Is(this, expression=Null, Boolean or Var("UNKNOWN"))`, NOT as `exp.Not(Is)` |
| `IS [NOT] DISTINCT FROM` | `exp.NullSafeNEQ`, `exp.NullSafeEQ` |
| `IS [NOT] JSON [VALUE, OBJECT, ARRAY, SCALAR]` | `exp.Is(expression=exp.JSON(this="VALUE", ...))` |
| `x [NOT] BETWEEN [SYMMETRIC] a AND b` | `exp.Between(this, low, high, symmetric=bool)`, NOT around it |
| `x [NOT] IN (a, b)`, `IN (SELECT)` | `exp.In(this, expressions=[...])`, `exp.In(this, query=<query>)` |
| `[NOT] LIKE`, `SIMILAR TO`, `… ESCAPE e` | `exp.Like`, `exp.SimilarTo`; `exp.Escape(this=Like, expression=e)`; NOT around it |
| `EXISTS (q)` | `exp.Exists(this=<query>)` |
| `(a, b) OVERLAPS (c, d)` | `exp.Overlaps(this=Tuple, expression=Tuple)` |

Functions with a syntax of their own are `exp.Anonymous` with a fixed order of arguments, name in upper case:

| SQL | arguments |
|---|---|
| `EXTRACT(YEAR FROM x)` | `Var("YEAR"), x` (the unit is not checked) |
| `FLOOR(x TO DAY)`, `CEIL`, `CEILING` | `x, Var("DAY")`, name FLOOR or CEIL |
| `TIMESTAMPADD(DAY, n, x)`, `TIMESTAMPDIFF(DAY, a, b)` | as written, the unit a `Var`, `SQL_TSI_` removed |
| `(a - b) DAY TO SECOND`, `(a - b) MONTH` | `$MILLIS_BETWEEN(a, b)`, `$MONTHS_BETWEEN(a, b)` |
| `TRIM([BOTH] [c] FROM s)`, `TRIM(s)` | `Var("BOTH"), c, s`: always three, c is `Literal(' ')` where none was written |
| `POSITION(a IN b [FROM n])` | `a, b[, n]` |
| `SUBSTRING(s FROM i [FOR n])` | `s, i[, n]`, as of the form with commas |
| `OVERLAY(s PLACING t FROM i [FOR n])` | `s, t, i[, n]` |
| `CURRENT_DATE`, `LOCALTIME(3)`, `PI` … | the word alone: `expressions=[]`, with a precision `[Literal]` |
| `JSON_VALUE(j, p RETURNING T DEFAULT d ON EMPTY ERROR ON ERROR)` | `j, p`, then `Kwarg(Var("RETURNING"), <a Cast of NULL: cast_type>)`, `Kwarg(Var("ON EMPTY" or "ON ERROR"), Var("NULL" or "ERROR") or Kwarg(Var("DEFAULT"), d))` where written |
| `JSON_QUERY(j, p RETURNING T WITH CONDITIONAL WRAPPER EMPTY ARRAY ON EMPTY …)` | the same; `Kwarg(Var("WRAPPER"), Var("WITHOUT", "CONDITIONAL" or "UNCONDITIONAL"))`; behaviours NULL, ERROR, EMPTY ARRAY, EMPTY OBJECT |
| `JSON_EXISTS(j, p TRUE ON ERROR)` | `j, p[, Kwarg(Var("ON ERROR"), Var("TRUE", "FALSE", "UNKNOWN" or "ERROR"))]` |
| `JSON_OBJECT([KEY] k VALUE v, k: v, … ABSENT ON NULL)`, `JSON_OBJECTAGG` | `exp.JSONKeyValue(this=k, expression=v)…`, then `Kwarg(Var("ON NULL"), Var("NULL" or "ABSENT"))` where written |
| `JSON_ARRAY(a, b NULL ON NULL)`, `JSON_ARRAYAGG` | the values, then the same. `v FORMAT JSON` is `exp.FormatJson(this=v)` wherever JSON values stand |
| `DESCRIPTOR(a, b)` | `Identifier…`, not columns |
| `PREV(x, n)`, `FIRST(x)`, `RUNNING LAST(x)`, `FINAL …` | plain calls; RUNNING and FINAL are `Anonymous("RUNNING", [call])` |

## Queries

A *query* is `exp.Select`, `exp.Union`, `exp.Intersect`, `exp.Except` or `exp.Values`.

* `exp.Select`: `expressions` (each an expression or `exp.Alias(this, alias=Identifier)`), `distinct` (`exp.Distinct()`
  or None), `from_` (`exp.From(this=<table>)` or None), `joins`, `where` (`exp.Where`), `group`, `having`
  (`exp.Having`), `qualify` (`exp.Qualify`), `windows`, `hints` (tuple of `Hint`), and what any query may have:
  `with_`, `order`, `limit`, `offset`.
* `exp.Union / Intersect / Except`: `this`, `expression`, `distinct` True or False (ALL). An operand in parentheses
  is just that query, with its own `order` and `limit`. MINUS is EXCEPT.
* `exp.Values`: `expressions` are `exp.Tuple`s, one a row, also for rows of one value. `TABLE t` is `SELECT * FROM t`.
* Clauses around a query in brackets that has such clauses itself make `SELECT * FROM (query)` of it.
* `with_`: `exp.With(expressions=[exp.CTE(this=query, alias=exp.TableAlias(this, columns))], recursive=bool)`.
* `group`: `exp.Group(expressions=[...], distinct=bool)`: in the written order expressions, `exp.Rollup(expressions)`,
  `exp.Cube(expressions)`, `exp.GroupingSets(expressions)`; their items are expressions, `exp.Tuple`s (`()` is an empty
  one) or nested ones of the three. `GROUP BY ()` is one empty Tuple.
* `order`: `exp.Order(expressions=[exp.Ordered(this, desc=bool, nulls_first=True, False or None)])`; ordinals are Literals.
* `limit`: `exp.Limit(expression=Literal)` for LIMIT and FETCH (`LIMIT ALL` leaves no trace); `offset`: `exp.Offset(expression=Literal)`.
* `windows`: `exp.Window(this=Identifier, partition_by, order, spec, alias)` for each of `WINDOW w AS (…)`.

## Tables

`FROM x JOIN y ON … , z` is `from_.this` followed by `joins` in order, each `exp.Join(this=<table>, side, kind, method,
on, using)`. As in Flink a comma is a join like any other, from left to right. A table that is a join in brackets (`a JOIN (b
JOIN c ON …) ON …`) has the inner joins in its own `args["joins"]`: bind a table, then fold its `joins` over it; do the
same for each `join.this`.

* `Join.kind` is CROSS (comma and CROSS JOIN), INNER, or OUTER with `side` LEFT, RIGHT or FULL; `method` is NATURAL or
  None; `using` a list of Identifiers.
* aliases: `args["alias"]` of every table is None or `exp.TableAlias(this=Identifier, columns=[Identifier…])`.

| SQL | table |
|---|---|
| `cat.db.t` | `exp.Table(this, db, catalog)`; `path_of(table)` gives the parts. More than three parts: `ValidationException` |
| `t /*+ OPTIONS('k'='v') */` | the Table with `hints`, a tuple of `Hint(name, arguments, options)` |
| `t FOR SYSTEM_TIME AS OF x AS c` | the Table with `version=exp.Version(this="SYSTEM_TIME", kind="AS OF", expression=x)` |
| `(SELECT …) AS q(a, b)` | `exp.Subquery(this=query, alias)` |
| `LATERAL (SELECT …) AS q` | `exp.Lateral(this=exp.Subquery, alias, lateral=True)` |
| `(VALUES (1, 2)) AS q(a, b)` | `exp.Subquery(this=exp.Values, alias)` |
| `UNNEST(x) WITH ORDINALITY AS u(a, n)` | `exp.Unnest(expressions=[x], alias, offset=True or False)` |
| `TABLE(f(…)) AS T(a)`, `f(…) AS T(a)`, `LATERAL TABLE(f(…)) AS T(a)` | `exp.Lateral(this=exp.Anonymous, alias, lateral=bool)`: all window and table functions |
| an argument `TABLE t`, `TABLE t PARTITION BY k ORDER BY o`, `TABLE t PARTITION BY (a, b)`, `(SELECT …) PARTITION BY k` | `exp.TableFromRows(this=exp.Table or exp.Subquery, partition_by=[...], order=exp.Order or None)`, inside `exp.Kwarg` for `DATA => TABLE t`. A bare `(SELECT …)` argument is an `exp.Subquery` |
| `t MATCH_RECOGNIZE (…) AS m` | `exp.MatchRecognize(this=<table>, partition_by, order, measures=[exp.Alias…], rows=None, "ONE ROW PER MATCH" or "ALL ROWS PER MATCH", after=AfterMatch or None, pattern=<pattern>, strict_start, strict_end, within=expression or None, subset, define=[exp.Alias…], alias)` |

`AfterMatch`, the pattern tree and SUBSET are the frozen dataclasses of `pattern.py`. In MEASURES and DEFINE `A.price`
is `exp.Column(this=price, table=A)`.
"""  # noqa: E501 - tables

from __future__ import annotations

from streamline.table.parse.cursor import MAX_DEPTH
from streamline.table.parse.functions import cast_type
from streamline.table.parse.intervals import IntervalValue, interval_of
from streamline.table.parse.read import (
    parse_data_type,
    parse_expression,
    parse_path,
    parse_query,
    parse_statement,
    parse_statements,
    split_statements,
)
from streamline.table.parse.source import Span, error_at, locate, text_of
from streamline.table.parse.tables import Hint, name_of, path_of

__all__ = (
    "MAX_DEPTH",
    "Hint",
    "IntervalValue",
    "Span",
    "cast_type",
    "error_at",
    "interval_of",
    "locate",
    "name_of",
    "parse_data_type",
    "parse_expression",
    "parse_path",
    "parse_query",
    "parse_statement",
    "parse_statements",
    "path_of",
    "split_statements",
    "text_of",
)
