"""Streams as places in a graph: what an operator is attached to, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from streamline._channel.partition import Forward, PartitionSpec
from streamline._graph.stream_graph import Edge, Node
from streamline.abc import Operator
from streamline.errors import ValidationException
from streamline.stream.adapt import event_time_of, text_of

if TYPE_CHECKING:
    from streamline.stream.config import ExecutionConfig
    from streamline.stream.environment import StreamExecutionEnvironment

__all__ = ("Origin", "Stream", "StreamNode")

S = TypeVar("S", bound="StreamNode")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where records come from: a node's main output or one of its side outputs, and how the next edge parts them."""

    node: int
    side: str | None = None
    partition: PartitionSpec | None = None

    def edge(self, target_input: int = 0, partition: PartitionSpec | None = None) -> Edge:
        """The edge into an input of the next node."""
        return Edge(self.node, 0, target_input, partition or self.partition or Forward(), self.side)


class StreamNode:
    """Something that is a node of the graph: it has a name, a uid, a parallelism."""

    _env: StreamExecutionEnvironment

    def _node_id(self) -> int:
        raise NotImplementedError

    @property
    def node(self) -> Node:
        """The node of the graph.

        Raises:
            ValidationException: it is none, e.g. a union.
        """
        return self._env.graph.nodes[self._node_id()]

    def _set(self: S, **changes: Any) -> S:
        self._env.graph.update(self._node_id(), **changes)
        return self

    def get_name(self) -> str:
        """The operator's name."""
        return self.node.name

    def name(self: S, name: str) -> S:
        """Name the operator: shown in errors, logs, metrics and explain.

        Raises:
            ValidationException: it is no text.
        """
        return self._set(name=text_of(name, "name"))

    def uid(self: S, uid: str) -> S:
        """Name the operator for its state: a restored job finds it again by this name.

        Raises:
            ValidationException: another operator of the environment has it, or it is no text.
        """
        text_of(uid, "uid")
        for node in self._env.graph.nodes.values():
            if node.uid == uid and node.id != self._node_id():
                raise ValidationException(f"two operators have the uid {uid!r}: {node.name!r} and {self.get_name()!r}")
        return self._set(uid=uid)

    def set_uid_hash(self: S, uid_hash: str) -> S:
        """The same as `uid`."""
        return self.uid(uid_hash)

    def set_description(self: S, description: str) -> S:
        """What explain prints below the name."""
        return self._set(description=description)

    def set_parallelism(self: S, parallelism: int) -> S:
        """The operator's number of subtasks.

        Raises:
            ValidationException: not positive; or not 1 for an operator that cannot be parallel.
        """
        if type(parallelism) is not int or parallelism < 1:
            raise ValidationException(f"the parallelism has to be positive (an int), not {parallelism!r}")
        node = self.node
        if parallelism != 1 and dict(node.options).get("non_parallel"):
            raise ValidationException(f"the parallelism of non parallel operator {node.name!r} must be 1")
        return self._set(parallelism=parallelism)

    def set_max_parallelism(self: S, max_parallelism: int) -> S:
        """The number of key groups: the highest parallelism that the operator's state can ever be restored at."""
        if type(max_parallelism) is not int or not 1 <= max_parallelism <= 32768:
            raise ValidationException(f"the max parallelism has to be an int in 1..32768, not {max_parallelism!r}")
        return self._set(max_parallelism=max_parallelism)

    def force_non_parallel(self: S) -> S:
        """One subtask, whatever the environment's parallelism."""
        node = self.node
        return self._set(parallelism=1, max_parallelism=1, options=(*node.options, ("non_parallel", True)))

    # Accepted and without effect: every operator is a task of its own, and channels carry batches.

    def disable_chaining(self: S) -> S:
        """No effect: operators are not chained."""
        return self

    def start_new_chain(self: S) -> S:
        """No effect: operators are not chained."""
        return self

    def slot_sharing_group(self: S, slot_sharing_group: Any) -> S:
        """Refused: there are no slots.

        Raises:
            ValidationException: always.
        """
        raise ValidationException(
            "slot sharing groups are not supported: all subtasks of a job share one event loop; remove the call"
        )

    def set_buffer_timeout(self: S, timeout_millis: int) -> S:
        """No effect: a record is never held back to fill a buffer."""
        return self


class Stream:
    """Records that come from one or more places of the graph."""

    def __init__(self, env: StreamExecutionEnvironment, origins: Sequence[Origin], element_type: Any = None) -> None:
        self._env = env
        self._origins = tuple(origins)
        self._type = element_type

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment it belongs to."""
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        """Options of execution, by method."""
        return self._env.get_config()

    def element_type(self) -> Any:
        """Type of the records (a TypeInformation, a Python type, or None where it is not known)."""
        return self._type

    get_type = element_type

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where its records come from."""
        return self._origins

    @property
    def event_time(self) -> str:
        """Whether its records carry timestamps: "yes", "no", or "ends" where `no_watermarks()` was said."""
        nodes = self._env.graph.nodes
        return event_time_of([nodes[o.node].event_time for o in self._origins])

    def _edges(self, target_input: int = 0, partition: PartitionSpec | None = None) -> list[Edge]:
        return [o.edge(target_input, partition) for o in self._origins]

    def _parted(self, partition: PartitionSpec) -> list[Origin]:
        return [replace(o, partition=partition) for o in self._origins]

    def _attach(
        self,
        name: str,
        operator: Callable[[], Operator],
        *,
        output_type: Any = None,
        kind: Literal["operator", "sink"] = "operator",
        key: tuple[Callable[[Any], Any] | None, ...] = (),
        edges: Sequence[Edge] | None = None,
        event_time: str | None = None,
        description: str = "",
        non_parallel: bool = False,
        options: tuple[tuple[str, Any], ...] = (),
    ) -> Node:
        """Add an operator behind this stream; it is made once here, so that what is wrong with it is said here."""
        operator()
        if edges is None:
            edges = self._edges()
        for edge in edges:
            if edge.source not in self._env.graph.nodes:
                raise ValidationException(f"{name}: the streams belong to different environments")
        return self._env.graph.add(
            Node(
                0,
                name,
                kind,
                operator,
                key=key,
                output_type=output_type,
                event_time=self.event_time if event_time is None else event_time,
                description=description,
                parallelism=1 if non_parallel else None,
                options=(*options, ("non_parallel", True)) if non_parallel else options,
            ),
            *edges,
        )
