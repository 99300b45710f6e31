"""Aggregates that gather values in one document: JSON_OBJECTAGG, JSON_ARRAYAGG and those of bitmaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from streamline._operators.aggregate import accumulators as acc
from streamline._operators.state_types import dict_of, list_of
from streamline.errors import TableException
from streamline.table.codegen.aggregate_codes import Code, Site, Slot
from streamline.table.codegen.state_types import state_type
from streamline.table.expr.functions.json import json_form
from streamline.table.expr.runtime import json

__all__ = ("DOCUMENTS",)


class _Json(Code):
    """What JSON aggregates have in common: how values are put into JSON, and which NULLs are left out."""

    skips_null = False
    default: str

    @property
    def absent(self) -> bool:
        """Whether NULLs are left out."""
        return bool(dict(self.call.options).get("on_null", self.default) == "ABSENT")

    def form(self, site: Site) -> str:
        """Source of the function that puts a value into JSON, or of None."""
        value = self.call.args[-1]
        if ("embedded", True) in self.call.options:
            return site.reader.compiler.cached(("json form", "embedded"), lambda: json.RawJson, "form")
        found = json_form(value.type, site.reader.compiler.context)
        if found is None:
            return "None"
        return site.reader.compiler.cached(("json form", value.type), lambda: found, "form")


class JsonArray(_Json):
    default = "ABSENT"

    def slots(self) -> tuple[Slot, ...]:
        return (Slot("[]", list_of(state_type(self.argument)), "list({})"),)

    def _unless_absent(self, site: Site) -> str | None:
        return f"{site.args[0]} is not None" if self.absent and self.argument.nullable else None

    def add(self, site: Site) -> None:
        with site.writer.guard(self._unless_absent(site)):
            site.writer.line(f"{site.slots[0]}.append({site.args[0]})")

    def retract(self, site: Site) -> None:
        w, slot, value = site.writer, site.slots[0], site.args[0]
        with w.guard(self._unless_absent(site)), w.block(f"if {value} in {slot}:"):
            w.line(f"{slot}.remove({value})")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        site.writer.line(f"{site.slots[0]} = {site.slots[0]} + {others[0]}")

    def result(self, site: Site) -> str:
        return site.call(_array_text, site.slots[0], self.form(site))


class JsonObject(_Json):
    default = "NULL"

    def slots(self) -> tuple[Slot, ...]:
        return (Slot("{}", dict_of(str, state_type(self.call.args[1].type)), "dict({})"),)

    def add(self, site: Site) -> None:
        site.writer.line(site.call(_put, site.slots[0], *site.args, str(self.absent)))

    def retract(self, site: Site) -> None:
        site.writer.line(f"{site.slots[0]}.pop({site.args[0]}, None)")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        with site.writer.block(f"for key_, value_ in {others[0]}.items():"):
            site.writer.line(site.call(_put, site.slots[0], "key_", "value_", "False"))

    def result(self, site: Site) -> str:
        return site.call(_object_text, site.slots[0], self.form(site))


def _put(members: dict[str, Any], key: str | None, value: Any, absent: bool) -> None:
    """Add a member.

    Raises:
        TableException: the key is NULL or there already.
    """
    if key is None:
        raise TableException("JSON_OBJECTAGG: a key is NULL, which JSON cannot have; leave it out by FILTER (WHERE …)")
    if key in members:
        raise TableException(f"JSON_OBJECTAGG: the key {key!r} is there twice; keys of a group have to differ")
    if value is not None or not absent:
        members[key] = value


def _array_text(values: Sequence[Any], form: Callable[[Any], Any] | None) -> str:
    return json.dumps(values if form is None else [None if v is None else form(v) for v in values])


def _object_text(members: dict[str, Any], form: Callable[[Any], Any] | None) -> str:
    return json.dumps(
        members if form is None else {k: None if v is None else form(v) for k, v in members.items()},
    )


class Bitmap(Code):
    """Counts each integer, and the bitmaps (integers, for BUILD), so that all can be taken back."""

    @property
    def _kind(self) -> str:
        return self.call.name.split("_")[1]

    @property
    def _counts_members(self) -> bool:
        return "CARDINALITY" in self.call.name

    def slots(self) -> tuple[Slot, ...]:
        return (Slot("{}", dict[int, int], "dict({})"), Slot("0", int))

    def _step(self, site: Site, function: Callable[..., Any], sign: str) -> None:
        w, (counts, number), value = site.writer, site.slots, site.args[0]
        if self._kind == "BUILD":
            w.line(site.call(function, counts, value))
        else:
            with w.block(f"for member_ in {value}:"):
                w.line(site.call(function, counts, "member_"))
        w.line(f"{number} {sign}= 1")

    def add(self, site: Site) -> None:
        self._step(site, acc.remember, "+")

    def retract(self, site: Site) -> None:
        self._step(site, acc.forget, "-")

    def merge(self, site: Site, others: Sequence[str]) -> None:
        site.writer.line(site.call(acc.merge_counts, site.slots[0], others[0]))
        site.writer.line(f"{site.slots[1]} += {others[1]}")

    def result(self, site: Site) -> str:
        function = {"AND": _in_all, "XOR": _in_odd}.get(self._kind, _in_any)
        found = site.call(function, *site.slots)
        return site.call(_cardinality, found) if self._counts_members else found


def _in_any(counts: dict[int, int], number: int) -> frozenset[int] | None:
    return frozenset(v for v, n in counts.items() if n > 0) if number else None


def _in_all(counts: dict[int, int], number: int) -> frozenset[int] | None:
    return frozenset(v for v, n in counts.items() if n == number) if number else None


def _in_odd(counts: dict[int, int], number: int) -> frozenset[int] | None:
    return frozenset(v for v, n in counts.items() if n % 2) if number else None


def _cardinality(bitmap: frozenset[int] | None) -> int | None:
    return None if bitmap is None else len(bitmap)


DOCUMENTS: Final[dict[str, type[Code]]] = {
    "JSON_ARRAYAGG": JsonArray,
    "JSON_OBJECTAGG": JsonObject,
    **{f"BITMAP_{n}_AGG": Bitmap for n in ("BUILD", "AND", "OR", "XOR")},
    **{f"BITMAP_{n}_CARDINALITY_AGG": Bitmap for n in ("BUILD", "AND", "OR", "XOR")},
}
