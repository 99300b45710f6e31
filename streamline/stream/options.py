"""From configuration to what a job is run with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from streamline._core.config import Configuration
from streamline._core.time import Clock
from streamline._graph.stream_graph import StreamGraph
from streamline._runtime.execute import (
    CheckpointOptions,
    CheckpointSettings,
    ExecutionOptions,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    RestartStrategy,
)
from streamline.errors import ValidationException

__all__ = ("execution_options",)


def execution_options(
    configuration: Configuration,
    clock: Clock,
    job_name: str | None,
    graph: StreamGraph,
    restore: str | None,
    batch: bool = False,
) -> ExecutionOptions:
    """The options of a job over a graph, as the configuration stands now. In batch mode no checkpoints are taken.

    Raises:
        ValidationException: options that contradict each other.
    """
    value = configuration.value
    max_parallelism = value("pipeline.max-parallelism")
    _check_parallelism(graph, value("parallelism.default"), max_parallelism)
    return ExecutionOptions(
        job_name=job_name or value("pipeline.name") or "streamline job",
        parallelism=value("parallelism.default"),
        max_parallelism=max_parallelism if max_parallelism > 0 else None,
        clock=clock,
        watermark_interval=value("pipeline.auto-watermark-interval"),
        time_slice=value("pipeline.time-slice"),
        exactly_once=value("execution.checkpointing.mode") == "EXACTLY_ONCE",
        job_parameters=value("pipeline.global-job-parameters"),
        restart=_restart(configuration, batch),
        checkpoints=CheckpointOptions() if batch else _checkpoints(configuration, restore),
        backend=value("table.exec.state.backend") or value("state.backend.type"),
        local_folder=value("state.backend.rocksdb.localdir"),
    )


def _check_parallelism(graph: StreamGraph, parallelism: int, max_parallelism: int) -> None:
    """Whether each operator has a subtask, and a key group for each of them."""
    if parallelism < 1:
        raise ValidationException(f"parallelism.default has to be positive, not {parallelism}")
    if max_parallelism != -1 and not 1 <= max_parallelism <= 32768:
        raise ValidationException(f"pipeline.max-parallelism has to be in 1..32768, not {max_parallelism}")
    for node in graph.nodes.values():
        width = node.parallelism_in(parallelism)
        groups = node.max_parallelism_in(parallelism, max_parallelism if max_parallelism > 0 else None)
        if width > groups:
            raise ValidationException(
                f"the parallelism of {node.name!r} is {width}, above its max parallelism of {groups}"
            )


def _interval(configuration: Configuration) -> int | None:
    """Milliseconds between two checkpoints, None where none are taken."""
    value = configuration.value
    interval = value("execution.checkpointing.interval") or value("table.exec.state.checkpoint-interval")
    return int(interval) if interval else None


def _during_backlog(configuration: Configuration) -> int | None:
    """Milliseconds between two checkpoints while a source works off a backlog, 0: none, None: as at other times."""
    interval, during = _interval(configuration), configuration.value("execution.checkpointing.interval-during-backlog")
    if interval is None or during is None:
        return None
    if 0 < during < interval:
        raise ValidationException(
            f"execution.checkpointing.interval-during-backlog is {during} ms, below the {interval} ms between two "
            "checkpoints at other times: give a longer time, or 0 for none during a backlog"
        )
    return int(during)


def _checkpoints(configuration: Configuration, restore: str | None) -> CheckpointOptions:
    def value(key: str) -> Any:
        return configuration.value(f"execution.checkpointing.{key}")

    exactly_once = value("mode") == "EXACTLY_ONCE"
    unaligned = bool(value("unaligned.enabled"))
    if unaligned and not exactly_once:
        raise ValidationException(
            "unaligned checkpoints need execution.checkpointing.mode=EXACTLY_ONCE: at least once aligns nothing anyway"
        )
    if unaligned and value("max-concurrent-checkpoints") != 1:
        raise ValidationException(
            "unaligned checkpoints need execution.checkpointing.max-concurrent-checkpoints=1; it is "
            f"{value('max-concurrent-checkpoints')}"
        )
    settings = CheckpointSettings(
        interval=_interval(configuration),
        min_pause=value("min-pause"),
        timeout=value("timeout"),
        # With a pause between two there is never more than one (Flink's rule).
        max_concurrent=1 if value("min-pause") else value("max-concurrent-checkpoints"),
        tolerable_failures=value("tolerable-failed-checkpoints"),
        unaligned=unaligned,
        aligned_timeout=value("aligned-checkpoint-timeout"),
        exactly_once=exactly_once,
        interval_during_backlog=_during_backlog(configuration),
    )
    if value("storage") == "filesystem" and value("dir") is None:
        raise ValidationException(
            "execution.checkpointing.storage is filesystem, and there is no execution.checkpointing.dir: say where, as "
            "in enable_checkpointing(…, storage='file:/var/lib/job')"
        )
    retention = "RETAIN_ON_CANCELLATION"
    if configuration.contains_key("execution.checkpointing.externalized-checkpoint-retention"):
        retention = value("externalized-checkpoint-retention")
    path = configuration.value("execution.state-recovery.path")
    return CheckpointOptions(
        settings=settings,
        storage=value("dir"),
        savepoints=value("savepoint-dir"),
        incremental=value("incremental"),
        compress=value("snapshot-compression"),
        retained=value("num-retained"),
        retain_on_cancellation=retention == "RETAIN_ON_CANCELLATION",
        retain_on_failure=retention != "NO_EXTERNALIZED_CHECKPOINTS",
        restore=path if restore == "latest" and path else restore,
        claim=configuration.value("execution.state-recovery.claim-mode") == "CLAIM",
        allow_non_restored_state=configuration.value("execution.state-recovery.ignore-unclaimed-state"),
    )


def _restart(configuration: Configuration, batch: bool) -> Callable[[], RestartStrategy] | None:
    """Flink's: none without checkpoints, exponential delay with them, or what the configuration says.

    Raises:
        ValidationException: options of the strategy that make no sense.
    """
    strategy = _strategy(configuration, batch)
    if strategy is not None:
        strategy()  # what is wrong with it is said before anything runs
    return strategy


def _strategy(configuration: Configuration, batch: bool) -> Callable[[], RestartStrategy] | None:
    value = configuration.value
    match value("restart-strategy.type"):
        case "fixed-delay":
            prefix = "restart-strategy.fixed-delay"
            return partial(FixedDelay, value(f"{prefix}.attempts"), value(f"{prefix}.delay"))
        case "failure-rate":
            prefix = "restart-strategy.failure-rate"
            return partial(
                FailureRate,
                value(f"{prefix}.max-failures-per-interval"),
                value(f"{prefix}.failure-rate-interval"),
                value(f"{prefix}.delay"),
            )
        case "exponential-delay":
            return _exponential(configuration)
        case None:
            return None if batch or _interval(configuration) is None else _exponential(configuration)
    return None


def _exponential(configuration: Configuration) -> Callable[[], RestartStrategy]:
    def value(key: str) -> Any:
        return configuration.value(f"restart-strategy.exponential-delay.{key}")

    return partial(
        ExponentialDelay,
        value("initial-backoff"),
        value("max-backoff"),
        value("backoff-multiplier"),
        value("reset-backoff-threshold"),
        value("jitter-factor"),
        value("attempts-before-reset-backoff"),
    )
