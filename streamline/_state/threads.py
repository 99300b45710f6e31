"""What blocks runs in worker threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread

__all__ = ("in_thread",)

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run what blocks in a worker thread; when cancelled, wait for it to be over."""
    return await anyio.to_thread.run_sync(partial(function, *args))
