"""What a job may leave behind: nothing. Tasks, unretrieved errors, threads and open files are looked for."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from streamline._core.time import yield_now

__all__ = ("LeakError", "no_leaks")

#: Rounds of the loop that finalisers get: async generators and transports are closed by callbacks.
_ROUNDS: Final = 20
_FILES: Final = Path("/proc/self/fd")


class LeakError(AssertionError):
    """Something was left behind; the message names each piece."""


@asynccontextmanager
async def no_leaks(*, threads: bool = False, files: bool = False, collect: bool = True) -> AsyncIterator[None]:
    """Fail where the block leaves something behind that was not there before.

    Always looked for: asyncio tasks, and errors that nobody retrieved. Where the block raises, that error counts and
    nothing is looked for.

    Args:
        threads: look for threads too. Idle worker threads of the event loop and of anyio do not count.
        files: look for open files and sockets too (Linux).
        collect: run the garbage collector, without which errors of forgotten tasks may show up later or never.

    Raises:
        LeakError: something was left behind.
    """
    loop = asyncio.get_running_loop()
    tasks, running, opened = set(asyncio.all_tasks()), set(threading.enumerate()), _open_files()
    contexts: list[dict[str, Any]] = []
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: contexts.append(context))
    try:
        yield
        tasks.update(filter(None, [asyncio.current_task()]))
        for _ in range(_ROUNDS):
            left = (
                asyncio.all_tasks() - tasks
            )  # held: a task that is forgotten should not be collected before it is named
            if not left:
                break
            await yield_now()
        if collect:
            gc.collect()
        await yield_now()
    finally:
        loop.set_exception_handler(before)
    found = [_describe(task) for task in asyncio.all_tasks() - tasks]
    found += [_context(context) for context in contexts]
    if threads:
        found += [f"thread {t.name!r}" for t in set(threading.enumerate()) - running if not _is_idle_worker(t)]
    if files:
        found += [f"open file {fd}: {name}" for fd, name in _open_files().items() if opened.get(fd) != name]
    if found:
        raise LeakError("left behind:\n  " + "\n  ".join(found))


def _describe(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    where = f" at {frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else ""
    return f"task {task.get_name()!r} ({getattr(task.get_coro(), '__qualname__', task.get_coro())}){where}"


def _context(context: dict[str, Any]) -> str:
    error = context.get("exception")
    of = context.get("task") or context.get("future") or context.get("handle")
    return f"{context.get('message')}: {error!r} {of!r}"


def _is_idle_worker(thread: threading.Thread) -> bool:
    # Pools keep threads for the next call; their number is bounded and they end with the loop.
    return type(thread).__name__ == "WorkerThread" or thread.name.startswith(("asyncio_", "ThreadPoolExecutor"))


def _open_files() -> dict[int, str]:
    found: dict[int, str] = {}
    if not _FILES.is_dir():
        return found
    for entry in os.listdir(_FILES):
        try:
            name = os.readlink(_FILES / entry)
        except OSError:  # the descriptor that listed the folder
            continue
        found[int(entry)] = name
    return found
