"""Waiting for a condition inside one event loop."""

from __future__ import annotations

import asyncio

__all__ = ("Latch",)


class Latch:
    """Open or shut; any number of tasks wait until it opens.

    It belongs to no loop before somebody waits, so it can be made outside of one.
    """

    __slots__ = ("_open", "_waiters")

    def __init__(self, is_open: bool = False) -> None:
        self._open = is_open
        self._waiters: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        """Whether it is open."""
        return self._open

    def set(self) -> None:
        """Open it: everybody goes on."""
        self._open = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        """Shut it."""
        self._open = False

    async def wait(self) -> None:
        """Wait until it is open."""
        while not self._open:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
