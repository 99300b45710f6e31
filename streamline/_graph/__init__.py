"""L2: the job as a graph of nodes and edges, before anything runs. Imports abc, _core and _channel.partition."""
