"""Which job and operator a task works for: set by the runtime, read by filters of logs."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

__all__ = ("LOG_CONTEXT", "LogContext")


@dataclass(frozen=True, slots=True)
class LogContext:
    """Whose code runs: `subtask` counts from 0."""

    job: str
    operator: str
    subtask: int


#: Of the running task. Worker threads that it starts have it too (anyio and asyncio hand contexts on).
LOG_CONTEXT: Final[ContextVar[LogContext | None]] = ContextVar("streamline_log_context", default=None)
