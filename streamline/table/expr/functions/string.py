"""Functions over text."""

from __future__ import annotations

from streamline._core import types as t
from streamline.table.expr.signature import define

define("UPPER", ["CHARACTER"], t.STRING, code="{0}.upper()")
define("LOWER", ["CHARACTER"], t.STRING, code="{0}.lower()")
define("CHAR_LENGTH", ["CHARACTER"], t.INT, "CHARACTER_LENGTH", code="len({0})")
