"""Built-in aggregates and those of the user: how their slots are updated, one class a kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Final

from streamline._core import types as t
from streamline._core.types import DataType
from streamline._operators.aggregate import accumulators as acc
from streamline._operators.state_types import dict_of, list_of
from streamline.errors import TableException
from streamline.table.codegen.rows import LoopReader
from streamline.table.codegen.state_types import state_type
from streamline.table.codegen.writer import Writer
from streamline.table.expr.coercion import integer_range
from streamline.table.expr.nodes import AggCall
from streamline.table.expr.runtime import numbers

__all__ = ("CODES", "Code", "Site", "Slot", "Udaf")


@dataclass(frozen=True, slots=True)
class Slot:
    """A value of a group's state.

    Attributes:
        initial: source of its value in a new group.
        type: Python type, for decoding.
        copy: source of an independent copy of the slot `{}`; empty for values that are never changed in place.
    """

    initial: str
    type: Any
    copy: str = ""


@dataclass(frozen=True, slots=True)
class Site:
    """Where an aggregate's code is written: the reader and writer of the loop, its slots, sources of its arguments.

    `guards`: what looks whether an argument fits its type, where nobody has; `summed`: those that are summed up too.
    """

    reader: LoopReader
    writer: Writer
    slots: Sequence[str]
    args: Sequence[str]
    guards: Mapping[str, str] = field(default_factory=dict)
    summed: Collection[str] = ()

    def call(self, function: Callable[..., Any], *arguments: str) -> str:
        return self.reader.compiler.call(function, *arguments)

    def constant(self, value: Any) -> str:
        return self.reader.compiler.constant(value)

    def look(self, value: str, test: str) -> None:
        """Look at an argument, if nobody has, where the test says that it does not fit its type."""
        if value in self.guards:
            with self.writer.block(test):
                self.writer.line(f"{self.guards[value]}({value})")


class Code:
    """Code of one aggregate call. `sparse`: a group may exist in which it has seen no value."""

    #: Results are sent again although they are the same.
    never_equal: ClassVar[bool] = False
    #: A NULL in an argument means that the row does not count.
    skips_null: ClassVar[bool] = True
    #: Sums of integers wrap on the way to an average.
    wraps: bool = True
    #: Looks by itself whether an argument fits its type, where one that does not would make a difference.
    looks: bool = False

    def __init__(self, call: AggCall, retracting: bool, sparse: bool) -> None:
        self.call = call
        self.retracting = retracting
        self.sparse = sparse

    @property
    def argument(self) -> DataType:
        return self.call.args[0].type

    def slots(self) -> tuple[Slot, ...]:
        raise NotImplementedError

    def first(self, site: Site) -> list[str] | None:
        """Sources of the slots after the first row of a group, where that is simpler than initial and `add`."""
        return None

    def add(self, site: Site) -> None:
        raise NotImplementedError

    def retract(self, site: Site) -> None:
        raise TableException(f"{self.call.name} cannot take back rows: its input has updates")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        """Add the slots of another group, whose rows came later, to these."""
        raise TableException(f"{self.call.name} cannot be merged, so it cannot be computed over session windows")

    def result(self, site: Site) -> str:
        """Source of the result; the name of a slot where the slot is the result."""
        return site.slots[0]


class Count(Code):
    looks = True  # the value of an argument does not matter

    def slots(self) -> tuple[Slot, ...]:
        return (Slot("0", int),)

    def first(self, site: Site) -> list[str] | None:
        return ["1"]

    def add(self, site: Site) -> None:
        site.writer.line(f"{site.slots[0]} += 1")

    def retract(self, site: Site) -> None:
        site.writer.line(f"{site.slots[0]} -= 1")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        site.writer.line(f"{site.slots[0]} += {others[0]}")


_WRAP: Final = {8: numbers.wrap8, 16: numbers.wrap16, 32: numbers.wrap32, 64: numbers.wrap64}


def _wrap(site: Site, total: str, type_: DataType, value: str = "") -> None:
    """Bring a sum of integers back into the range of its type, as the JVM does; `value` is what was added."""
    low, high = integer_range(type_.root)
    with site.writer.block(f"if not {low} <= {total} <= {high}:"):
        if value in site.guards:
            site.writer.line(f"{site.guards[value]}({value})")
        site.writer.line(f"{total} = {site.call(_WRAP[t.INTEGER_BITS[type_.root]], total)}")


class Sum(Code):
    """Sums wrap like the JVM's integers; sums of decimals are exact, NULL above 38 digits."""

    looks = True  # a sum is out of its bounds where an argument is

    @property
    def counted(self) -> bool:
        """Whether it has to know how many values there are, to become NULL again."""
        return self.retracting and self.sparse

    def slots(self) -> tuple[Slot, ...]:
        zero = {"DECIMAL": "ZERO", "FLOAT": "0.0", "DOUBLE": "0.0"}.get(self.call.type.root, "0")
        type_ = state_type(self.call.type.with_nullable(self.sparse and not self.counted))
        if self.counted:
            return (Slot(zero, type_), Slot("0", int))
        return (Slot("None" if self.sparse else zero, type_),)

    def first(self, site: Site) -> list[str] | None:
        return [site.args[0], "1"] if self.counted else [site.args[0]]

    def add(self, site: Site) -> None:
        w, total, value = site.writer, site.slots[0], site.args[0]
        if not self.sparse or self.counted:
            self._step(site, value, "+")
            if self.counted:
                w.line(f"{site.slots[1]} += 1")
            return
        with w.block(f"if {total} is None:"):
            w.line(f"{total} = {value}")
        with w.block("else:"):
            self._step(site, value, "+")

    def retract(self, site: Site) -> None:
        self._step(site, site.args[0], "-")
        if self.counted:
            site.writer.line(f"{site.slots[1]} -= 1")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        w, total = site.writer, site.slots[0]
        if not self.sparse or self.counted:
            self._step(site, others[0], "+")
            if self.counted:
                w.line(f"{site.slots[1]} += {others[1]}")
            return
        with w.block(f"if {total} is None:"):
            w.line(f"{total} = {others[0]}")
        with w.block(f"elif {others[0]} is not None:"):
            self._step(site, others[0], "+")

    def _step(self, site: Site, value: str, sign: str) -> None:
        w, total, type_ = site.writer, site.slots[0], self.call.type
        if type_.is_integer:
            w.line(f"{total} {sign}= {value}")
            _wrap(site, total, type_, value)
        elif type_.root == "DECIMAL":
            function = numbers.decimal_add if sign == "+" else numbers.decimal_subtract
            name = "decimal_add" if sign == "+" else "decimal_subtract"
            site.reader.namespace[name] = function
            w.line(f"{total} = {name}({total}, {value})")
        elif type_.root == "FLOAT":
            w.line(f"{total} = {site.call(numbers.float32, f'{total} {sign} {value}')}")
        else:
            w.line(f"{total} {sign}= {value}")

    def result(self, site: Site) -> str:
        total = site.slots[0]
        if self.call.type.root == "DECIMAL":
            limit = site.constant(numbers.decimal_limit(self.call.type.precision, self.call.type.scale))
            null = f"{site.slots[1]} == 0" if self.counted else f"{total} is None" if self.sparse else ""
            fits = f"{total} if -{limit} < {total} < {limit} else None"
            return f"(None if {null} else {fits})" if null else f"({fits})"
        return f"(None if {site.slots[1]} == 0 else {total})" if self.counted else total


