"""Snapshots as files, and the manifest that makes a checkpoint of them.

A checkpoint is a folder: one file for each subtask, then `MANIFEST`, written last. The manifest lists every participant
with the size and checksum of its files, and carries its own; a checkpoint without a whole manifest, or with a file that
does not match it, does not count. Everything is msgpack or JSON by msgspec.

A subtask's file that is compressed says so: what follows its head is compressed block by block, so that a large one can
still be read a block at a time, and the blocks' lengths, known only then, are its end.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, Literal, final

import msgspec

from streamline._core.version import VERSION
from streamline._state.snapshot import SharedFile, SubtaskSnapshot
from streamline._state.spill import Blocks, lengths
from streamline.errors import CheckpointException

__all__ = ("FORMAT", "MANIFEST", "Manifest", "OperatorEntry", "PartEntry", "Tally", "digest", "join_file", "split_file")

#: Version of the files' layout; a program reads its own and all earlier ones.
FORMAT: Final = 1
MANIFEST: Final = "MANIFEST"
WRITER: Final = f"streamline {VERSION}"
_MAGIC: Final = b"streamline state\x00"
_HEAD: Final = "streamline checkpoint"
#: Version of a subtask's file that is compressed.
_COMPRESSED: Final = 2
_CODEC: Final = "zlib"
#: The fastest: most of what can be won is won by it.
_LEVEL: Final = 1

_encoder: Final = msgspec.msgpack.Encoder()


class PartEntry(msgspec.Struct):
    """What one subtask contributed.

    Attributes:
        subtask: which one.
        file: name in the checkpoint's folder.
        size, digest: of the file.
        ended: the subtask had ended; this is what it ended with.
        shared: files it needs besides.
        uploaded: bytes of those that were written for it; the others were there.
    """

    subtask: int
    file: str
    size: int
    digest: str
    ended: bool = False
    shared: list[SharedFile] = []
    uploaded: int = 0


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


def digest(parts: Iterable[bytes | memoryview]) -> str:
    """Checksum of the parts one behind the other."""
    return Tally().over(parts)


@final
class Tally:
    """Size and checksum of what goes through."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = hashlib.blake2b(digest_size=16)

    def through(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """The parts, counted as they are taken."""
        for part in parts:
            self.size += len(part)
            self._hash.update(part)
            yield part

    def over(self, parts: Iterable[bytes | memoryview]) -> str:
        """The checksum with these parts too."""
        for part in parts:
            self.size += len(part)
            self._hash.update(part)
        return self.digest

    @property
    def digest(self) -> str:
        """The checksum so far."""
        return self._hash.hexdigest()


def split_file(snapshot: SubtaskSnapshot, compress: bool = False) -> Iterator[bytes]:
    """A snapshot as the content of its file, in parts: the blocks of state are not copied, and come one at a time."""
    tables = snapshot.tables
    bare = msgspec.structs.replace(
        snapshot,
        uploads=None,
        fetch=None,
        elsewhere=False,
        tables=[msgspec.structs.replace(t, blocks=[]) for t in tables],
    )
    if compress:
        return _compressed(_encoder.encode(bare), [t.blocks for t in tables])
    head = _encoder.encode([FORMAT, bare, [lengths(t.blocks) for t in tables]])
    return chain([_MAGIC, len(head).to_bytes(4, "big"), head], *(t.blocks for t in tables))


def _compressed(bare: bytes, tables: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    head = _encoder.encode([_COMPRESSED, [_CODEC, zlib.compress(bare, _LEVEL)], []])
    yield from (_MAGIC, len(head).to_bytes(4, "big"), head)
    sizes: list[list[int]] = []
    for blocks in tables:
        sizes.append([])
        for block in blocks:
            packed = zlib.compress(block, _LEVEL)
            sizes[-1].append(len(packed))
            yield packed
    tail = _encoder.encode(sizes)
    yield from (tail, len(tail).to_bytes(4, "big"))


def join_file(read: Callable[[int, int], bytes], size: int, where: str, whole: bool = True) -> SubtaskSnapshot:
    """A snapshot from the content of its file, compressed or not.

    Args:
        read: gives so many bytes from some place on.
        size: of the file.
        where: the file, for messages.
        whole: read all blocks now; else each when it is asked for.

    Raises:
        CheckpointException: it is no such file, or of a later version.
    """
    try:
        start = len(_MAGIC) + 4
        begin = read(0, start)
        if not begin.startswith(_MAGIC):
            raise CheckpointException(f"{where} is no file of state")
        end = start + int.from_bytes(begin[-4:], "big")
        version, bare, sizes = msgspec.msgpack.decode(read(start, end - start), type=tuple[int, Any, list[list[int]]])
        if version > _COMPRESSED:
            raise CheckpointException(
                f"{where} has format {version}; this version of streamline reads up to {_COMPRESSED}"
            )
        get = read
        if version == _COMPRESSED:
            codec, packed = bare
            if codec != _CODEC:
                raise CheckpointException(
                    f"{where} is compressed by {codec!r}; this version of streamline reads {_CODEC}"
                )
            bare = msgspec.msgpack.decode(zlib.decompress(packed))
            tail = int.from_bytes(read(size - 4, 4), "big")
            sizes = msgspec.msgpack.decode(read(size - 4 - tail, tail), type=list[list[int]])

            def get(start: int, length: int) -> bytes:
                return zlib.decompress(read(start, length))

        snapshot = msgspec.convert(bare, SubtaskSnapshot)
    except (msgspec.MsgspecError, ValueError, TypeError, zlib.error) as e:
        raise CheckpointException(f"{where} cannot be read: {e}") from e
    for table, of_table in zip(snapshot.tables, sizes):
        spans = []
        for size in of_table:
            spans.append((end, size))
            end += size
        table.blocks = [get(*span) for span in spans] if whole else Blocks(get, spans)
    return snapshot
