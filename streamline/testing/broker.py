"""A Kafka-protocol broker over TCP for tests and demos, on this machine.

The first that is there is taken:

1. the cluster that the environment variable STREAMLINE_KAFKA_BOOTSTRAP names;
2. Apache Kafka, one KRaft node, where Java 17+ and Maven are found;
3. the embedded broker of the package `noida-db` (development extra).

STREAMLINE_TEST_BROKER (`cluster`, `apache-kafka` or `noida`) asks for one kind and no other.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Final, Literal, Protocol, get_args

from anyio import CancelScope, to_thread

from streamline.errors import StreamlineError
from streamline.testing._kafka_node import VERSIONS, KafkaNode, Unavailable
from streamline.testing._process import Child, OwnedFolder, broker_answers, free_ports, remove_leftovers

__all__ = ("Broker", "BrokerError", "BrokerKind", "open_broker", "start_broker")

BrokerKind = Literal["cluster", "apache-kafka", "noida"]

_START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_PORT_TRIES: Final = 5


class BrokerError(StreamlineError):
    """No broker could be started; the text says what was tried and what each lacked."""


@dataclass(frozen=True)
class Broker:
    """A broker that answers.

    Attributes:
        bootstrap: `host:port` (several, separated by commas, where the user's cluster is given so).
        kind: "cluster" (the user's own), "apache-kafka" or "noida".
        title: product and version.
        passed_over: why kinds earlier in the order were not taken.
    """

    bootstrap: str
    kind: BrokerKind
    title: str
    passed_over: tuple[str, ...] = ()
    _launch: _Launch | None = field(default=None, repr=False, compare=False)

    @property
    def is_apache_kafka(self) -> bool:
        """Whether it is Kafka itself, or a cluster that the user vouches for, with groups and transaction timeouts."""
        return self.kind != "noida"

    def describe(self) -> str:
        """One line for people: what runs where, and why nothing better."""
        text = f"{self.title} at {self.bootstrap}"
        return f"{text} ({'; '.join(self.passed_over)})" if self.passed_over else text

    def kill(self) -> None:
        """End it as a crash would (SIGKILL); its data stays for `restart`."""
        self._own().kill()

    async def restart(self) -> None:
        """Start it again on the same address and data, after `kill`."""
        launch = self._own()
        launch.spawn(again=True)
        await to_thread.run_sync(launch.wait_ready, abandon_on_cancel=True)

    def _own(self) -> _Launch:
        if self._launch is None:
            raise BrokerError(f"{self.title} was not started here, and is not for tests to crash")
        return self._launch


class _Server(Protocol):
    """A product that can be started."""

    @property
    def kind(self) -> BrokerKind: ...
    @property
    def title(self) -> str: ...
    @property
    def ports(self) -> int: ...
    def prepare(self) -> None: ...
    def abandon(self) -> None: ...
    def command(self, folder: Path, ports: list[int]) -> list[str]: ...
    def stopped(self, folder: Path) -> None: ...
    def port_is_taken(self, log: str) -> bool: ...


class _Noida:
    """The embedded broker: a binary inside its package, started directly (its command is only a wrapper)."""

    kind: Final[BrokerKind] = "noida"
    ports: Final = 1

    def __init__(self) -> None:
        self.title: Final = f"noida-db {distribution_version('noida-db')}" if _noida_binary() else "noida-db"

    def prepare(self) -> None:
        binary = _noida_binary()
        if binary is None:
            raise Unavailable("the package noida-db is not installed")
        if not os.access(binary, os.X_OK):
            binary.chmod(0o755)  # wheels do not keep the mode everywhere

    def abandon(self) -> None:
        pass

    def command(self, folder: Path, ports: list[int]) -> list[str]:
        options = ["--only", "kafka", "--kafka-port", str(ports[0]), "--data-dir", str(folder / "data")]
        return [str(_noida_binary()), "start", *options]

    def stopped(self, folder: Path) -> None:
        pass

    def port_is_taken(self, log: str) -> bool:
        return "already in use" in log


def _noida_binary() -> Path | None:
    spec = importlib.util.find_spec("noida_db")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(place) / "noida-db"
        if binary.is_file():
            return binary
    return None


class _Launch:
    """The steps of one start; the two context managers differ only in where they wait.

    `spawn` belongs to the thread that lives as long as the broker should: the kernel ends the broker with that thread.
    """

    def __init__(self, kind: BrokerKind | None, properties: Mapping[str, str] | None) -> None:
        wanted = kind or os.environ.get("STREAMLINE_TEST_BROKER") or None
        if wanted is not None and wanted not in get_args(BrokerKind):
            raise BrokerError(f"{wanted!r} is not a kind of broker; there are {', '.join(get_args(BrokerKind))}")
        self._wanted = wanted
        self._bootstrap = os.environ.get("STREAMLINE_KAFKA_BOOTSTRAP", "").strip()
        self._servers: list[_Server] = [KafkaNode(v, properties or {}) for v in VERSIONS]
        self._servers.append(_Noida())
        self._server: _Server | None = None
        self._passed_over: list[str] = []
        self._folder: OwnedFolder | None = None
        self._ports: list[int] = []
        self._tries = 0
        self._ready = False
        self._stopping = threading.Event()
        self.child: Child | None = None

    def choose(self) -> Broker | None:
        """Find the broker to take (seconds where Maven has to fetch); the broker itself if it runs already."""
        if self._wanted in (None, "cluster"):
            if self._bootstrap:
                return self._cluster()
            if self._wanted == "cluster":
                raise BrokerError("STREAMLINE_KAFKA_BOOTSTRAP is not set; it is the host:port of your cluster")
        for server in self._servers:
            if self._wanted in (None, server.kind) and not self._stopping.is_set():
                try:
                    server.prepare()
                except Unavailable as e:
                    self._passed_over.append(f"{server.title}: {e}")
                    continue
                self._server = server
                return None
        raise BrokerError(
            "no Kafka broker can be had here:\n  "
            + "\n  ".join(self._passed_over)
            + "\nInstall Java 17+ and Maven, or `pip install noida-db==0.2.3`, or set STREAMLINE_KAFKA_BOOTSTRAP to "
            "the host:port of a cluster."
        )

    def _cluster(self) -> Broker:
        for address in self._bootstrap.split(","):
            host, _, port = address.strip().rpartition(":")
            if host and port.isdigit() and broker_answers(host.strip("[]"), int(port), 10.0):
                return Broker(self._bootstrap, "cluster", "the cluster of STREAMLINE_KAFKA_BOOTSTRAP")
        raise BrokerError(
            f"STREAMLINE_KAFKA_BOOTSTRAP is {self._bootstrap!r}, and no Kafka broker answers there. "
            "It is host:port of a plaintext listener, or several separated by commas."
        )

    def spawn(self, again: bool = False) -> None:
        """Start the process; `again` on the ports it had."""
        assert self._server is not None
        if self._folder is None:
            remove_leftovers()
            self._folder = OwnedFolder()
            atexit.register(self.stop)
        if not again:
            self._ports = free_ports(self._server.ports)
        self._tries += 1
        log = self._folder.path / f"log-{self._tries}.txt"
        self.child = Child(self._server.command(self._folder.path, self._ports), self._folder.path, log)

    def wait_ready(self) -> Broker | None:
        """Wait until it answers; None where another process took a port meanwhile and it has to start again."""
        assert self._server is not None and self.child is not None
        for _ in range(int(_START_SECONDS / _POLL_SECONDS)):
            code = self.child.exit_code(_POLL_SECONDS)
            if code is not None:
                log = self.child.log_text()
                if not self._ready and self._server.port_is_taken(log) and self._tries < _PORT_TRIES:
                    return None
                raise BrokerError(f"{self._server.title} ended with exit code {code} as it started:\n{log}")
            if broker_answers("127.0.0.1", self._ports[0]):
                self._ready = True
                address = f"127.0.0.1:{self._ports[0]}"
                return Broker(address, self._server.kind, self._server.title, tuple(self._passed_over), self)
            if self._stopping.is_set():
                break
        raise BrokerError(
            f"{self._server.title} did not answer within {_START_SECONDS:.0f} seconds of its start; it printed:\n"
            + self.child.log_text()
        )

    def kill(self) -> None:
        """End the process at once."""
        assert self.child is not None
        self.child.kill()

    def stop(self) -> None:
        """Stop the broker and remove its folder; more than once does nothing."""
        self._stopping.set()
        for server in self._servers:
            server.abandon()
        if self._folder is None:
            return
        atexit.unregister(self.stop)
        if self.child is not None:
            self.child.stop()
            assert self._server is not None
            self._server.stopped(self._folder.path)
        self._folder.remove()


@contextlib.contextmanager
def start_broker(kind: BrokerKind | None = None, *, properties: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """Run a broker while the context is open; for session fixtures. Call it from the main thread.

    Args:
        kind: take this one and no other; None takes the first that is there.
        properties: further broker properties, for Apache Kafka.

    Raises:
        BrokerError: none could be started.
    """
    launch = _Launch(kind, properties)
    try:
        broker = launch.choose()
        while broker is None:
            launch.spawn()
            broker = launch.wait_ready()
        yield broker
    finally:
        launch.stop()


@contextlib.asynccontextmanager
async def open_broker(
    kind: BrokerKind | None = None, *, properties: Mapping[str, str] | None = None
) -> AsyncIterator[Broker]:
    """`start_broker` for a running event loop, which goes on while the broker starts and stops.

    Args:
        kind: take this one and no other; None takes the first that is there.
        properties: further broker properties, for Apache Kafka.

    Raises:
        BrokerError: none could be started.
    """
    launch = _Launch(kind, properties)
    try:
        broker = await to_thread.run_sync(launch.choose, abandon_on_cancel=True)
        while broker is None:
            launch.spawn()  # in the loop's own thread: a worker thread may end before the broker should
            broker = await to_thread.run_sync(launch.wait_ready, abandon_on_cancel=True)
        yield broker
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(launch.stop)
