"""Values that come into a table: Python's whole numbers have no bounds, SQL's have, and NOT NULL columns take no None.

A column of an integer type is read through a guard, an expression that fails where the value does not fit the type:
every operator behind it may rely on that. The guard costs about 10 ns a value. Where it makes no difference it is taken
off again: a comparison is right for any number, and arithmetic whose result fits the type is right too, so that the
guarded form is only evaluated where the result has to be wrapped.

A column that is NOT NULL is read without a look for None where None makes the operation fail, which is explained then
(`NotNull`); where it would go through in silence, a guard of its own looks for it. What is not read at all, as by
COUNT(x) or x IS NULL of such a column, is not looked at.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ("guard_of", "guarded", "present", "without_guards")

_GUARD: Final = re.compile(r"\((in_\d+) if -\d+ <= \(\1 := (.+?)\) <= \d+ else (\w+)\(\1\)\)")
_PRESENT: Final = re.compile(r"\((in_\d+) if \(\1 := (.+?)\) is not None else (\w+)\(\1\)\)")


def guarded(source: str, number: int, bits: int, read: str, nullable: bool) -> str:
    """Source of a whole number that fits so many bits.

    Args:
        source: reads the value; it is evaluated once.
        number: makes the name of a local of its own.
        read: name of the function that is called with a value that does not fit, and says so.
        nullable: whether it may be None.
    """
    name, low, high = f"in_{number}", -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if nullable:
        return f"({name} if ({name} := {source}) is None or {low} <= {name} <= {high} else {read}({name}))"
    return f"({name} if {low} <= ({name} := {source}) <= {high} else {read}({name}))"


def present(source: str, number: int, read: str) -> str:
    """Source of a value that is not None.

    Args:
        source: reads the value; it is evaluated once.
        number: makes the name of a local of its own.
        read: name of the function that is called with None, and says so.
    """
    name = f"in_{number}"
    return f"({name} if ({name} := {source}) is not None else {read}({name}))"


def without_guards(source: str) -> str:
    """The same without the guards of columns that are NOT NULL."""
    if " := " not in source:
        return source
    return _GUARD.sub(lambda m: m[2], _PRESENT.sub(lambda m: m[2], source))


def guard_of(source: str) -> str | None:
    """Name of the function that a guard calls with a value that does not fit; None where the source is no guard.

    It gives a value that fits back.
    """
    found = _GUARD.fullmatch(source)
    return None if found is None else found[3]
