"""Upsert changelogs need a key: the one that is declared, or the one that the query has."""

from __future__ import annotations

from collections.abc import Sequence

from streamline.errors import TableException, ValidationException
from streamline.table.logical import Project, Rel
from streamline.table.planner import changelog_mode, upsert_keys
from streamline.table.planner_config import PlannerConfig

__all__ = ("check_upsert",)


def _named(rel: Rel, keys: Sequence[Sequence[int]]) -> str:
    return " or ".join("[" + ", ".join(rel.schema.names[i] for i in k) + "]" for k in keys)


def check_upsert(settings: PlannerConfig, rel: Rel, declared: tuple[int, ...]) -> None:
    """Refuse an upsert changelog whose changes nobody could apply.

    Args:
        settings: of the plan.
        rel: the query.
        declared: positions of the declared primary key; empty where there is none.

    Raises:
        TableException: the query's key is not among its columns.
        ValidationException: the declared key is not the query's.
    """
    if changelog_mode(rel, settings).is_insert_only:
        return
    keys = upsert_keys(rel, settings)
    if declared:
        if not any(set(k) <= set(declared) for k in keys):
            found = _named(rel, keys) or "unknown"
            raise ValidationException(
                f"primary key {_named(rel, [declared])}, upsert key {found}: with another key than the query's, rows "
                "of one primary key would overwrite one another. Declare the query's key, or use ChangelogMode.all()"
            )
        return
    if keys:
        return
    below = rel
    while isinstance(below, Project):
        below = below.input
        keys = upsert_keys(below, settings)
        if keys:
            raise TableException(
                f"upsert mode: the key {_named(below, keys)} of the query is not among the columns "
                f"[{', '.join(rel.schema.names)}]; select it, or use ChangelogMode.all()"
            )
    raise TableException(
        f"upsert mode: the query has no key among the columns [{', '.join(rel.schema.names)}]; declare a primary key, "
        "or use ChangelogMode.all()"
    )