class Sum0(Sum):
    """SUM0: 0 where there is no value."""

    def result(self, site: Site) -> str:
        zero = {"DECIMAL": "ZERO", "FLOAT": "0.0", "DOUBLE": "0.0"}.get(self.call.type.root, "0")
        return f"({super().result(site)} or {zero})"


class Average(Code):
    def slots(self) -> tuple[Slot, ...]:
        zero = {"DECIMAL": "ZERO", "FLOAT": "0.0", "DOUBLE": "0.0"}.get(self.argument.root, "0")
        return (
            Slot(zero, Decimal if self.argument.root == "DECIMAL" else state_type(self.argument.not_null())),
            Slot("0", int),
        )

    def first(self, site: Site) -> list[str] | None:
        return [site.args[0], "1"]

    def add(self, site: Site) -> None:
        self._step(site, "+")

    def retract(self, site: Site) -> None:
        self._step(site, "-")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        total = site.slots[0]
        if self.argument.root == "DECIMAL":
            site.reader.namespace["decimal_add"] = numbers.decimal_add
            site.writer.line(f"{total} = decimal_add({total}, {others[0]})")
        else:
            site.writer.line(f"{total} += {others[0]}")
            self._wrap(site)
        site.writer.line(f"{site.slots[1]} += {others[1]}")

    def _step(self, site: Site, sign: str) -> None:
        total, value = site.slots[0], site.args[0]
        if self.argument.root == "DECIMAL":
            name = "decimal_add" if sign == "+" else "decimal_subtract"
            site.reader.namespace[name] = numbers.decimal_add if sign == "+" else numbers.decimal_subtract
            site.writer.line(f"{total} = {name}({total}, {value})")
        else:
            site.writer.line(f"{total} {sign}= {value}")
            self._wrap(site)
        site.writer.line(f"{site.slots[1]} {sign}= 1")

    def _wrap(self, site: Site) -> None:
        if self.wraps and self.argument.is_integer:
            _wrap(site, site.slots[0], self.argument)

    def result(self, site: Site) -> str:
        total, count = site.slots
        type_ = self.call.type
        if type_.is_integer:
            value = site.call(numbers.int_divide, total, count)
        elif type_.root == "DECIMAL":
            unit = site.constant(numbers.decimal_unit(type_.scale))
            limit = site.constant(numbers.decimal_limit(type_.precision, type_.scale))
            site.reader.namespace["Decimal"] = Decimal
            value = site.call(numbers.decimal_divide, total, f"Decimal({count})", unit, limit)
        elif type_.root == "FLOAT":
            value = site.call(numbers.float32, f"{total} / {count}")
        else:
            value = f"{total} / {count}"
        return f"(None if {count} == 0 else {value})" if self.sparse else f"({value})"


