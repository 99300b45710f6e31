"""The pattern of MATCH_RECOGNIZE as a frozen tree, and how matching goes on after a match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = (
    "AfterMatch",
    "Alternation",
    "Concatenation",
    "Exclusion",
    "Pattern",
    "Permutation",
    "Quantified",
    "Subset",
    "Variable",
)


@dataclass(frozen=True, slots=True)
class Variable:
    """A row of the pattern; DEFINE says which rows it matches, every row where it does not say."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Concatenation:
    """One after the other, at least two; brackets in the text make a part that is itself a concatenation."""

    parts: tuple[Pattern, ...]

    def __str__(self) -> str:
        return " ".join(f"({p})" if isinstance(p, Concatenation | Alternation) else str(p) for p in self.parts)


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of the parts, the earlier ones preferred: `A | B`."""

    parts: tuple[Pattern, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class Quantified:
    """`part` from `least` to `most` times (None: any number); reluctant where not `greedy`."""

    part: Pattern
    least: int
    most: int | None
    greedy: bool = True

    def __str__(self) -> str:
        body = str(self.part) if isinstance(self.part, Variable) else f"({self.part})"
        most = "" if self.most is None else self.most
        signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        sign = signs.get((self.least, self.most)) or (
            f"{{{self.least}}}" if self.least == self.most else f"{{{self.least},{most}}}"
        )
        return body + sign + ("" if self.greedy else "?")


@dataclass(frozen=True, slots=True)
class Exclusion:
    """`{- A -}`: matched, but left out of ALL ROWS PER MATCH."""

    part: Pattern

    def __str__(self) -> str:
        return f"{{- {self.part} -}}"


@dataclass(frozen=True, slots=True)
class Permutation:
    """PERMUTE(A, B): in any order."""

    parts: tuple[Pattern, ...]

    def __str__(self) -> str:
        return f"PERMUTE({', '.join(map(str, self.parts))})"


Pattern: TypeAlias = Variable | Concatenation | Alternation | Quantified | Exclusion | Permutation


@dataclass(frozen=True, slots=True)
class AfterMatch:
    """AFTER MATCH SKIP …; SKIP TO A means the last row of A, as SKIP TO LAST A."""

    kind: Literal["PAST LAST ROW", "TO NEXT ROW", "TO FIRST", "TO LAST"]
    variable: str | None = None

    def __str__(self) -> str:
        return f"SKIP {self.kind}" + (f" {self.variable}" if self.variable else "")


@dataclass(frozen=True, slots=True)
class Subset:
    """SUBSET name = (variables)."""

    name: str
    variables: tuple[str, ...]
