"""Hashes as hexadecimal digits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from streamline._core import types as t
from streamline.errors import TableException
from streamline.table.expr.signature import define

__all__ = ()

_SIZES: Final = {"MD5": 32, "SHA1": 40, "SHA224": 56, "SHA256": 64, "SHA384": 96, "SHA512": 128}


def _hash(algorithm: str) -> Callable[[str], str]:
    make = getattr(hashlib, algorithm.lower())

    def digest(text: str) -> str:
        return str(make(text.encode()).hexdigest())

    digest.__name__ = algorithm.lower()
    return digest


def sha2(text: str, bits: int) -> str:
    """The SHA-2 hash of 224, 256, 384 or 512 bits.

    Raises:
        TableException: for another number of bits.
    """
    if bits not in (224, 256, 384, 512):
        raise TableException(f"Unsupported algorithm: SHA-2 has 224, 256, 384 or 512 bits, not {bits}.")
    return hashlib.new(f"sha{bits}", text.encode()).hexdigest()


for _name, _size in _SIZES.items():
    define(_name, ["CHARACTER"], t.char(_size), helper=_hash(_name))
define("SHA2", ["CHARACTER INTEGER"], t.varchar(128), helper=sha2)
