"""When a graph has gone quiet: nothing on the loop can run before time passes or the outside world answers.

One detector a loop. It looks at the loop's own queue of ready callbacks, so it works on the event loops of the standard
library and on no others. While sockets are open or worker threads are busy it looks again after a little real time
instead of at once, so waiting for real I/O costs no CPU.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from streamline._core.time import perf_counter
from streamline.errors import StreamlineError

__all__ = ("Quiescence", "settle")

#: Rounds of the loop without any other callback that count as quiet. One is enough for callbacks; the second gives the
#: selector a chance to report what had arrived meanwhile.
_ROUNDS: Final = 2
#: Real seconds between two looks while the outside world is being waited for.
_LOOK: Final = 0.002
#: Real seconds that have to be quiet where sockets are open: an answer may be on its way.
_PATIENCE: Final = 0.02

_detectors: dict[asyncio.AbstractEventLoop, Quiescence] = {}


class Quiescence:
    """The detector of one event loop; `Quiescence.of(loop)` gives it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use `Quiescence.of`, or two detectors would keep each other busy."""
        ready = getattr(loop, "_ready", None)
        if ready is None or not hasattr(loop, "_selector"):
            raise StreamlineError(
                f"{type(loop).__module__}.{type(loop).__qualname__} does not show its queue of callbacks; "
                "virtual time and settle() need an asyncio event loop of the standard library"
            )
        self._loop = loop
        self._ready: deque[Any] = ready
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._on_quiet: list[Callable[[], bool]] = []
        self._probe_at: asyncio.Handle | None = None
        self._held = 0
        self._quiet_rounds = 0
        self._quiet_since: float | None = None

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop | None = None) -> Quiescence:
        """The detector of a loop, by default the running one."""
        loop = loop or asyncio.get_running_loop()
        found = _detectors.get(loop)
        if found is None:
            for closed in [known for known in _detectors if known.is_closed()]:
                del _detectors[closed]
            found = _detectors[loop] = cls(loop)
        return found

    async def wait(self) -> None:
        """Wait until the loop is quiet. Several waiters are woken one by one, each after a quiet of its own."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        self.watch()
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """While open the loop does not count as quiet: something outside of it is at work."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def add_idler(self, idler: Callable[[], bool]) -> None:
        """Call `idler` whenever the loop is quiet and nobody waits for that; it says whether to look again."""
        if idler not in self._on_quiet:
            self._on_quiet.append(idler)

    def remove_idler(self, idler: Callable[[], bool]) -> None:
        """The opposite of `add_idler`."""
        if idler in self._on_quiet:
            self._on_quiet.remove(idler)

    def watch(self) -> None:
        """Look out for the next quiet."""
        if self._probe_at is None:
            self._start_over()
            self._probe_at = self._loop.call_soon(self._probe)

    def _start_over(self) -> None:
        self._quiet_rounds = 0
        self._quiet_since = None

    def _probe(self) -> None:
        self._probe_at = None
        delay = 0.0
        if self._ready:
            self._start_over()
        elif self._held or self._threads_at_work():
            self._start_over()
            delay = _LOOK
        else:
            self._quiet_rounds += 1
            if self._sockets_open():
                now = perf_counter()
                if self._quiet_since is None:
                    self._quiet_since = now
                if now - self._quiet_since < _PATIENCE:
                    delay = _LOOK
            if not delay and self._quiet_rounds >= _ROUNDS and not self._quiet():
                return
        if self._probe_at is None:
            self._probe_at = self._loop.call_later(delay, self._probe) if delay else self._loop.call_soon(self._probe)

    def _quiet(self) -> bool:
        """Use the quiet; whether there is a reason to look out for the next one."""
        self._start_over()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return bool(self._waiters) or bool(self._on_quiet)
        again = False
        for idler in tuple(self._on_quiet):
            again |= idler()
        return again

    def _sockets_open(self) -> bool:
        # The loop's own end of its self-pipe is always registered; everything else is real I/O.
        registered: Any = self._loop._selector.get_map()
        return registered is not None and len(registered) > 1

    def _threads_at_work(self) -> bool:
        executor = getattr(self._loop, "_default_executor", None)
        if executor is not None:
            idle = getattr(getattr(executor, "_idle_semaphore", None), "_value", 0)
            if idle < len(getattr(executor, "_threads", ())):
                return True
        for thread in threading.enumerate():
            # anyio's worker threads; one is put back among the idle by a callback on the loop, after its result.
            if type(thread).__name__ == "WorkerThread" and getattr(thread, "loop", None) is self._loop:
                workers: Any = getattr(thread, "idle_workers", ())
                if thread not in workers:
                    return True
        return False


async def settle() -> None:
    """Wait until the graph has gone quiet: every record sent so far, and all that it triggered, has reached the end.

    Time does not pass meanwhile on a virtual clock. Work in worker threads is waited for; where sockets are open, the
    loop has to be quiet for 20 ms of real time.
    """
    await Quiescence.of().wait()
