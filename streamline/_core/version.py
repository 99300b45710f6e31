"""The version, stated once: the build reads it here, and asking the installed metadata costs 40 ms at import."""

from __future__ import annotations

from typing import Final

__all__ = ("VERSION",)

VERSION: Final = "0.1.0"
