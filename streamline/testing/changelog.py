"""Changelogs, and everything else that a channel carries, as text that people read.

    +I a 1 | +I b 2 | ~ 10 | # 1 | -U a 1, +U a 5 | ~ 20 | idle | end

`+I -U +U -D` begin a change (`+I` may be left out), `~` is a watermark (`~ max` the last one), `#` a barrier, `idle`,
`active` and `end` are themselves. `|` or a line end separates elements, a comma the changes of one batch, `@ 12` gives
a change its event time, `//` starts a comment. Values are integers, decimals with a point, `null`, `true`, `false` and
words; other text stands in quotes.
"""

from __future__ import annotations

import dataclasses
import datetime as _dt
import difflib
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from streamline._core.changes import Change, Row, RowKind
from streamline._core.elements import (
    MAX_TIMESTAMP,
    Barrier,
    Batch,
    Element,
    EndOfInput,
    Watermark,
    WatermarkStatus,
)
from streamline.errors import ValidationException

__all__ = ("assert_changelog", "changelog", "changelog_text", "fold", "fold_by_key")

Order: TypeAlias = Literal["exact", "multiset", "by-key"]

_TOKEN: Final = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|//.*|[|,@]|[^\s|,@'"]+)\s*""", re.DOTALL)
_INT: Final = re.compile(r"[-+]?\d+")
_FLOAT: Final = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+(\.\d*)?e[-+]?\d+|inf|nan)", re.IGNORECASE)
_CONSTANTS: Final[Mapping[str, Any]] = {"null": None, "true": True, "false": False}
_KINDS: Final = frozenset(k.short_string for k in RowKind)


# -- reading -------------------------------------------------------------------------------------------------------


def changelog(text: str, make: Callable[..., Any] | None = None) -> list[Element]:
    """The elements that a text stands for.

    Args:
        text: as the module describes.
        make: makes a record of the values of a change; by default several values are a tuple and one is itself.

    Raises:
        ValidationException: the text is no changelog; the message shows the place.
    """
    elements: list[Element] = []
    for part in _parts(text):
        first = part[0]
        if first == "~":
            elements.append(Watermark(_number(part, 1, "a watermark")))
        elif first == "#":
            elements.append(Barrier(_number(part, 1, "a barrier"), 0))
        elif first in ("idle", "active") and len(part) == 1:
            elements.append(WatermarkStatus(first == "idle"))
        elif first == "end" and len(part) == 1:
            elements.append(EndOfInput())
        else:
            elements.append(_batch(part, make or _plain))
    return elements


def _parts(text: str) -> Iterable[list[str]]:
    for line in text.split("\n"):
        line = line.strip()
        part: list[str] = []
        position = 0
        while position < len(line):
            match = _TOKEN.match(line, position)
            if match is None:
                raise ValidationException(f"not a changelog from here on: {line[position:]!r}")
            token, position = match[1], match.end()
            if token == "|":
                if part:
                    yield part
                part = []
            elif len(token) > 1 and token[0] in "~#":
                part += [token[0], token[1:]]
            elif not token.startswith("//"):
                part.append(token)
        if part:
            yield part


def _number(part: Sequence[str], at: int, what: str) -> int:
    if len(part) == at + 1:
        if part[at] == "max":
            return MAX_TIMESTAMP
        if _INT.fullmatch(part[at]):
            return int(part[at])
    raise ValidationException(f"{what} takes one whole number: {' '.join(part)!r}")


def _batch(part: Sequence[str], make: Callable[..., Any]) -> Batch:
    values: list[Any] = []
    timestamps: list[int | None] = []
    kinds: list[RowKind] = []
    for tokens in _split(part, ","):
        kind = RowKind.INSERT
        if tokens and tokens[0] in _KINDS:
            kind, tokens = RowKind.from_short_string(tokens[0]), tokens[1:]
        timestamp = None
        if "@" in tokens:
            at = tokens.index("@")
            timestamp, tokens = _number(tokens[at:], 1, "an event time"), tokens[:at]
        if not tokens:
            raise ValidationException(f"a change without values: {' '.join(part)!r}")
        values.append(make(*map(_value, tokens)))
        timestamps.append(timestamp)
        kinds.append(kind)
    return Batch(
        values,
        None if timestamps.count(None) == len(timestamps) else timestamps,
        None if all(k is RowKind.INSERT for k in kinds) else kinds,
    )


