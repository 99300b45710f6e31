"""Stream processing inside asyncio services, with Flink's semantics."""

# The layers, from the bottom; who may import whom is held by tests/test_layers.py:
#
#   errors <- _core <- abc <- _channel, _state, _operators, connectors      (these four never see one another)
#                             _channel <- _graph        _channel, _state, _graph <- _runtime
#                             _operators, _graph, _runtime.execute <- stream, table
#                             stream <- table.bridge    everything <- testing <- nothing
