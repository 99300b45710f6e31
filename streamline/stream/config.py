"""Options of execution and checkpoints, by method; they lie in the environment's Configuration."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from streamline._core.config import Configuration
from streamline._core.time import Duration, to_millis
from streamline.errors import ValidationException

__all__ = (
    "CheckpointConfig",
    "CheckpointingMode",
    "ExecutionConfig",
    "ExternalizedCheckpointRetention",
    "RuntimeExecutionMode",
)


class RuntimeExecutionMode(Enum):
    """How a job treats its inputs."""

    STREAMING = "STREAMING"
    BATCH = "BATCH"
    AUTOMATIC = "AUTOMATIC"


class CheckpointingMode(Enum):
    """What a restore guarantees."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class ExternalizedCheckpointRetention(Enum):
    """What happens to checkpoints when a job is cancelled."""

    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"


E = TypeVar("E", bound=Enum)


def choice(kind: type[E], value: Any) -> E:
    """A member of an enum, or the member that a text names.

    Raises:
        ValidationException: it is none; the members are named.
    """
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise ValidationException(f"{value!r} is no {kind.__name__}; there are {names}") from None


class ExecutionConfig:
    """Options of execution."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def set_auto_watermark_interval(self, interval: Duration) -> ExecutionConfig:
        """How often periodic watermarks are made (timedelta, text or ms; default 200 ms); 0: never."""
        self._configuration.set("pipeline.auto-watermark-interval", f"{to_millis(interval, 'interval')} ms")
        return self

    def get_auto_watermark_interval(self) -> int:
        """Milliseconds."""
        return int(self._configuration.value("pipeline.auto-watermark-interval"))

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """As on the environment."""
        self._configuration.set("parallelism.default", parallelism)
        return self

    def get_parallelism(self) -> int:
        """As on the environment."""
        return int(self._configuration.value("parallelism.default"))

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """As on the environment."""
        self._configuration.set("pipeline.max-parallelism", max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """As on the environment."""
        return int(self._configuration.value("pipeline.max-parallelism"))

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Parameters that functions read by `runtime_context.get_job_parameter`.

        Raises:
            ValidationException: it is no mapping.
        """
        if not isinstance(global_job_parameters_dict, Mapping):
            raise ValidationException(f"job parameters are a mapping, not {global_job_parameters_dict!r}")
        self._configuration.set("pipeline.global-job-parameters", dict(global_job_parameters_dict))
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """Parameters that functions read."""
        return dict(self._configuration.value("pipeline.global-job-parameters"))

    def enable_object_reuse(self) -> ExecutionConfig:
        """No effect: records are handed on without a copy in any case."""
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """No effect: records are handed on without a copy in any case."""
        return self


class CheckpointConfig:
    """Options of checkpoints."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def _set(self, key: str, value: Any) -> CheckpointConfig:
        self._configuration.set(f"execution.checkpointing.{key}", value)
        return self

    def _get(self, key: str) -> Any:
        return self._configuration.value(f"execution.checkpointing.{key}")

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval is set."""
        return self._get("interval") is not None

    def set_checkpoint_interval(self, checkpoint_interval: Duration) -> CheckpointConfig:
        """How often a checkpoint is taken (timedelta, text or ms)."""
        return self._set("interval", f"{to_millis(checkpoint_interval, 'checkpoint_interval')} ms")

    def get_checkpoint_interval(self) -> int:
        """Milliseconds, -1 where no checkpoints are taken."""
        interval = self._get("interval")
        return -1 if interval is None else int(interval)

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Exactly once (default) or at least once."""
        return self._set("mode", choice(CheckpointingMode, checkpointing_mode).value)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once or at least once."""
        return CheckpointingMode(self._get("mode"))

    def set_checkpoint_timeout(self, checkpoint_timeout: Duration) -> CheckpointConfig:
        """After that long a checkpoint is given up (default 10 minutes)."""
        return self._set("timeout", f"{to_millis(checkpoint_timeout, 'checkpoint_timeout')} ms")

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds."""
        return int(self._get("timeout"))

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: Duration) -> CheckpointConfig:
        """So long after one checkpoint no other is begun (default 0)."""
        return self._set("min-pause", f"{to_millis(min_pause_between_checkpoints, 'min_pause')} ms")

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds."""
        return int(self._get("min-pause"))

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """How many checkpoints may be under way (default 1)."""
        return self._set("max-concurrent-checkpoints", max_concurrent_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way."""
        return int(self._get("max-concurrent-checkpoints"))

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """How many checkpoints in a row may fail before the job does (default 0)."""
        return self._set("tolerable-failed-checkpoints", tolerable_checkpoint_failure_number)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail before the job does."""
        return int(self._get("tolerable-failed-checkpoints"))

    def set_externalized_checkpoint_retention(self, retention: ExternalizedCheckpointRetention) -> CheckpointConfig:
        """Whether checkpoints stay when the job is cancelled."""
        return self._set("externalized-checkpoint-retention", choice(ExternalizedCheckpointRetention, retention).value)

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Whether checkpoints stay when the job is cancelled."""
        return ExternalizedCheckpointRetention(self._get("externalized-checkpoint-retention"))

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records, which then belong to the checkpoint."""
        return self._set("unaligned.enabled", enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let barriers stay in their place (the default)."""
        return self.enable_unaligned_checkpoints(False)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records."""
        return bool(self._get("unaligned.enabled"))

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """With unaligned checkpoints: how long to try an aligned one first (default 0)."""
        return self._set("aligned-checkpoint-timeout", f"{to_millis(alignment_timeout, 'alignment_timeout')} ms")

    def get_aligned_checkpoint_timeout(self) -> int:
        """Milliseconds."""
        return int(self._get("aligned-checkpoint-timeout"))

    def set_checkpoint_storage(self, checkpoint_storage: str) -> CheckpointConfig:
        """Where checkpoints lie, e.g. `"file:/var/lib/job"`."""
        return self._set("dir", checkpoint_storage)

    set_checkpoint_storage_dir = set_checkpoint_storage

    def get_checkpoint_storage(self) -> str | None:
        """Where checkpoints lie; None: in memory."""
        found = self._get("dir")
        return None if found is None else str(found)
