"""The updates of aggregates as statements over locals.

Each aggregate has slots: locals that a loop unpacks from a group's state, updates and packs again. The simple ones are
numbers; where a slot is a list or dictionary it is changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from streamline._core.types import DataType
from streamline._operators.aggregate import accumulators as acc
from streamline._operators.state_types import dict_of, tuple_of
from streamline.errors import TableException
from streamline.table.codegen.aggregate_codes import CODES, Code, Site, Slot, Sum, Udaf
from streamline.table.codegen.aggregate_documents import DOCUMENTS
from streamline.table.codegen.rows import LoopReader
from streamline.table.codegen.state_types import state_type
from streamline.table.codegen.writer import Writer
from streamline.table.expr.coercion import integer_range
from streamline.table.expr.entry import guard_of, without_guards
from streamline.table.expr.nodes import AggCall, Expr, Literal

__all__ = ("Aggregates", "Slot", "key_source", "needs_key_function")


_CODES: Final[dict[str, type[Code]]] = {**CODES, **DOCUMENTS}


class Distinct:
    """Counts the values of a DISTINCT aggregate, so that each reaches it once."""

    def __init__(self, args: Sequence[Expr]) -> None:
        self.args = args

    def slot(self) -> Slot:
        types = [state_type(a.type) for a in self.args]
        key = (
            Any
            if any(needs_key_function(a.type) for a in self.args)
            else (types[0] if len(types) == 1 else tuple_of(*types))
        )
        return Slot("{}", dict_of(key, int), "dict({})")

    def key(self, reader: LoopReader, args: Sequence[str]) -> str:
        parts = [key_source(reader, a.type, s) for a, s in zip(self.args, args)]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def values(self, call: AggCall, key: str) -> list[str] | None:
        """Sources of the arguments that a key stands for; None where it does not tell."""
        if call.name == "COUNT":
            return [key] * len(self.args)
        if len(call.args) != 1 or (needs_key_function(call.args[0].type) and not call.args[0].type.is_approximate):
            return None
        type_ = call.args[0].type
        if not type_.is_approximate:
            return [key]
        return [f"(None if {key} is None else float({key}))" if type_.nullable else f"float({key})"]


def needs_key_function(type_: DataType) -> bool:
    """Whether values of the type cannot be keys of a dictionary as they are."""
    return type_.is_approximate or type_.root in ("ARRAY", "MAP", "MULTISET", "ROW", "STRUCTURED", "RAW", "VARIANT")


def key_source(reader: LoopReader, type_: DataType, source: str) -> str:
    """Source of what stands for a value in a key: equal exactly where SQL groups values together."""
    if type_.is_approximate:
        call = reader.compiler.call(acc.float_key, source)
        return f"(None if {source} is None else {call})" if type_.nullable else call
    if needs_key_function(type_):
        return reader.compiler.call(acc.hashable, source)
    return source


class Aggregates:
    """The aggregates of one operator: their slots as locals `a0`, `a1`, …, and the code of their updates.

    Args:
        calls: over the columns that the reader sees.
        reader: of the loop.
        retracting: rows may be taken back.
        sparse: a group may exist that has seen no row (sliced windows); then nothing is assumed about a first row.
        wraps: averages of integers are quotients of sums of the argument's type, which wrap. So it is where groups
            are made, but not over rows of an OVER window or a match.
    """

    def __init__(
        self,
        calls: Sequence[AggCall],
        reader: LoopReader,
        retracting: bool,
        sparse: bool = False,
        wraps: bool = True,
    ) -> None:
        self._reader = reader
        self._calls = tuple(calls)
        self._codes: list[Code] = []
        self._distinct: list[Distinct | None] = []
        self._names: list[list[str]] = []
        self._slots: list[Slot] = []
        for call in calls:
            skips = any(a.type.nullable for a in call.args)
            code = Udaf if call.udaf is not None else _CODES.get(call.name)
            if code is None:
                raise TableException(f"aggregate function {call.name} is not supported here")
            # What only rises needs no retraction: a smaller value never was the maximum.
            monotonic = ("monotonic", True) in call.options
            made = code(call, retracting and not monotonic, sparse or skips or call.filter is not None)
            made.wraps = wraps and not call.distinct and call.filter is None
            distinct = Distinct(call.args[:1] if call.name in _FIRST_ONLY else call.args) if call.distinct else None
            slots = [*made.slots(), *([distinct.slot()] if distinct else [])]
            self._names.append([f"a{len(self._slots) + i}" for i in range(len(slots))])
            self._slots.extend(slots)
            self._codes.append(made)
            self._distinct.append(distinct)
        self._arguments: dict[Expr, str] = {}
        #: Arguments that were not looked at yet, and what looks at them.
        self._guards: dict[str, str] = {}
        #: Those of them that are summed up.
        self._summed: set[str] = set()
        self.retracting = retracting

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(self._slots)

    @property
    def names(self) -> list[str]:
        """Locals of all slots."""
        return [n for names in self._names for n in names]

    @property
    def never_equal(self) -> bool:
        """Whether results are sent again although they are the same."""
        return any(c.never_equal for c in self._codes)

    def counts_every_row(self) -> str | None:
        """The local of a COUNT(*) over all rows, None where there is none."""
        for call, names in zip(self._calls, self._names):
            if (
                call.name == "COUNT"
                and not call.distinct
                and call.filter is None
                and not any(a.type.nullable for a in call.args)
            ):
                return names[0]
        return None

    # -- writing -------------------------------------------------------------------------------------------------

    def bind_arguments(self, w: Writer) -> None:
        """Arguments and filters become locals; written once a row, before `add`, `first` and `retract`."""
        for call in self._calls:
            for expr in (*call.args, *([call.filter] if call.filter is not None else [])):
                if expr not in self._arguments:
                    if isinstance(expr, Literal):
                        self._arguments[expr] = self._reader.value(expr)
                    elif expr is call.filter:
                        name = w.fresh("f")
                        w.line(f"{name} = {self._reader.test(expr)}")
                        self._arguments[expr] = name
                    else:
                        self._arguments[expr] = self._named(w, expr)

    def _named(self, w: Writer, expr: Expr) -> str:
        """A local for an argument. Where all that use it look at it by themselves, it is not looked at for each row."""
        source = self._reader.value(expr)
        guard = guard_of(source)
        users = [(c, d) for c, d in zip(self._codes, self._distinct) if expr in c.call.args or expr is c.call.filter]
        if guard is None or not all(c.looks and not c.sparse and d is None for c, d in users):
            return w.named(source)
        name = w.named(without_guards(source))
        self._guards[name] = guard
        if any(isinstance(c, Sum) for c, _ in users):
            self._summed.add(name)
        return name

    def rebind(self, w: Writer) -> None:
        """`bind_arguments` for another row: where it is written more than once."""
        self._arguments.clear()
        self.bind_arguments(w)

    def initial(self, w: Writer) -> None:
        """The slots of a new group."""
        for slots, names, code in zip(self._grouped(), self._names, self._codes):
            for slot, name in zip(slots, names):
                w.line(f"{name} = {self._initial(slot, code, w)}")

    def initial_sources(self) -> list[str]:
        """Sources of the slots of a new group."""
        w = Writer()
        return [self._initial(slot, code, w) for slots, code in zip(self._grouped(), self._codes) for slot in slots]

    def _initial(self, slot: Slot, code: Code, w: Writer) -> str:
        if slot.initial == "ZERO":
            return self._reader.compiler.constant(Decimal(1).scaleb(-_scale(code)) * 0)
        if slot.initial == "UDAF":
            return f"{Udaf._function(code, self._site(code, w, []))}.create_accumulator()"  # type: ignore[arg-type]
        return slot.initial

    def _grouped(self) -> list[list[Slot]]:
        result, start = [], 0
        for names in self._names:
            result.append(self._slots[start : start + len(names)])
            start += len(names)
        return result

    def first(self, w: Writer) -> None:
        """The slots after the first row of a group."""
        for expr, name in self._arguments.items():
            if name in self._guards:  # added to another number None fails by itself
                low, high = integer_range(expr.type.root)
                with w.block(f"if {name} is None or not {low} <= {name} <= {high}:"):
                    w.line(f"{self._guards[name]}({name})")
        for i, code in enumerate(self._codes):
            plain = not code.sparse and self._distinct[i] is None
            site = self._site(code, w, self._names[i])
            sources = code.first(site) if plain else None
            if sources is None:
                for slot, name in zip(self._grouped()[i], self._names[i]):
                    w.line(f"{name} = {self._initial(slot, code, w)}")
                self._update(w, i, retract=False)
            else:
                for name, source in zip(self._names[i], sources):
                    w.line(f"{name} = {source}")

    def add(self, w: Writer) -> None:
        """A row comes to a group."""
        for i in range(len(self._codes)):
            self._update(w, i, retract=False)

    def retract(self, w: Writer) -> None:
        """A row is taken back from a group."""
        for i, call in enumerate(self._calls):
            if ("monotonic", True) in call.options:
                continue
            self._update(w, i, retract=True)

    def merge(self, w: Writer, others: Sequence[str]) -> None:
        """Another group, whose slots are `others`, is added to this one."""
        start = 0
        for i, code in enumerate(self._codes):
            names = self._names[i]
            theirs = others[start : start + len(names)]
            start += len(names)
            if self._distinct[i] is not None:
                self._merge_distinct(w, i, theirs[-1])
                continue
            code.merge(self._site(code, w, names), theirs)

    def _merge_distinct(self, w: Writer, i: int, theirs: str) -> None:
        """Each value of the other group that this one has not seen is added."""
        code, distinct, mine = self._codes[i], self._distinct[i], self._names[i][-1]
        key, count, had = w.fresh("k"), w.fresh("n"), w.fresh("n")
        values = distinct.values(code.call, key) if distinct is not None else None
        if values is None:
            raise TableException(
                f"{code.call.name}(DISTINCT ...) of this type cannot be merged, so it cannot be computed over session "
                "windows"
            )
        site = Site(self._reader, w, self._own(i), values)
        with w.block(f"for {key}, {count} in {theirs}.items():"):
            w.line(f"{had} = {mine}.get({key}, 0)")
            w.line(f"{mine}[{key}] = {had} + {count}")
            with w.block(f"if {had} <= 0 < {had} + {count}:"):
                code.add(site)
            if self.retracting:
                with w.block(f"elif {had} > 0 >= {had} + {count}:"):
                    code.retract(site)

    def _own(self, i: int) -> list[str]:
        """The slots of an aggregate without that of DISTINCT."""
        return self._names[i] if self._distinct[i] is None else self._names[i][:-1]

    def results(self) -> list[str]:
        """Sources of the results."""
        w = Writer()
        return [c.result(self._site(c, w, self._own(i))) for i, c in enumerate(self._codes)]

    def _site(self, code: Code, w: Writer, names: Sequence[str]) -> Site:
        args = [self._arguments.get(a, "") for a in code.call.args]
        return Site(self._reader, w, names, args, self._guards, self._summed)

    def _update(self, w: Writer, i: int, retract: bool) -> None:
        code, distinct, names = self._codes[i], self._distinct[i], self._names[i]
        site = self._site(code, w, self._own(i))
        tests = []
        if code.call.filter is not None:
            tests.append(self._arguments[code.call.filter])
        if code.skips_null or distinct is not None:
            tests += [
                f"{s} is not None"
                for a, s in zip(code.call.args, site.args)
                if a.type.nullable and (code.skips_null or code.call.name == "COUNT")
            ]
        if "None is not None" in tests:
            return
        with w.guard(" and ".join(tests) or None):
            if distinct is None:
                code.retract(site) if retract else code.add(site)
                return
            key = distinct.key(self._reader, site.args)
            counted = site.call(acc.forget if retract else acc.remember, names[-1], key)
            if self.retracting:
                with w.block(f"if {counted}:"):
                    code.retract(site) if retract else code.add(site)
            else:
                name = w.named(key, "d")
                with w.block(f"if {name} not in {names[-1]}:"):
                    w.line(f"{names[-1]}[{name}] = 1")
                    code.add(site)


_FIRST_ONLY: Final = ("LISTAGG", "STRING_AGG", "PERCENTILE")


def _scale(code: Code) -> int:
    return code.call.type.scale if code.call.name == "SUM" else code.argument.scale
