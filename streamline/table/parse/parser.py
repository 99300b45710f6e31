"""Statements: which one it is, and those that are not DDL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from streamline.errors import ValidationException
from streamline.table.parse import statements as st
from streamline.table.parse.alter import AlterParser
from streamline.table.parse.functions import QUERY

__all__ = ("Parser",)

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")

#: Statements that Flink's grammar knows and that mean nothing here.
_REFUSED: Final[Mapping[str, str]] = {
    "ADD": "ADD JAR is not supported: functions are Python objects, imported as any.",
    "REMOVE": "REMOVE JAR is not supported: functions are Python objects, imported as any.",
    "STOP": "STOP JOB is not supported; a job is ended by its JobClient.",
    "ANALYZE": "ANALYZE TABLE is not supported: plans of streams do not depend on statistics.",
    "COMPILE": "COMPILE PLAN is not supported.",
    "MERGE": "MERGE is not supported.",
    "UPSERT": "UPSERT INTO is not supported; INSERT INTO a table with a PRIMARY KEY upserts.",
}


class Parser(AlterParser):
    """Reads whole texts."""

    # -- texts -----------------------------------------------------------------------------------------------------

    def single(self) -> st.Statement:
        """The one statement of the text."""
        if self.token.kind == "end":
            self._wanted("a statement")
            self.fail("the text holds no statement")
        found = self.statement()
        if not self._ended():
            self._after_statement()
        while self.take(";"):
            pass
        if self.token.kind != "end":
            raise ValidationException(
                f"Only a single statement is taken here; a second one begins at line {self.span(self.at).line}, "
                f"column {self.span(self.at).column}."
            )
        return found

    def script(self) -> tuple[st.Statement, ...]:
        """All statements of the text."""
        found: list[st.Statement] = []
        while True:
            while self.take(";"):
                pass
            if self.token.kind == "end":
                return tuple(found)
            found.append(self._client_statement_set() if self._at_statement_set() else self.statement())
            if not self._ended():
                self._after_statement()

    def _ended(self) -> bool:
        return self.token.kind == "end" or self.token.key == ";"

    def _after_statement(self) -> None:
        self.fail()

    def _at_statement_set(self) -> bool:
        return self.next_are("BEGIN", "STATEMENT", "SET")

    def _client_statement_set(self) -> st.Statement:
        """`BEGIN STATEMENT SET; …; END;` of the SQL client."""
        self.need("BEGIN", "STATEMENT", "SET", ";")
        return st.StatementSet(self._inserts())

    # -- one statement ---------------------------------------------------------------------------------------------

    def statement(self) -> st.Statement:
        token = self.token
        if token.key in QUERY or token.key == "(":
            return self.sql_query()
        reader = _STATEMENTS.get(token.key)
        if reader is not None:
            return reader(self)
        if token.key in _REFUSED and self.ahead(1).kind == "word":
            self.refuse(self.at, _REFUSED[token.key])
        if token.key in ("BEGIN", "END") and self.ahead(1).key in ("STATEMENT", ";", ""):
            self.refuse(
                self.at, "BEGIN STATEMENT SET is a command of the SQL client; write EXECUTE STATEMENT SET BEGIN …; END."
            )
        self._wanted("a statement")
        return self.fail()

    def _insert(self) -> st.Insert:
        self.need("INSERT")
        overwrite = self.need_one("INTO", "OVERWRITE") == "OVERWRITE"
        path = self.path()
        options: dict[str, str] = {}
        at = self.at
        for hint in self.table_hints():
            if hint.name != "OPTIONS":
                self.refuse(at, f"The hint {hint.name} has no meaning for the target of INSERT; OPTIONS has.")
            options.update(hint.options)
        partition = self.partition() if self.take("PARTITION") else ()
        columns: tuple[st.Path, ...] = ()
        if self.token.key == "(" and self.ahead(1).key not in (*QUERY, "("):
            columns = tuple(self.in_parens(self.path))
        if self.token.key not in QUERY and self.token.key != "(":
            self._wanted("a query")
            self.fail()
        query = self.sql_query()
        on_conflict = None
        if self.take("ON", "CONFLICT"):
            self.need("DO")
            on_conflict = self.need_one("NOTHING", "ERROR", "DEDUPLICATE")
        return st.Insert(path, query, columns, overwrite, partition, on_conflict, options)

    def _inserts(self) -> tuple[st.Insert, ...]:
        """`INSERT …; INSERT …; END`."""
        found: list[st.Insert] = []
        while not found or not self.next_is("END"):
            if not self.next_is("INSERT"):
                self.fail()
            found.append(self._insert())
            self.need(";")
        self.need("END")
        return tuple(found)

    def _statement_set(self) -> st.StatementSet:
        self.need("STATEMENT", "SET", "BEGIN")
        return st.StatementSet(self._inserts())

    def _execute(self) -> st.Statement:
        start = self.at
        self.need("EXECUTE")
        if self.token.key == "STATEMENT":
            return self._statement_set()
        if self.take("PLAN"):
            self.refuse(start, "EXECUTE PLAN is not supported.")
        if self.token.key == "INSERT":
            return self._insert()
        if self.token.key in QUERY or self.token.key == "(":
            return self.sql_query()
        self._wanted("STATEMENT SET", "INSERT", "a query")
        return self.fail()

    def _explain(self) -> st.Statement:
        self.need("EXPLAIN")
        details: list[str] = []
        if self.take("PLAN"):
            self.need("FOR")
        elif self.token.key in _DETAILS:
            details = list(dict.fromkeys(self.comma_list(lambda: self.need_one(*_DETAILS))))
        return st.Explain(self._explained(), tuple(details))

    def _explained(self) -> st.Statement:
        key = self.token.key
        if key == "STATEMENT":
            return self._statement_set()
        if key == "EXECUTE":
            return self._execute()
        if key == "INSERT":
            return self._insert()
        if key == "CREATE":
            start = self.at
            made = self.create()
            if not isinstance(made, st.CreateTable) or made.as_query is None:
                self.fail_at(start, "only CREATE TABLE … AS can be explained")
            return made
        if key in QUERY or key == "(":
            return self.sql_query()
        self._wanted("a query", "INSERT", "STATEMENT SET", "CREATE TABLE … AS")
        return self.fail()

    # -- looking ---------------------------------------------------------------------------------------------------

    def _describe(self) -> st.Statement:
        start = self.at
        self.need_one("DESCRIBE", "DESC")
        kind: Literal["TABLE", "CATALOG", "DATABASE", "FUNCTION"] = "TABLE"
        if self.token.key in ("JOB", "MODEL", "CONNECTION") and self.ahead(1).kind != "end":
            self.unsupported(start, f"DESCRIBE {self.token.key}")
        if (found := self.take_one("CATALOG", "DATABASE", "FUNCTION", "JOB", "MODEL", "CONNECTION")) is not None:
            if found not in ("CATALOG", "DATABASE", "FUNCTION"):
                self.fail()
            kind = "CATALOG" if found == "CATALOG" else "DATABASE" if found == "DATABASE" else "FUNCTION"
        else:
            self.take("TABLE")
        extended = self.take("EXTENDED")
        path = (self.name(),) if kind == "CATALOG" else self.path()
        return st.Describe(kind, path, extended)

    def _show(self) -> st.Statement:
        start = self.at
        self.need("SHOW")
        if self.take("CURRENT"):
            return st.Show("CURRENT " + self.need_one("CATALOG", "DATABASE"))
        if self.take("CREATE"):
            return self._show_create(start)
        if self.take("FULL"):
            self.need("MODULES")
            return st.Show("MODULES", full=True)
        if self.take("USER"):
            self.need("FUNCTIONS")
            return self._list("FUNCTIONS", user_only=True)
        if self.take("MATERIALIZED"):
            self.need("TABLES")
            return self._list("MATERIALIZED TABLES")
        what = self.need_one(*_LISTS)
        if what in ("MODULES", "JARS", "JOBS"):
            return st.Show(what)
        if what == "CONNECTIONS":
            self.unsupported(start, "SHOW CONNECTIONS")
        if what == "COLUMNS":
            self.need_one("FROM", "IN")
            path = self.path()
            pattern, ignore_case, negated = self._pattern(what)
            return st.Show(what, path, pattern, ignore_case, negated)
        if what == "PARTITIONS":
            path = self.path()
            return st.Show(what, path, partition=self.partition() if self.take("PARTITION") else ())
        return self._list(what)

    def _list(self, what: str, user_only: bool = False) -> st.Statement:
        path = None
        if what != "CATALOGS" and self.take_one("FROM", "IN"):
            path = self.path()
        pattern, ignore_case, negated = self._pattern(what)
        return st.Show(what, path, pattern, ignore_case, negated, user_only)

    def _pattern(self, what: str) -> tuple[str | None, bool, bool]:
        """`[NOT] LIKE 'a%'`; ILIKE for the lists that have it."""
        negated = self.take("NOT")
        words = ("LIKE",) if what in ("TABLES", "VIEWS", "COLUMNS", "MATERIALIZED TABLES") else ("LIKE", "ILIKE")
        word = self.take_one(*words)
        if word is None:
            if negated:
                self.fail()
            return None, False, False
        return self.string(), word == "ILIKE", negated

    def _show_create(self, start: int) -> st.Statement:
        if self.token.key in ("MATERIALIZED", "MODEL", "CONNECTION"):
            self.unsupported(start, f"SHOW CREATE {self.token.key}")
        what = self.need_one("TABLE", "VIEW", "CATALOG")
        return st.Show(f"CREATE {what}", (self.name(),) if what == "CATALOG" else self.path())

    # -- the session -----------------------------------------------------------------------------------------------

    def _use(self) -> st.Statement:
        self.need("USE")
        if self.token.key == "CATALOG" and self.ahead(1).kind in ("word", "quoted"):
            self.at += 1
            return st.Use("CATALOG", (self.name(),))
        if self.take("MODULES"):
            return st.Use("MODULES", tuple(self.comma_list(self.name)))
        return st.Use("DATABASE", self.path())

    def _set(self) -> st.Statement:
        self.need("SET")
        if self._ended():
            return st.Set()
        if self.token.kind == "word":
            self._wanted("a string")
            self.fail("", "Keys and values are strings: SET 'key' = 'value'.")
        key = self.string()
        self.need("=")
        return st.Set(key, self.string())

    def _reset(self) -> st.Statement:
        self.need("RESET")
        return st.Reset(None if self._ended() else self.string())

    def _load(self) -> st.Statement:
        self.need("LOAD", "MODULE")
        name = self.name()
        return st.LoadModule(name, self.with_options())

    def _unload(self) -> st.Statement:
        self.need("UNLOAD", "MODULE")
        return st.UnloadModule(self.name())

    # -- changes that streams do not have --------------------------------------------------------------------------

    def _truncate(self) -> st.Statement:
        self.need("TRUNCATE", "TABLE")
        return st.Truncate(self.path())

    def _delete(self) -> st.Statement:
        self.need("DELETE", "FROM")
        path = self.path()
        alias = self._target_alias()
        return st.Delete(path, self.sql_expression() if self.take("WHERE") else None, alias)

    def _target_alias(self) -> str | None:
        if self.take("AS"):
            return self.name()
        return self.take_name()

    def _update(self) -> st.Statement:
        self.need("UPDATE")
        path = self.path()
        alias = self._target_alias()
        self.need("SET")
        assignments = tuple(self.comma_list(self._assignment))
        return st.Update(path, assignments, self.sql_expression() if self.take("WHERE") else None, alias)

    def _assignment(self) -> tuple[str, st.SqlExpression]:
        name = self.name()
        self.need("=")
        return name, self.sql_expression()

    def _call(self) -> st.Statement:
        self.need("CALL")
        start = self.at
        path = self.path()
        if not self.next_is("("):
            self.fail()
        node = self.call(path, start)
        self.check_depth(node)
        return st.Call(st.SqlExpression(node, self.span(start).text))


_LISTS = (
    "CATALOGS",
    "DATABASES",
    "TABLES",
    "VIEWS",
    "FUNCTIONS",
    "COLUMNS",
    "PARTITIONS",
    "PROCEDURES",
    "MODULES",
    "JARS",
    "JOBS",
    "MODELS",
    "CONNECTIONS",
)

_STATEMENTS: Final[Mapping[str, Callable[[Parser], st.Statement]]] = {
    "INSERT": Parser._insert,
    "EXECUTE": Parser._execute,
    "EXPLAIN": Parser._explain,
    "CREATE": Parser.create,
    "REPLACE": Parser.replace_table,
    "DROP": Parser.drop,
    "ALTER": Parser.alter,
    "DESCRIBE": Parser._describe,
    "DESC": Parser._describe,
    "SHOW": Parser._show,
    "USE": Parser._use,
    "SET": Parser._set,
    "RESET": Parser._reset,
    "LOAD": Parser._load,
    "UNLOAD": Parser._unload,
    "TRUNCATE": Parser._truncate,
    "DELETE": Parser._delete,
    "UPDATE": Parser._update,
    "CALL": Parser._call,
}
