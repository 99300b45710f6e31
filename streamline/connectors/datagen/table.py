"""The connector `datagen` of SQL: rows whose columns are random or count up.

The random numbers are a function of the column and the row's number: a table gives the same rows in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from streamline.abc import TableContext, TableFactory, TableScan
from streamline.connectors.datagen.columns import Generate, column_options, random_column, sequence_column
from streamline.connectors.generator import DataGeneratorSource
from streamline.connectors.options import Options, integer
from streamline.errors import ValidationException

__all__ = ("DatagenTableFactory",)

_ROWS_PER_SECOND: Final = integer("rows-per-second", 10_000)
_NUMBER_OF_ROWS: Final = integer("number-of-rows")
_PARALLELISM: Final = integer("scan.parallelism")


class DatagenTableFactory(TableFactory):
    """See the module. Options: `rows-per-second`, `number-of-rows`, and for each column `fields.<column>.…`.

    Rows come in the order of their numbers from one subtask, whatever `scan.parallelism` says.
    """

    identifier: ClassVar[str] = "datagen"

    def scan(self, table: TableContext, columns: Sequence[str]) -> TableScan:
        if any(c.metadata_key is not None for c in table.columns):
            raise ValidationException("The connector 'datagen' has no metadata columns.")
        fields = table.columns
        own = column_options([(c.name, c.type) for c in fields], table.options)
        options = Options(
            self.identifier, table.options, optional=[_ROWS_PER_SECOND, _NUMBER_OF_ROWS, _PARALLELISM, *own.declared]
        )
        options.validate()
        rate, count = options.get(_ROWS_PER_SECOND), options.get(_NUMBER_OF_ROWS)
        if rate <= 0:
            raise ValidationException(f"'rows-per-second' has to be positive, not {rate}")
        if count is not None and count < 0:
            raise ValidationException(f"'number-of-rows' must not be negative: {count}")
        makers: list[Generate] = []
        for i, c in enumerate(fields):
            if own.kinds[c.name] == "sequence":
                made, length = sequence_column(c.name, c.type, options)
                count = length if count is None else min(count, length)
            else:
                made = random_column(c.name, c.type, options, i)
            makers.append(made)
        source = DataGeneratorSource(_row(makers), count, float(rate), _timed=True)
        names = {c.name: f"r[{i}]" for i, c in enumerate(fields)}
        return TableScan(source, {c: names[c] for c in columns})


def _row(makers: Sequence[Generate]) -> Callable[..., tuple[Any, ...]]:
    return lambda n, now: tuple([make(n, now) for make in makers])
