"""Stream processing inside asyncio services, with Flink's semantics."""

# The layers, from the bottom; who may import whom is held by tests/test_layers.py:
#
#   errors <- _core <- abc <- _channel, _state, _operators, connectors      (these four never see one another)
#                             _channel <- _graph        _channel, _state, _graph <- _runtime
#                             _operators, _graph, _runtime.execute, connectors.memory <- stream; without memory: table
#                             stream <- table.bridge    everything <- testing <- nothing

from streamline._core.changes import Row as Row
from streamline._core.changes import RowKind as RowKind
from streamline._core.config import Configuration as Configuration
from streamline._core.output_tag import OutputTag as OutputTag
from streamline._core.typeinfo import TypeInformation as TypeInformation
from streamline._core.typeinfo import Types as Types
from streamline._core.watermarks import WatermarkStrategy as WatermarkStrategy
from streamline._runtime.execute import JobExecutionResult as JobExecutionResult
from streamline._runtime.execute import JobHealth as JobHealth
from streamline._runtime.execute import JobStatus as JobStatus
from streamline.errors import CheckpointException as CheckpointException
from streamline.errors import SqlParserException as SqlParserException
from streamline.errors import StateEncodingException as StateEncodingException
from streamline.errors import StateMigrationException as StateMigrationException
from streamline.errors import StreamlineError as StreamlineError
from streamline.errors import TableException as TableException
from streamline.errors import ValidationException as ValidationException
from streamline.stream.async_io import AsyncDataStream as AsyncDataStream
from streamline.stream.config import CheckpointingMode as CheckpointingMode
from streamline.stream.config import ExternalizedCheckpointRetention as ExternalizedCheckpointRetention
from streamline.stream.config import RuntimeExecutionMode as RuntimeExecutionMode
from streamline.stream.connected import BroadcastConnectedStream as BroadcastConnectedStream
from streamline.stream.connected import BroadcastStream as BroadcastStream
from streamline.stream.connected import ConnectedStreams as ConnectedStreams
from streamline.stream.datastream import DataStream as DataStream
from streamline.stream.datastream import DataStreamSink as DataStreamSink
from streamline.stream.environment import StreamExecutionEnvironment as StreamExecutionEnvironment
from streamline.stream.job_client import JobClient as JobClient
from streamline.stream.joined import CoGroupedStreams as CoGroupedStreams
from streamline.stream.joined import JoinedStreams as JoinedStreams
from streamline.stream.keyed import KeyedStream as KeyedStream
from streamline.stream.partition_window import Order as Order
from streamline.stream.partition_window import PartitionWindowedStream as PartitionWindowedStream
from streamline.stream.windowed import AllWindowedStream as AllWindowedStream
from streamline.stream.windowed import WindowedStream as WindowedStream

__all__ = (
    "AllWindowedStream",
    "AsyncDataStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CheckpointException",
    "CheckpointingMode",
    "CoGroupedStreams",
    "Configuration",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "ExternalizedCheckpointRetention",
    "JobClient",
    "JobExecutionResult",
    "JobHealth",
    "JobStatus",
    "JoinedStreams",
    "KeyedStream",
    "Order",
    "OutputTag",
    "PartitionWindowedStream",
    "Row",
    "RowKind",
    "RuntimeExecutionMode",
    "SqlParserException",
    "StateEncodingException",
    "StateMigrationException",
    "StreamExecutionEnvironment",
    "StreamlineError",
    "TableException",
    "TypeInformation",
    "Types",
    "ValidationException",
    "WatermarkStrategy",
    "WindowedStream",
)
