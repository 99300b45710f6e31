"""Unaligned checkpoints: a capture with what was on its way to it, and who gets that after a restore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import anyio

from streamline._channel.cut import Cut
from streamline._channel.partition import Broadcast, PartitionSpec, partitioner
from streamline._core.elements import Batch, Element
from streamline._state.capture import Capture, CaptureAborted
from streamline._state.in_flight import decode_elements, encode_elements
from streamline._state.snapshot import SubtaskSnapshot

__all__ = ("UnalignedCapture", "share_elements")


@final
class UnalignedCapture:
    """A capture, and the elements that barriers have overtaken or will have."""

    def __init__(self, capture: Capture, cut: Cut, inputs: Sequence[int]) -> None:
        """`inputs[i]` is the logical input of channel i."""
        self.checkpoint_id = capture.checkpoint_id
        self._capture = capture
        self._cut = cut
        self._inputs = inputs
        self._whole = anyio.Event()
        cut.on_whole(self._whole.set)

    async def encode(self) -> SubtaskSnapshot:
        """The snapshot, once all barriers have come.

        Raises:
            CaptureAborted: the checkpoint was given up.
        """
        snapshot = await self._capture.encode()
        await self._whole.wait()
        if self._cut.abandoned:
            raise CaptureAborted(f"checkpoint {self.checkpoint_id} was given up")
        elements, self._cut.elements = self._cut.elements, []
        snapshot.channels = len(self._inputs)
        snapshot.in_flight = encode_elements([(i, self._inputs[i], element) for i, element in elements])
        return snapshot

    def abort(self) -> None:
        """Nobody wants it any more."""
        self._cut.abandon()
        self._capture.abort()

    def discard(self) -> None:
        """Put things in order at once."""
        self._cut.abandon()
        self._capture.discard()


def share_elements(
    snapshots: Sequence[SubtaskSnapshot],
    subtask: int,
    parallelism: int,
    channels: int,
    spec_of: Callable[[int], PartitionSpec],
    max_parallelism: int,
) -> tuple[list[tuple[int, Element]], bool]:
    """What a subtask has to process first, and whether the numbers are those of channels or of logical inputs.

    Args:
        snapshots: of all subtasks of the operator.
        subtask, parallelism: which of how many it is now.
        channels: how many channels it has now.
        spec_of: how records of a logical input are shared out now.
        max_parallelism: the number of key groups.
    """
    if not any(s.in_flight for s in snapshots):
        return [], False
    if len(snapshots) == parallelism:
        (own,) = [s for s in snapshots if s.subtask_index == subtask]
        same = own.channels == channels
        elements = decode_elements(own.in_flight)
        return [(channel if same else number, element) for channel, number, element in elements], same
    mine: list[tuple[int, Element]] = []
    for snapshot in sorted(snapshots, key=lambda s: s.subtask_index):
        partitioners = {}
        for _, number, element in decode_elements(snapshot.in_flight):
            if not isinstance(element, Batch):
                continue
            spec = spec_of(number)
            if isinstance(spec, Broadcast):
                if snapshot.subtask_index == subtask % len(snapshots):
                    mine.append((number, element))
                continue
            if number not in partitioners:
                partitioners[number] = partitioner(spec, parallelism, max_parallelism, snapshot.subtask_index)
            share = partitioners[number]
            parts = [(0, element)] if share is None else share.partition(element)
            mine += [(number, part) for target, part in parts if target == subtask]
    return mine, False