def _split(tokens: Sequence[str], separator: str) -> Iterable[list[str]]:
    part: list[str] = []
    for token in tokens:
        if token == separator:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _plain(*values: Any) -> Any:
    return values[0] if len(values) == 1 else values


def _value(token: str) -> Any:
    if token[0] in "'\"":
        return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], token[1:-1])
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    if _INT.fullmatch(token):
        return int(token)
    if _FLOAT.fullmatch(token):
        return float(token)
    return token


# -- writing -------------------------------------------------------------------------------------------------------


def changelog_text(elements: Iterable[Any], *, timestamps: bool = False) -> str:
    """Elements on one line. How changes were cut into batches is not shown, for it means nothing.

    Args:
        elements: what `changelog` gives, or rows, changes, (kind, record) pairs and records as a job gives them.
        timestamps: show the event time of every change that has one.
    """
    text = ""
    before = ""
    for atom in _atoms(elements, timestamps):
        pair = before.startswith("-U") and atom.startswith("+U")
        text += ("" if not text else ", " if pair else " | ") + atom
        before = atom
    return text


def _atoms(elements: Iterable[Any], timestamps: bool) -> list[str]:
    """Each change and each control element as text."""
    atoms: list[str] = []
    for element in elements:
        match element:
            case Batch():
                times = element.timestamps
                for i, value in enumerate(element.values):
                    kind = RowKind.INSERT if element.kinds is None else element.kinds[i]
                    atoms.append(_change(kind, value, times[i] if times is not None and timestamps else None))
            case Watermark(timestamp):
                atoms.append("~ max" if timestamp == MAX_TIMESTAMP else f"~ {timestamp}")
            case WatermarkStatus(idle):
                atoms.append("idle" if idle else "active")
            case Barrier():
                atoms.append(f"# {element.checkpoint_id}")
            case EndOfInput():
                atoms.append("end")
            case _:
                kind, record = _kind_and_record(element)
                atoms.append(_change(kind, record, None))
    return atoms


def _kind_and_record(element: Any) -> tuple[RowKind, Any]:
    match element:
        case Row():
            return element.kind, element
        case Change():
            return element.kind, element.value
        case (RowKind() as kind, record):
            return kind, record
        case _:
            return RowKind.INSERT, element


def _change(kind: RowKind, value: Any, timestamp: int | None) -> str:
    at = "" if timestamp is None else f" @ {timestamp}"
    return f"{kind.short_string} {' '.join(map(_text, _fields(value)))}{at}"


