"""Text of streams."""

from __future__ import annotations

from streamline.connectors.formats.base import DeserializationSchema, SerializationSchema

__all__ = ("BytesSchema", "SimpleStringSchema")


class SimpleStringSchema(DeserializationSchema[str], SerializationSchema[str]):
    """Values are text, UTF-8 unless said otherwise."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = charset

    def deserialize(self, message: bytes) -> str:
        return message.decode(self._charset)

    def serialize(self, element: str) -> bytes:
        return element.encode(self._charset)

    def get_produced_type(self) -> type[str]:
        return str


class BytesSchema(DeserializationSchema[bytes], SerializationSchema[bytes]):
    """Values are the bytes as they are."""

    def deserialize(self, message: bytes) -> bytes:
        return message

    def serialize(self, element: bytes) -> bytes:
        return element

    def get_produced_type(self) -> type[bytes]:
        return bytes