class Extreme(Code):
    """MIN and MAX; over updates they count every value."""

    def __init__(self, call: AggCall, retracting: bool, sparse: bool) -> None:
        super().__init__(call, retracting, sparse)
        self.looks = not retracting

    @property
    def operator(self) -> str:
        return "<" if self.call.name == "MIN" else ">"

    def slots(self) -> tuple[Slot, ...]:
        best = Slot("None", state_type(self.call.type.null()))
        if self.retracting:
            return (best, Slot("{}", dict_of(state_type(self.argument.not_null()), int), "dict({})"))
        return (best,)

    def first(self, site: Site) -> list[str] | None:
        return None if self.retracting else [site.args[0]]

    def add(self, site: Site) -> None:
        w, best, value = site.writer, site.slots[0], site.args[0]
        if self.retracting:
            w.line(site.call(acc.remember, site.slots[1], value))
        null = f"{best} is None or " if self.sparse or self.retracting else ""
        low, high = integer_range(self.argument.root) if value in site.guards else (0, 0)
        far, near = (low, high) if self.call.name == "MIN" else (high, low)
        with w.block(f"if {null}{value} {self.operator} {best}:"):
            site.look(value, f"if {value} {self.operator} {far}:")
            w.line(f"{best} = {value}")
        if value not in site.summed:  # a sum is out of its bounds then, or none of the results is wrong
            site.look(value, f"elif not {value} {self.operator}= {near}:")

    def retract(self, site: Site) -> None:
        w, best, value = site.writer, site.slots[0], site.args[0]
        with w.block(f"if {site.call(acc.forget, site.slots[1], value)} and {value} == {best}:"):
            w.line(f"{best} = {site.call(acc.least if self.call.name == 'MIN' else acc.greatest, site.slots[1])}")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        w, best = site.writer, site.slots[0]
        if self.retracting:
            w.line(site.call(acc.merge_counts, site.slots[1], others[1]))
            w.line(f"{best} = {site.call(acc.least if self.call.name == 'MIN' else acc.greatest, site.slots[1])}")
            return
        test = f"{others[0]} {self.operator} {best}"
        if self.sparse:
            test = f"{others[0]} is not None and ({best} is None or {test})"
        with w.block(f"if {test}:"):
            w.line(f"{best} = {others[0]}")


class FirstLast(Code):
    """FIRST_VALUE and LAST_VALUE of the values that are not NULL, by arrival."""

    def slots(self) -> tuple[Slot, ...]:
        if self.retracting:
            return (Slot("[]", list_of(state_type(self.argument)), "list({})"),)
        return (Slot("None", state_type(self.call.type.null())),)

    def first(self, site: Site) -> list[str] | None:
        return None if self.retracting else [site.args[0]]

    def add(self, site: Site) -> None:
        w, slot, value = site.writer, site.slots[0], site.args[0]
        if self.retracting:
            w.line(f"{slot}.append({value})")
        elif self.call.name == "LAST_VALUE":
            w.line(f"{slot} = {value}")
        elif self.sparse:
            with w.block(f"if {slot} is None:"):
                w.line(f"{slot} = {value}")

    def retract(self, site: Site) -> None:
        with site.writer.block(f"if {site.args[0]} in {site.slots[0]}:"):
            site.writer.line(f"{site.slots[0]}.remove({site.args[0]})")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        w, slot = site.writer, site.slots[0]
        if self.retracting:
            w.line(f"{slot} = {slot} + {others[0]}")
        elif self.call.name == "LAST_VALUE":
            w.line(f"{slot} = {slot} if {others[0]} is None else {others[0]}")
        else:
            w.line(f"{slot} = {others[0]} if {slot} is None else {slot}")

    def result(self, site: Site) -> str:
        if not self.retracting:
            return site.slots[0]
        return site.call(acc.first_of if self.call.name == "FIRST_VALUE" else acc.last_of, site.slots[0])


