"""TypeConversions: between the stream's type information and the table's data types."""

from __future__ import annotations

from typing import Any

from streamline._core.typeinfo import from_data_type, to_data_type
from streamline._core.types import DataType

__all__ = ("TypeConversions",)


class TypeConversions:
    """Both ways between type information and data types.

    The way back loses what type information has no place for: precision, length, NOT NULL.
    """

    @staticmethod
    def from_legacy_info_to_data_type(type_info: Any) -> DataType:
        """The data type of type information (`Types.…`), or of an annotated class.

        Raises:
            ValidationException: if no column can be made of it.
        """
        return to_data_type(type_info).null()

    @staticmethod
    def from_data_type_to_legacy_info(data_type: DataType) -> Any:
        """The type information of a data type; of a structured type its class.

        Raises:
            ValidationException: if there is none.
        """
        return from_data_type(data_type)
