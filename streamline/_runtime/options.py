"""What a job is run with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from streamline._channel.channel import CAPACITY
from streamline._core.time import Clock, default_clock
from streamline._runtime.checkpointing import CheckpointOptions
from streamline._runtime.restart import RestartStrategy

__all__ = ("ExecutionOptions",)


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """What a job is run with."""

    job_name: str = "streamline job"
    parallelism: int = 1
    max_parallelism: int | None = None
    clock: Clock = field(default_factory=default_clock)
    watermark_interval: int = 200
    channel_capacity: int = CAPACITY
    time_slice: float = 5.0
    exactly_once: bool = True
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    restart: Callable[[], RestartStrategy] | None = None
    checkpoints: CheckpointOptions = field(default_factory=CheckpointOptions)
    backend: Literal["hashmap", "rocksdb"] = "hashmap"
    local_folder: str | None = None
