"""What the binder asks of the session: tables and functions by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from streamline.table.logical import Rel

__all__ = ("Catalog",)


class Catalog(Protocol):
    """The session's tables, views and functions."""

    def table(self, path: tuple[str, ...], options: Mapping[str, str]) -> Rel | None:
        """The plan of a table (a `Scan`) or a view (its query's plan), None where there is no such object.

        Args:
            path: one to three parts as written; parts that are not given are the current ones.
            options: from a hint OPTIONS(...); refused for views.
        """

    def function(self, path: tuple[str, ...]) -> Any | None:
        """The user's function of that name, or None: then it is a built-in one or unknown."""
