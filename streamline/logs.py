"""Names of job and operator in log records, also in those of the functions that a job calls.

handler = logging.StreamHandler()
handler.addFilter(JobLogFilter())
handler.setFormatter(logging.Formatter("%(levelname)s [%(job)s %(operator)s[%(subtask)s]] %(message)s"))
logging.getLogger().addHandler(handler)
"""

from __future__ import annotations

import logging

from streamline._core.log_context import LOG_CONTEXT

__all__ = ("JobLogFilter",)


class JobLogFilter(logging.Filter):
    """Lets every record pass, with the attributes `job`, `operator` and `subtask` (from 0) of whoever logs.

    Outside of jobs they are `"-"`. What a record has already (`extra=`) stays. It belongs on a handler: filters of
    loggers do not see the records of loggers below them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        context = LOG_CONTEXT.get()
        for name in ("job", "operator", "subtask"):
            if not hasattr(record, name):
                setattr(record, name, "-" if context is None else getattr(context, name))
        return True
