"""What a user's function learns about where it runs, and where it gets its state and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from streamline._core.declare import StateSpec
from streamline.abc import KeyedStore, MetricGroup, OperatorContext, OperatorStore
from streamline.errors import ValidationException

__all__ = ("FunctionInitializationContext", "FunctionSnapshotContext", "OperatorStateStore", "RuntimeContext")

H = TypeVar("H", covariant=True)


class Descriptor(Protocol):
    """A state descriptor: a name and what it declares."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> StateSpec: ...


class Describes(Protocol[H]):
    """A state descriptor, by the handle that a function gets for it."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> StateSpec: ...

    @property
    def _handle(self) -> H: ...


class RuntimeContext:
    """Given to `open(runtime_context)` of every function."""

    __slots__ = ("_ctx", "_keyed", "_names")

    def __init__(self, ctx: OperatorContext, keyed: bool) -> None:
        self._ctx = ctx
        self._keyed = keyed
        self._names: dict[str, StateSpec] = {}

    # -- where it runs -------------------------------------------------------------------------------------------

    def get_task_name(self) -> str:
        """The operator's name."""
        return self._ctx.operator_name

    def get_number_of_parallel_subtasks(self) -> int:
        """The operator's parallelism."""
        return self._ctx.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """The number of key groups."""
        return self._ctx.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """This subtask's number, from 0."""
        return self._ctx.subtask_index

    def get_attempt_number(self) -> int:
        """How often the job was restarted, from 0."""
        return self._ctx.attempt

    def get_task_name_with_subtasks(self) -> str:
        """The operator's name, this subtask's number (from 1) and the parallelism."""
        ctx = self._ctx
        return f"{ctx.operator_name} ({ctx.subtask_index + 1}/{ctx.parallelism})#{ctx.attempt}"

    def get_job_name(self) -> str:
        """The job's name."""
        return self._ctx.job_name

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A global job parameter."""
        return self._ctx.job_parameters.get(key, default_value)

    def get_global_job_parameters(self) -> Mapping[str, str]:
        """All global job parameters."""
        return self._ctx.job_parameters

    def get_metrics_group(self) -> MetricGroup:
        """Where to register counters, gauges, meters and distributions of this subtask."""
        return self._ctx.metrics

    get_metric_group = get_metrics_group

    def current_processing_time(self) -> int:
        """Processing time, epoch milliseconds."""
        return self._ctx.clock.now()

    def add_accumulator(self, name: str, accumulator: Any) -> None:
        """Refused.

        Raises:
            ValidationException: always.
        """
        raise ValidationException(
            f"accumulators are not supported ({name!r}): count with get_metrics_group().counter(...) and read it by "
            "JobClient.metrics()"
        )

    # -- keyed state ---------------------------------------------------------------------------------------------

    def get_state(self, state_descriptor: Describes[H]) -> H:
        """The ValueState of a ValueStateDescriptor, for the current key.

        Raises:
            ValidationException: the stream is not keyed, or another state of the function has this name.
        """
        handle: H = self._handle(state_descriptor, "value")
        return handle

    def get_list_state(self, state_descriptor: Describes[H]) -> H:
        """The ListState of a ListStateDescriptor, for the current key."""
        handle: H = self._handle(state_descriptor, "list")
        return handle

    def get_map_state(self, state_descriptor: Describes[H]) -> H:
        """The MapState of a MapStateDescriptor, for the current key."""
        handle: H = self._handle(state_descriptor, "map")
        return handle

    def get_reducing_state(self, state_descriptor: Describes[H]) -> H:
        """The ReducingState of a ReducingStateDescriptor, for the current key."""
        handle: H = self._handle(state_descriptor, "reducing")
        return handle

    def get_aggregating_state(self, state_descriptor: Any) -> Any:
        """The AggregatingState of an AggregatingStateDescriptor, for the current key."""
        return self._handle(state_descriptor, "aggregating")

    def _handle(self, descriptor: Descriptor, kind: str) -> Any:
        spec = self._checked(descriptor, kind)
        return self._ctx.store.handle(descriptor.name, spec)

    def _checked(self, descriptor: Descriptor, kind: str) -> StateSpec:
        if not self._keyed:
            raise ValidationException(
                f"state {getattr(descriptor, 'name', descriptor)!r} belongs to a key, and the input of "
                f"{self._ctx.operator_name!r} has none: use key_by() before it"
            )
        spec = spec_of(descriptor)
        if spec.kind != kind:
            raise ValidationException(f"{descriptor.name!r} is declared as {spec.kind} state, not as {kind} state")
        before = self._names.get(descriptor.name)
        if before is not None and before.kind != spec.kind:
            raise ValidationException(
                f"two states of {self._ctx.operator_name!r} are named {descriptor.name!r}: "
                f"a {before.kind} state and a {spec.kind} state"
            )
        self._names[descriptor.name] = spec
        return spec


def spec_of(descriptor: Any) -> StateSpec:
    """What a state descriptor declares.

    Raises:
        ValidationException: it is no state descriptor.
    """
    spec = getattr(descriptor, "spec", None)
    if not isinstance(spec, StateSpec):
        raise ValidationException(f"a state descriptor is needed (streamline.state), not {descriptor!r}")
    return spec


class OperatorStateStore:
    """State that belongs to a subtask and not to a key."""

    __slots__ = ("_store",)

    def __init__(self, store: OperatorStore) -> None:
        self._store = store

    def get_list_state(self, state_descriptor: Any) -> list[Any]:
        """A list that is split evenly over the subtasks when the parallelism changes. Change it in place."""
        return self._store.list_state(state_descriptor.name, spec_of(state_descriptor))

    def get_union_list_state(self, state_descriptor: Any) -> list[Any]:
        """A list of which every subtask gets all elements when the job is restored. Change it in place."""
        return self._store.union_state(state_descriptor.name, spec_of(state_descriptor))

    def get_broadcast_state(self, state_descriptor: Any) -> dict[Any, Any]:
        """A mapping that is the same in every subtask. Change it in place."""
        return self._store.broadcast_state(state_descriptor.name, spec_of(state_descriptor))


class FunctionInitializationContext:
    """Given to `initialize_state` of a CheckpointedFunction, before `open`."""

    __slots__ = ("_ctx", "_keyed")

    def __init__(self, ctx: OperatorContext, keyed: bool) -> None:
        self._ctx = ctx
        self._keyed = keyed

    def is_restored(self) -> bool:
        """Whether there is state of an earlier run."""
        return self._ctx.restored

    def get_operator_state_store(self) -> OperatorStateStore:
        """Where operator state is kept."""
        return OperatorStateStore(self._ctx.operator_store)

    def get_keyed_state_store(self) -> RuntimeContext:
        """Where keyed state is kept: it has `get_state`, `get_list_state` and so on."""
        return RuntimeContext(self._ctx, self._keyed)


class FunctionSnapshotContext:
    """Given to `snapshot_state` of a CheckpointedFunction, at a barrier."""

    __slots__ = ("_id", "_timestamp")

    def __init__(self, checkpoint_id: int, timestamp: int) -> None:
        self._id = checkpoint_id
        self._timestamp = timestamp

    def get_checkpoint_id(self) -> int:
        """The checkpoint's number."""
        return self._id

    def get_checkpoint_timestamp(self) -> int:
        """When it was triggered, epoch milliseconds."""
        return self._timestamp


def keyed_store(ctx: OperatorContext) -> KeyedStore:
    """The keyed store of a context."""
    return ctx.store
