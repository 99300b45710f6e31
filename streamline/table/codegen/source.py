"""Generated Python source becomes functions whose lines tracebacks and profilers can show."""

from __future__ import annotations

import functools
import hashlib
import linecache
from collections.abc import Callable
from types import CodeType
from typing import Any

__all__ = ("compile_function",)


@functools.lru_cache(maxsize=4096)
def _compile(name: str, source: str) -> CodeType:
    """The code of a module of generated source; equal sources share it, so subtasks cost one compilation."""
    digest = hashlib.blake2b(source.encode(), digest_size=6).hexdigest()
    filename = f"<streamline {name} {digest}>"
    # An entry without a modification time is never dropped by linecache.checkcache.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return compile(source, filename, "exec")


def compile_function(name: str, source: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    """Execute `source`, which defines the function `name`, and return that function.

    Args:
        name: the function's name; it also names the source in tracebacks.
        source: Python source of a module.
        namespace: its globals: the helpers and constants the source refers to. The function is added to it.
    """
    exec(_compile(name, source), namespace)
    function = namespace[name]
    assert callable(function)
    return function  # type: ignore[no-any-return]
