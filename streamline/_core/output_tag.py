"""Side outputs by name."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar, overload

from streamline.errors import ValidationException

__all__ = ("OutputTag",)


T = TypeVar("T")


class OutputTag(Generic[T]):
    """Names a side output: records that a function sends with it are read by `get_side_output`.

    Two tags with the same id are the same output.
    """

    __slots__ = ("tag_id", "type_info")

    #: Whether any tag was ever made: operators look for tagged records only then.
    used = False

    @overload
    def __init__(self, tag_id: str, type_info: type[T]) -> None: ...
    @overload
    def __init__(self: OutputTag[Any], tag_id: str, type_info: Any = None) -> None: ...
    def __init__(self, tag_id: str, type_info: Any = None) -> None:
        """
        Args:
            tag_id: the name, not empty.
            type_info: type of the records in the side output (a `Types.…` or a Python type), where known.

        Raises:
            ValidationException: the name is empty.
        """
        if not isinstance(tag_id, str) or not tag_id:
            raise ValidationException(f"an OutputTag needs a name, not {tag_id!r}")
        OutputTag.used = True
        self.tag_id: Final = tag_id
        self.type_info: Final = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"
