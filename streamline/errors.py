"""One tree of errors; each class says who has to act."""

from __future__ import annotations

__all__ = (
    "CheckpointException",
    "SqlParserException",
    "StateEncodingException",
    "StateMigrationException",
    "StreamlineError",
    "TableException",
    "ValidationException",
)


class StreamlineError(Exception):
    """Base of every error that streamline raises by itself.

    An error out of a user's function, source or sink is not wrapped: it reaches the caller as it was raised, with the
    operator and the offending record in its notes (`__notes__`).
    """


class ValidationException(StreamlineError):
    """The program is wrong: a name, a type, an option or a configuration value. The user has to change it."""


class TableException(StreamlineError):
    """A table program cannot be planned as asked, or a value met at run time does not fit its declared type."""


class SqlParserException(StreamlineError):
    """The SQL text is not a statement of the dialect; the message underlines the place.

    Attributes:
        line, column: the place, both from 1; None where there is none.
    """

    line: int | None = None
    column: int | None = None


class CheckpointException(StreamlineError):
    """A checkpoint or savepoint could not be written, read or mapped to the job that is to be restored."""


class StateMigrationException(CheckpointException):
    """What a checkpoint holds does not fit the program that goes on from it. No restart helps: the job fails now."""


class StateEncodingException(ValidationException):
    """A value in state, or in a position of a source, is of a type that cannot be kept. No restart helps: the same
    records would bring it back."""
