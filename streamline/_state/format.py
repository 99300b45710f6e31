"""Snapshots as files, and the manifest that makes a checkpoint of them.

A checkpoint is a folder: one file for each subtask, then `MANIFEST`, written last. The manifest lists every participant
with the size and checksum of its files, and carries its own; a checkpoint without a whole manifest, or with a file that
does not match it, does not count. Everything is msgpack or JSON by msgspec.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from streamline._core.version import VERSION
from streamline._state.snapshot import SharedFile, SubtaskSnapshot
from streamline.errors import CheckpointException

__all__ = ("FORMAT", "MANIFEST", "Manifest", "OperatorEntry", "PartEntry", "digest", "split_file")

#: Version of the files' layout; a program reads its own and all earlier ones.
FORMAT: Final = 1
MANIFEST: Final = "MANIFEST"
WRITER: Final = f"streamline {VERSION}"
_MAGIC: Final = b"streamline state\x00"
_HEAD: Final = "streamline checkpoint"

_encoder: Final = msgspec.msgpack.Encoder()


class PartEntry(msgspec.Struct):
    """What one subtask contributed.

    Attributes:
        subtask: which one.
        file: name in the checkpoint's folder.
        size, digest: of the file.
        ended: the subtask had ended; this is what it ended with.
        shared: files it needs besides.
    """

    subtask: int
    file: str
    size: int
    digest: str
    ended: bool = False
    shared: list[SharedFile] = []


class OperatorEntry(msgspec.Struct):
    """The parts of one operator."""

    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    parts: list[PartEntry]


class Manifest(msgspec.Struct, kw_only=True):
    """What a checkpoint consists of.

    Attributes:
        format: version of the layout.
        checkpoint_id: rises from checkpoint to checkpoint of a job.
        kind: a savepoint is full, belongs to the user, and is never deleted.
        job_name, job_id: whose it is.
        timestamp: when it was triggered, epoch ms of the job's clock.
        completed: when it was complete, epoch ms.
        writer: version of streamline that wrote it.
        operators: all of them, also those without state.
    """

    format: int = FORMAT
    checkpoint_id: int
    kind: Literal["checkpoint", "savepoint"] = "checkpoint"
    job_name: str
    job_id: str
    timestamp: int
    completed: int
    writer: str = ""
    operators: list[OperatorEntry]

    def encode(self) -> bytes:
        """As the content of the manifest's file."""
        body = msgspec.json.format(msgspec.json.encode(self), indent=1)
        return f"{_HEAD} {self.format} {digest([body])}\n".encode() + body + b"\n"

    @staticmethod
    def decode(data: bytes, where: str) -> Manifest:
        """From the content of the manifest's file.

        Raises:
            CheckpointException: it is torn, corrupt, or of a later version.
        """
        head, _, body = data.partition(b"\n")
        words = head.decode("utf-8", "replace").rsplit(" ", 2)
        if len(words) != 3 or words[0] != _HEAD or not words[1].isdigit():
            raise CheckpointException(f"{where}: {MANIFEST} is torn or no checkpoint's")
        if int(words[1]) > FORMAT:
            raise CheckpointException(
                f"{where} has format {words[1]}, of a later version of streamline; this one reads up to {FORMAT}"
            )
        if not body.endswith(b"\n") or digest([body[:-1]]) != words[2]:
            raise CheckpointException(f"{where}: {MANIFEST} is torn or corrupt: its checksum does not match")
        try:
            return msgspec.json.decode(body, type=Manifest)
        except msgspec.DecodeError as e:
            raise CheckpointException(f"{where}: {MANIFEST} cannot be read: {e}") from e


def digest(parts: Sequence[bytes | memoryview]) -> str:
    """Checksum of the parts one behind the other."""
    h = hashlib.blake2b(digest_size=16)
    for part in parts:
        h.update(part)
    return h.hexdigest()


def split_file(snapshot: SubtaskSnapshot) -> list[bytes]:
    """A snapshot as the content of its file, in parts: the blocks of state are not copied."""
    tables = snapshot.tables
    blocks = [b for t in tables for b in t.blocks]
    lengths = [[len(b) for b in t.blocks] for t in tables]
    bare = msgspec.structs.replace(
        snapshot,
        uploads=None,
        fetch=None,
        elsewhere=False,
        tables=[msgspec.structs.replace(t, blocks=[]) for t in tables],
    )
    head = _encoder.encode([FORMAT, bare, lengths])
    return [_MAGIC, len(head).to_bytes(4, "big"), head, *blocks]


def join_file(data: bytes, where: str) -> SubtaskSnapshot:
    """A snapshot from the content of its file.

    Raises:
        CheckpointException: it is no such file, or of a later version.
    """
    try:
        if not data.startswith(_MAGIC):
            raise CheckpointException(f"{where} is no file of state")
        start = len(_MAGIC) + 4
        end = start + int.from_bytes(data[start - 4 : start], "big")
        version, bare, lengths = msgspec.msgpack.decode(data[start:end], type=tuple[int, Any, list[list[int]]])
        if version > FORMAT:
            raise CheckpointException(f"{where} has format {version}; this version of streamline reads up to {FORMAT}")
        snapshot = msgspec.convert(bare, SubtaskSnapshot)
    except (msgspec.MsgspecError, ValueError) as e:
        raise CheckpointException(f"{where} cannot be read: {e}") from e
    blocks = _cut(memoryview(data)[end:], lengths)
    for table in snapshot.tables:
        table.blocks = next(blocks)
    return snapshot


def _cut(data: memoryview, lengths: list[list[int]]) -> Iterator[list[bytes]]:
    start = 0
    for table in lengths:
        blocks = []
        for length in table:
            blocks.append(bytes(data[start : start + length]))
            start += length
        yield blocks
