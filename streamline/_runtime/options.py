"""What a job is run with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from streamline._channel.channel import CAPACITY
from streamline._core.time import Clock, default_clock
from streamline._runtime.coordinator import CheckpointSettings
from streamline._runtime.restart import RestartStrategy

__all__ = ("CheckpointOptions", "ExecutionOptions")


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """When checkpoints are taken, and where they go.

    Attributes:
        settings: when, and what is tolerated.
        storage: path or URL under which jobs have their folders; None: the last checkpoint is kept in memory, for
            restarts within the process.
        savepoints: path or URL for savepoints; None: the job's folder.
        incremental: where the backend can, write only what is new since the last checkpoint.
        compress: whether files of state are written compressed; both kinds are read.
        retained: how many complete checkpoints are kept.
        retain_on_cancellation, retain_on_failure: whether they stay when the job ends that way. When it has finished,
            they are deleted: there is nothing to go on with.
        restore: "latest", the path of a checkpoint or savepoint, or None: start anew.
        claim: what `restore` names is taken over: it counts as one of the job's own, and is deleted as they are. If
            not, it is never touched.
        allow_non_restored_state: state that no operator takes is dropped, instead of being an error.
    """

    settings: CheckpointSettings = field(default_factory=CheckpointSettings)
    storage: str | None = None
    savepoints: str | None = None
    incremental: bool = False
    compress: bool = False
    retained: int = 1
    retain_on_cancellation: bool = True
    retain_on_failure: bool = True
    restore: str | Literal["latest"] | None = "latest"
    claim: bool = False
    allow_non_restored_state: bool = False


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
