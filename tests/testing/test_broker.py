"""The broker for tests and demos: which one is taken, and that it ends with whoever started it."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from streamline.testing import _process, broker
from streamline.testing._kafka_node import KafkaNode, Unavailable
from streamline.testing._process import Child, OwnedFolder, broker_answers, free_ports, remove_leftovers
from streamline.testing.broker import Broker, BrokerError, open_broker, start_broker

needs_noida = pytest.mark.skipif(broker._noida_binary() is None, reason="noida-db is not installed")


@pytest.fixture(autouse=True)
def no_choice_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMLINE_KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.delenv("STREAMLINE_TEST_BROKER", raising=False)


@needs_noida
def test_runs_while_the_context_is_open() -> None:
    with start_broker("noida") as b:
        host, port = b.bootstrap.split(":")
        assert broker_answers(host, int(port))
        assert (b.kind, b.is_apache_kafka) == ("noida", False)
        assert b.describe() == f"noida-db 0.2.3 at {b.bootstrap}"
    assert not broker_answers(host, int(port))


@needs_noida
async def test_async_form_kills_and_restarts_on_the_same_address() -> None:
    async with open_broker("noida") as b:
        host, port = b.bootstrap.split(":")
        b.kill()
        assert not broker_answers(host, int(port))
        await b.restart()
        assert broker_answers(host, int(port))
    assert not broker_answers(host, int(port))


@pytest.mark.apache_kafka
async def test_apache_kafka_keeps_its_records_over_a_crash(kafka_broker: Broker) -> None:
    if kafka_broker.kind != "apache-kafka":
        pytest.skip(f"starts a node of its own; {kafka_broker.title} runs")
    from streamline.testing.kafka import KafkaKit

    async with open_broker("apache-kafka") as b:
        kit = KafkaKit(b)
        topic = await kit.create_topic()
        await kit.produce(topic, [(None, str(i)) for i in range(20)])
        b.kill()
        await b.restart()
        assert await kit.values(topic) == [str(i).encode() for i in range(20)]


@needs_noida
def test_cluster_of_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with start_broker("noida") as own:
        monkeypatch.setenv("STREAMLINE_KAFKA_BOOTSTRAP", own.bootstrap)
        with start_broker() as b:
            assert (b.kind, b.bootstrap) == ("cluster", own.bootstrap)
            with pytest.raises(BrokerError, match="not for tests to crash"):
                b.kill()
        host, port = own.bootstrap.split(":")
        assert broker_answers(host, int(port)), "a cluster is not ours to stop"


def test_cluster_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    monkeypatch.setenv("STREAMLINE_KAFKA_BOOTSTRAP", address)
    with pytest.raises(BrokerError, match=f"STREAMLINE_KAFKA_BOOTSTRAP is '{address}', and no Kafka broker answers"):
        start_broker().__enter__()


def test_unknown_kind_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLINE_TEST_BROKER", "rabbit")
    with pytest.raises(BrokerError, match="'rabbit' is not a kind of broker; there are cluster, apache-kafka, noida"):
        start_broker().__enter__()


def test_says_what_each_kind_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(broker, "_noida_binary", lambda: None)
    with pytest.raises(BrokerError) as e:
        start_broker().__enter__()
    text = str(e.value)
    assert "Apache Kafka 4.4.0: no Java on PATH or in JAVA_HOME" in text
    assert "noida-db: the package noida-db is not installed" in text
    assert "Install Java 17+ and Maven" in text


@needs_noida
def test_falls_back_and_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with start_broker() as b:
        assert b.kind == "noida"
        assert "Apache Kafka 4.4.0: no Java on PATH" in b.describe()


@pytest.mark.parametrize(("banner", "reason"), [
    ('openjdk version "11.0.2" 2019-01-15', r"Java 17 or later is needed, .* is 11\.0\.2"),
    ('java version "1.8.0_352"', r"Java 17 or later is needed, .* is 8\.0_352"),
    ("gibberish", "is of an unknown version"),
])  # fmt: skip
def test_old_java_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, banner: str, reason: str) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Unavailable, match=reason):
        KafkaNode("4.4.0", {}).prepare()


def test_maven_that_fails_leaves_nothing_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, script in {
        "java": "echo 'openjdk version \"21\"' >&2",
        "mvn": "echo '[INFO] looking'; echo '[ERROR] no such repository'; exit 1",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Unavailable, match=r"Maven could not get its jars: \[ERROR\] no such repository"):
        KafkaNode("4.4.0", {}).prepare()
    assert list((tmp_path / "cache" / "streamline").iterdir()) == []


@needs_noida
def test_port_taken_meanwhile_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        given = iter([[taken], free_ports(1)])
        monkeypatch.setattr(broker, "free_ports", lambda count: next(given))
        with start_broker("noida") as b:
            assert b.bootstrap != f"127.0.0.1:{taken}"


@needs_noida
def test_start_that_fails_shows_what_the_server_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(self: object, folder: Path, ports: list[int]) -> list[str]:
        return ["/bin/sh", "-c", "echo no room on the device; exit 3"]

    monkeypatch.setattr(broker._Noida, "command", command)
    with pytest.raises(BrokerError, match="ended with exit code 3 as it started:\nno room on the device"):
        start_broker("noida").__enter__()


_OWNER = """
import sys
from pathlib import Path
from streamline.testing._process import Child, OwnedFolder
folder = OwnedFolder()
child = Child(["sleep", "600"], folder.path, folder.path / "log", watchdog=sys.argv[1] == "watchdog")
print(child.pid, folder.path, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process that is no child by its pidfd")
@pytest.mark.parametrize("guard", ["kernel", "watchdog"])
def test_server_dies_with_a_killed_owner_and_the_next_run_cleans_up(guard: str) -> None:
    if guard == "kernel" and sys.platform != "linux":
        pytest.skip("the signal is Linux's")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", _OWNER, guard], **pipes) as owner:
        pid, path = owner.stdout.readline().split()
        assert Path(path) not in remove_leftovers(), "its owner lives"
        server = os.pidfd_open(int(pid))
        owner.kill()
    try:
        assert select.select([server], [], [], 10)[0], "the server outlived its owner"
    finally:
        os.close(server)
    if guard == "kernel":
        assert Path(path) in remove_leftovers()
    assert not any(p.name == Path(path).name for p in Path(path).parent.iterdir()) or guard == "watchdog"


def test_server_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    script = "trap '' TERM; echo up; while :; do read x < fifo; done"
    os.mkfifo(tmp_path / "fifo")
    child = Child(["sh", "-c", script], tmp_path, tmp_path / "log")
    while "up" not in child.log_text():
        assert child.exit_code(0.01) is None
    assert child.stop(wait_seconds=0.2) == -signal.SIGKILL


def test_removing_a_folder_twice_does_nothing() -> None:
    folder = OwnedFolder()
    (folder.path / "data").mkdir()
    folder.remove()
    folder.remove()
    assert not folder.path.exists()


def test_answer_that_is_no_metadata_is_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not broker_answers("127.0.0.1", port, timeout_seconds=0.05), "accepts, says nothing"
    assert not broker_answers("127.0.0.1", port)
    assert _process.free_ports(3)