class ListAgg(Code):
    @property
    def separator(self) -> str:
        return str(dict(self.call.options).get("separator", ","))

    def slots(self) -> tuple[Slot, ...]:
        if self.retracting:
            return (Slot("[]", list[str], "list({})"), Slot("[]", list[str], "list({})"))
        return (Slot("None", state_type(t.STRING)),)

    def first(self, site: Site) -> list[str] | None:
        return None if self.retracting else [site.args[0]]

    def add(self, site: Site) -> None:
        w, slot, value = site.writer, site.slots[0], site.args[0]
        if self.retracting:
            w.line(site.call(acc.put, slot, site.slots[1], value))
            return
        joined = f"{slot} + {self.separator!r} + {value}"
        w.line(f"{slot} = {value} if {slot} is None else {joined}" if self.sparse else f"{slot} = {joined}")

    def retract(self, site: Site) -> None:
        site.writer.line(site.call(acc.take_first, site.slots[0], site.slots[1], site.args[0]))

    def merge(self, site: Site, others: Sequence[str]) -> None:
        w, slot = site.writer, site.slots[0]
        if self.retracting:
            w.line(f"{slot} = {slot} + {others[0]}")
            w.line(f"{site.slots[1]} = {site.slots[1]} + {others[1]}")
            return
        with w.block(f"if {slot} is None:"):
            w.line(f"{slot} = {others[0]}")
        with w.block(f"elif {others[0]} is not None:"):
            w.line(f"{slot} = {slot} + {self.separator!r} + {others[0]}")

    def result(self, site: Site) -> str:
        if not self.retracting:
            return site.slots[0]
        return site.call(acc.join_text, site.slots[0], repr(self.separator))


class Collect(Code):
    """COLLECT: a MULTISET of the values that are not NULL."""

    def slots(self) -> tuple[Slot, ...]:
        return (Slot("{}", dict_of(state_type(self.argument.not_null()), int), "dict({})"),)

    def add(self, site: Site) -> None:
        site.writer.line(site.call(acc.remember, site.slots[0], site.args[0]))

    def retract(self, site: Site) -> None:
        site.writer.line(site.call(acc.forget, site.slots[0], site.args[0]))

    def merge(self, site: Site, others: Sequence[str]) -> None:
        site.writer.line(site.call(acc.merge_counts, site.slots[0], others[0]))

    def result(self, site: Site) -> str:
        return f"dict({site.slots[0]})"


class ArrayAgg(Code):
    never_equal = True
    skips_null = False

    def slots(self) -> tuple[Slot, ...]:
        type_ = list_of(state_type(self.argument))
        if self.retracting:
            return (Slot("[]", type_, "list({})"), Slot("[]", type_, "list({})"))
        return (Slot("[]", type_, "list({})"),)

    @property
    def ignores_null(self) -> bool:
        return dict(self.call.options).get("nulls") == "IGNORE"

    def add(self, site: Site) -> None:
        w, value = site.writer, site.args[0]
        with w.guard(f"{value} is not None" if self.ignores_null and self.argument.nullable else None):
            if self.retracting:
                w.line(site.call(acc.put, *site.slots, value))
            else:
                w.line(f"{site.slots[0]}.append({value})")

    def retract(self, site: Site) -> None:
        w, value = site.writer, site.args[0]
        with w.guard(f"{value} is not None" if self.ignores_null and self.argument.nullable else None):
            w.line(site.call(acc.take_first, *site.slots, value))

    def merge(self, site: Site, others: Sequence[str]) -> None:
        for mine, other in zip(site.slots, others):
            site.writer.line(f"{mine} = {mine} + {other}")

    def result(self, site: Site) -> str:
        return f"(list({site.slots[0]}) or None)"


