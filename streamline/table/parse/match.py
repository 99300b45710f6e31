"""MATCH_RECOGNIZE."""

from __future__ import annotations

import sqlglot.expressions as exp

from streamline.table.parse.expressions import ExpressionParser
from streamline.table.parse.pattern import (
    AfterMatch,
    Alternation,
    Concatenation,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Subset,
    Variable,
)

__all__ = ("MatchParser",)

#: Repetitions beyond this are refused: the automaton has a state for each.
_MAX_REPEAT = 10_000


class MatchParser(ExpressionParser):
    """Reads the brackets of MATCH_RECOGNIZE."""

    def match_recognize(self, table: exp.Expression, start: int) -> exp.Expression:
        """`MATCH_RECOGNIZE (…)`, without the alias."""
        self.need("MATCH_RECOGNIZE", "(")
        partition: list[exp.Expression] = []
        if self.take("PARTITION"):
            self.need("BY")
            partition = self.comma_list(self.expression)
        order = self.order_by() if self.next_are("ORDER", "BY") else None
        measures = self.comma_list(self._measure) if self.take("MEASURES") else []
        rows = self._rows_per_match()
        after = self._after_match()
        self.need("PATTERN", "(")
        strict_start = self.take("^")
        pattern = self._alternation()
        strict_end = self.take("$")
        self.need(")")
        within = None
        if self.take("WITHIN"):
            if not self.next_is("INTERVAL"):
                self.fail()
            within = self._interval()
        subset = tuple(self.comma_list(self._subset)) if self.take("SUBSET") else ()
        self.need("DEFINE")
        define = self.comma_list(self._definition)
        self.need(")")
        node = exp.MatchRecognize(
            this=table,
            partition_by=partition,
            order=order,
            measures=measures,
            rows=rows,
            after=after,
            pattern=pattern,
            strict_start=strict_start,
            strict_end=strict_end,
            within=within,
            subset=subset,
            define=define,
        )
        return self.mark(node, start)

    def _measure(self) -> exp.Expression:
        start = self.at
        value = self.expression()
        self.need("AS")
        return self.mark(exp.Alias(this=value, alias=self.read_identifier()), start)

    def _definition(self) -> exp.Expression:
        start = self.at
        name = self.read_identifier()
        self.need("AS")
        return self.mark(exp.Alias(this=self.expression(), alias=name), start)

    def _subset(self) -> Subset:
        name = self.name()
        self.need("=")
        return Subset(name, tuple(self.in_parens(self.name)))

    def _rows_per_match(self) -> str | None:
        if self.take("ONE"):
            self.need("ROW", "PER", "MATCH")
            return "ONE ROW PER MATCH"
        if self.take("ALL"):
            self.need("ROWS", "PER", "MATCH")
            return "ALL ROWS PER MATCH"
        return None

    def _after_match(self) -> AfterMatch | None:
        if not self.take("AFTER"):
            return None
        self.need("MATCH", "SKIP")
        if self.take("PAST"):
            self.need("LAST", "ROW")
            return AfterMatch("PAST LAST ROW")
        self.need("TO")
        if self.take("NEXT"):
            self.need("ROW")
            return AfterMatch("TO NEXT ROW")
        # FIRST and LAST may be names of variables, too: SKIP TO LAST.
        if self.token.key in ("FIRST", "LAST") and self.ahead(1).kind in ("word", "quoted"):
            following = self.ahead(1)
            if following.key not in ("PATTERN",):
                kind = self.advance().key
                return AfterMatch("TO FIRST" if kind == "FIRST" else "TO LAST", self.name())
        return AfterMatch("TO LAST", self.name())

    # -- the pattern -----------------------------------------------------------------------------------------------

    def _alternation(self) -> Pattern:
        self.deeper()
        parts = [self._concatenation()]
        while self.take("|"):
            parts.append(self._concatenation())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def _concatenation(self) -> Pattern:
        parts = [self._factor()]
        while self.at_name() or self.token.key in ("(", "{", "PERMUTE"):
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _factor(self) -> Pattern:
        part = self._part()
        sign = self.take_one("*", "+", "?")
        if sign is not None:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        elif self.token.key == "{" and self.ahead(1).key != "-":
            least, most = self._repetition()
        else:
            return part
        return Quantified(part, least, most, greedy=not self.take("?"))

    def _repetition(self) -> tuple[int, int | None]:
        start = self.at
        self.need("{")
        most: int | None
        if self.take(","):
            least, most = 0, self.integer()
        else:
            least = most = self.integer()
            if self.take(","):
                most = self.integer() if self.token.kind == "number" else None
        self.need("}")
        if max(least, most or 0) > _MAX_REPEAT:
            self.refuse(start, f"A pattern repeats at most {_MAX_REPEAT} times.")
        if most is not None and most < least:
            self.refuse(start, f"A pattern repeats at least {least} and at most {most} times: that is never.")
        return least, most

    def _part(self) -> Pattern:
        if self.take("("):
            inner = self._alternation()
            self.need(")")
            return inner
        if self.take("{"):
            self.need("-")
            inner = self._alternation()
            self.need("-", "}")
            return Exclusion(inner)
        if self.take("PERMUTE"):
            return Permutation(tuple(self.in_parens(self._alternation)))
        return Variable(self.name())
