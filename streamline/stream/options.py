"""From configuration to what a job is run with."""

from __future__ import annotations

from streamline._core.config import Configuration
from streamline._core.time import Clock
from streamline._graph.stream_graph import StreamGraph
from streamline._runtime.execute import ExecutionOptions

__all__ = ("execution_options",)


def execution_options(
    configuration: Configuration, clock: Clock, job_name: str | None, graph: StreamGraph, restore: str | None
) -> ExecutionOptions:
    """The options of a job over a graph, as the configuration stands now.

    Raises:
        ValidationException: options that contradict each other.
    """
    value = configuration.value
    max_parallelism = value("pipeline.max-parallelism")
    return ExecutionOptions(
        job_name=job_name or value("pipeline.name") or "streamline job",
        parallelism=value("parallelism.default"),
        max_parallelism=max_parallelism if max_parallelism > 0 else None,
        clock=clock,
        watermark_interval=value("pipeline.auto-watermark-interval"),
        time_slice=value("pipeline.time-slice"),
        exactly_once=value("execution.checkpointing.mode") == "EXACTLY_ONCE",
        job_parameters=value("pipeline.global-job-parameters"),
    )