class Variance(Code):
    def slots(self) -> tuple[Slot, ...]:
        return (Slot("[0, 0.0, 0.0]", list[Any], "list({})"),)

    def add(self, site: Site) -> None:
        site.writer.line(site.call(acc.welford_add, site.slots[0], site.args[0]))

    def retract(self, site: Site) -> None:
        site.writer.line(site.call(acc.welford_remove, site.slots[0], site.args[0]))

    def merge(self, site: Site, others: Sequence[str]) -> None:
        site.writer.line(f"{site.slots[0]} = {site.call(acc.welford_merge, site.slots[0], others[0])}")

    def result(self, site: Site) -> str:
        name = self.call.name
        value = site.call(acc.variance, site.slots[0], str(name in _SAMPLES), str(name.startswith("STDDEV")))
        if self.call.type.is_integer:
            return site.call(acc.truncate_to_int, value, str(t.INTEGER_BITS[self.call.type.root]))
        if self.call.type.root == "DECIMAL":
            return site.call(acc.to_decimal, value, str(self.call.type.scale))
        return value


_SAMPLES: Final = ("STDDEV_SAMP", "VAR_SAMP", "STDDEV", "VARIANCE")


class SingleValue(Code):
    skips_null = False

    def slots(self) -> tuple[Slot, ...]:
        return (Slot("0", int), Slot("None", state_type(self.call.type.null())))

    def first(self, site: Site) -> list[str] | None:
        return ["1", site.args[0]]

    def add(self, site: Site) -> None:
        site.writer.line(f"{site.slots[0]} += 1")
        site.writer.line(f"{site.slots[1]} = {site.args[0]}")

    def retract(self, site: Site) -> None:
        site.writer.line(f"{site.slots[0]} -= 1")
        with site.writer.block(f"if {site.slots[0]} == 0:"):
            site.writer.line(f"{site.slots[1]} = None")

    def result(self, site: Site) -> str:
        return site.call(acc.single_value, *site.slots)


class Percentile(Code):
    @property
    def weighted(self) -> bool:
        return len(self.call.args) > 2

    def slots(self) -> tuple[Slot, ...]:
        return (
            Slot("{}", dict_of(state_type(self.argument.not_null()), int), "dict({})"),
            Slot("None", Any),
        )

    def _step(self, site: Site, sign: str) -> None:
        weight = site.args[2] if self.weighted else "1"
        site.writer.line(site.call(acc.weigh, site.slots[0], site.args[0], f"{sign}{weight}"))
        site.writer.line(f"{site.slots[1]} = {site.args[1]}")

    def add(self, site: Site) -> None:
        self._step(site, "")

    def retract(self, site: Site) -> None:
        self._step(site, "-")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        site.writer.line(site.call(acc.merge_counts, site.slots[0], others[0]))
        site.writer.line(f"{site.slots[1]} = {others[1]}")

    def result(self, site: Site) -> str:
        return site.call(acc.percentile, *site.slots)


class Udaf(Code):
    """A user's AggregateFunction: create_accumulator, accumulate, retract, get_value."""

    skips_null = False

    def __init__(self, call: AggCall, retracting: bool, sparse: bool) -> None:
        super().__init__(call, retracting, sparse)
        if retracting and not callable(getattr(call.udaf, "retract", None)):
            raise TableException(
                f"{call.name} has no retract(accumulator, ...), but its input has updates: define it, or aggregate an "
                "insert-only table"
            )

    def _function(self, site: Site) -> str:
        return site.reader.compiler.cached(("udaf", id(self.call.udaf)), lambda: self.call.udaf, "udaf")

    def slots(self) -> tuple[Slot, ...]:
        return (Slot("UDAF", Any, "deepcopy({})"),)

    def add(self, site: Site) -> None:
        arguments = ", ".join((site.slots[0], *site.args))
        site.writer.line(f"{self._function(site)}.accumulate({arguments})")

    def retract(self, site: Site) -> None:
        arguments = ", ".join((site.slots[0], *site.args))
        site.writer.line(f"{self._function(site)}.retract({arguments})")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        if not callable(getattr(self.call.udaf, "merge", None)):
            raise TableException(
                f"{self.call.name} has no merge(accumulator, accumulators): define it, session windows need it"
            )
        site.writer.line(f"{self._function(site)}.merge({site.slots[0]}, [{others[0]}])")

    def result(self, site: Site) -> str:
        return f"{self._function(site)}.get_value({site.slots[0]})"


CODES: Final[dict[str, type[Code]]] = {
    "COUNT": Count,
    "SUM": Sum,
    "SUM0": Sum0,
    "AVG": Average,
    "MIN": Extreme,
    "MAX": Extreme,
    "FIRST_VALUE": FirstLast,
    "LAST_VALUE": FirstLast,
    "LISTAGG": ListAgg,
    "STRING_AGG": ListAgg,
    "COLLECT": Collect,
    "ARRAY_AGG": ArrayAgg,
    "SINGLE_VALUE": SingleValue,
    "PERCENTILE": Percentile,
    **dict.fromkeys(("STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP", "VARIANCE"), Variance),
}