def _fields(value: Any) -> Sequence[Any]:
    match value:
        case tuple() | Row():
            return tuple(value)
        case msgspec.Struct():
            return msgspec.structs.astuple(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return [getattr(value, f.name) for f in dataclasses.fields(value)]
        case _:
            return (value,)


def _text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            plain = re.fullmatch(r"[^\s|,@'\"~#/]+", value) is not None and _value(value) == value
            if plain and value not in ("idle", "active", "end") and value not in _KINDS:
                return value
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
        case float():
            return repr(value)
        case _dt.datetime() | _dt.date() | _dt.time():
            text = value.isoformat()
            return text[:-6] + "Z" if text.endswith("+00:00") else text
        case list() | tuple() | Row():
            return "[" + ",".join(map(_text, value)) + "]"
        case dict():
            return "{" + ",".join(f"{_text(k)}={_text(v)}" for k, v in value.items()) + "}"
        case _:
            return str(value)


# -- comparing -----------------------------------------------------------------------------------------------------


def assert_changelog(
    got: Iterable[Any],
    expected: str | Iterable[Any],
    *,
    order: Order = "exact",
    key: Callable[[Any], Hashable] | None = None,
    make: Callable[..., Any] | None = None,
) -> None:
    """Compare what came with what should have, as texts.

    Args:
        got: elements, rows, changes or records.
        expected: a text, or the same sorts of things. Event times are compared where the text gives any.
        order: "exact"; "multiset" where only the numbers of equal changes count; "by-key" where the order counts
            within a key only (control elements then count as a multiset).
        key: gives the key of a record, for "by-key"; its first field by default.
        make: as for `changelog`; matters only for how records are shown.

    Raises:
        AssertionError: they differ; the message is a diff.
    """
    times = isinstance(expected, str) and any(
        isinstance(e, Batch) and e.timestamps is not None for e in changelog(expected)
    )
    want_elements: list[Any] = changelog(expected, make) if isinstance(expected, str) else list(expected)
    got = list(got)
    have, want = _atoms(got, times), _atoms(want_elements, times)
    if order == "multiset":
        have, want = sorted(have), sorted(want)
    elif order == "by-key":
        have, want = _by_key(got, key, times), _by_key(want_elements, key, times)
    if have != want:
        raise AssertionError(_diff(have, want, order))


def _by_key(elements: Iterable[Any], key: Callable[[Any], Hashable] | None, times: bool) -> list[str]:
    groups: dict[str, list[str]] = {}
    controls: list[str] = []
    for element in elements:
        if not isinstance(element, Batch):
            if isinstance(element, (Watermark, WatermarkStatus, Barrier, EndOfInput)):
                controls += _atoms([element], times)
                continue
            kind, value = _kind_and_record(element)
            element = Batch([value], None, [kind])
        for i, value in enumerate(element.values):
            of = key(value) if key is not None else _fields(value)[0]
            groups.setdefault(repr(of), []).extend(_atoms([element.slice(i, i + 1)], times))
    return [atom for _, atoms in sorted(groups.items()) for atom in atoms] + sorted(controls)


def _diff(have: Sequence[str], want: Sequence[str], order: Order) -> str:
    note = {"exact": "", "multiset": ", as multisets", "by-key": ", key by key"}[order]
    lines = [f"changelogs differ{note} (- expected, + came):"]
    matcher = difflib.SequenceMatcher(None, want, have, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            same = [f"    {atom}" for atom in want[i1:i2]]
            if len(same) > 8:
                same = [*same[:3], f"    … {len(same) - 6} more", *same[-3:]]
            lines += same
        else:
            lines += [f"  - {atom}" for atom in want[i1:i2]]
            lines += [f"  + {atom}" for atom in have[j1:j2]]
    return "\n".join(lines)


def fold(changes: Iterable[Any]) -> Counter[tuple[Any, ...]]:
    """The rows, as tuples, that are left when all changes have been applied: a row and how often it is there.

    A number may be negative where a row was taken back that had not come.
    """
    rows: Counter[tuple[Any, ...]] = Counter()
    for kind, record in _changes(changes):
        rows[_frozen(record)] += -1 if kind.is_retraction else 1
    return Counter({row: n for row, n in rows.items() if n})


def fold_by_key(changes: Iterable[Any], key: Callable[[Any], Hashable]) -> dict[Hashable, tuple[Any, ...]]:
    """The last row of each key, as a tuple; a -D or -U takes the key's row away."""
    rows: dict[Hashable, tuple[Any, ...]] = {}
    for kind, record in _changes(changes):
        if kind.is_retraction:
            rows.pop(key(record), None)
        else:
            rows[key(record)] = _frozen(record)
    return rows


def _changes(elements: Iterable[Any]) -> Iterable[tuple[RowKind, Any]]:
    for element in elements:
        if isinstance(element, Batch):
            for i, value in enumerate(element.values):
                yield (RowKind.INSERT if element.kinds is None else element.kinds[i]), value
        elif not isinstance(element, (Watermark, WatermarkStatus, Barrier, EndOfInput)):
            yield _kind_and_record(element)


def _frozen(record: Any) -> tuple[Any, ...]:
    def freeze(value: Any) -> Any:
        match value:
            case list() | tuple() | Row():
                return tuple(map(freeze, value))
            case dict():
                return tuple(sorted(((freeze(k), freeze(v)) for k, v in value.items()), key=repr))
            case _:
                return value

    return tuple(map(freeze, _fields(record)))
