"""Apache Kafka as one KRaft node: found, fetched by Maven once, formatted once, started many times.

The cache folder of a version holds `libs/` (the jars), `formatted/` (an empty, formatted data folder, copied for each
start, which saves the formatting) and `classes-<java>.jsa` (the class archive that the first run leaves; it halves the
start time).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

__all__ = ("VERSIONS", "KafkaNode", "Unavailable", "cache_folder")

#: Tried in this order.
VERSIONS: Final = ("4.4.0", "4.3.1")

_CLUSTER_ID: Final = "c3RyZWFtbGluZS10ZXN0cw"  # any 16 bytes in base64; the clusters never meet
#: A node that serves one test run: quick to start, small; the class loading is most of its start.
_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms64m", "-Xmx256m", "-Xss512k")
_LOGGING: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>streamline</groupId><artifactId>test-broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

_SINGLE: Final = {"replication.factor": "1", "min.isr": "1", "num.partitions": "1"}
_PROPERTIES: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    **{f"offsets.topic.{k}": v for k, v in _SINGLE.items() if k != "min.isr"},
    **{f"transaction.state.log.{k}": v for k, v in _SINGLE.items()},
    **{f"share.coordinator.state.topic.{k}": v for k, v in _SINGLE.items()},
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "auto.create.topics.enable": "false",
    # A crashed node may register again when its session has ended: nine seconds by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "2097152",
    # Ten seconds by default: tests of transactions that time out need not wait for it.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
}


class Unavailable(Exception):
    """A broker of this kind cannot be had here; the text says why."""


def cache_folder() -> Path:
    """Where streamline keeps what it fetched: `$XDG_CACHE_HOME/streamline`, else `~/.cache/streamline`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "streamline"


class KafkaNode:
    """One version of Apache Kafka on this machine.

    Args:
        version: of org.apache.kafka:kafka_2.13.
        extra: properties on top of those of a small single node.
    """

    kind: Final[Literal["apache-kafka"]] = "apache-kafka"
    ports: Final = 2

    def __init__(self, version: str, extra: Mapping[str, str]) -> None:
        self.title: Final = f"Apache Kafka {version}"
        self._version = version
        self._extra = extra
        self._home = cache_folder() / f"kafka-{version}"
        self._java = ""
        self._java_version = ""
        self._helper: subprocess.Popen[str] | None = None

    # -- what is there -------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Find Java, and fetch and format what the cache does not have yet; seconds the first time.

        Raises:
            Unavailable: no Java 17, no Maven, or Maven could not get the jars.
        """
        self._find_java()
        if self._home.joinpath("libs").is_dir():
            return
        maven = shutil.which("mvn")
        if maven is None:
            raise Unavailable("no Maven (mvn) on PATH")
        self._home.parent.mkdir(parents=True, exist_ok=True)
        # Made beside its place and moved there whole: a run that breaks off or runs at the same time does no harm.
        work = Path(tempfile.mkdtemp(prefix=f".kafka-{self._version}-", dir=self._home.parent))
        try:
            work.joinpath("pom.xml").write_text(_POM.format(version=self._version))
            goal = [
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                f"-DoutputDirectory={work / 'libs'}",
            ]
            self._run([maven, "-B", "-q", *goal], work, "Maven could not get its jars")
            config = work / "format.properties"
            config.write_text(self._config(work / "formatted", (9092, 9093)))
            arguments = ["format", "-g", "-t", _CLUSTER_ID, "-c", str(config)]
            tool = [self._java, _LOGGING, "-cp", _class_path(work / "libs"), "kafka.tools.StorageTool"]
            self._run([*tool, *arguments], work, "its storage could not be formatted")
            try:
                work.rename(self._home)
            except OSError:
                if not self._home.joinpath("libs").is_dir():
                    raise
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _find_java(self) -> None:
        home = os.environ.get("JAVA_HOME")
        java = shutil.which("java", path=str(Path(home) / "bin")) if home else None
        java = java or shutil.which("java")
        if java is None:
            raise Unavailable("no Java on PATH or in JAVA_HOME")
        text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
        match = re.search(r'version "(?:1\.)?((\d+)[^"]*)"', text)
        if match is None or int(match[2]) < 17:
            raise Unavailable(f"Java 17 or later is needed, {java} is {match[1] if match else 'of an unknown version'}")
        self._java, self._java_version = java, match[1]

    def _run(self, command: list[str], cwd: Path, failure: str) -> None:
        self._helper = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            output, _ = self._helper.communicate(timeout=300)
        except BaseException as e:
            self.abandon()
            if isinstance(e, subprocess.TimeoutExpired):
                raise Unavailable(f"{failure} within 300 seconds") from None
            raise
        if self._helper.returncode:
            raise Unavailable(f"{failure}: {_last_line(output)}")

    def abandon(self) -> None:
        """End a `prepare` that runs in another thread."""
        if self._helper is not None and self._helper.poll() is None:
            self._helper.kill()
            self._helper.communicate()

    # -- a node --------------------------------------------------------------------------------------------------

    def command(self, folder: Path, ports: list[int]) -> list[str]:
        """Write the node's configuration for these ports into its folder, and say how to start it."""
        data = folder / "data"
        if not data.exists():
            shutil.copytree(self._home / "formatted", data)
        config = folder / "server.properties"
        config.write_text(self._config(data, (ports[0], ports[1])))
        archive = self._archive()
        if archive.exists():
            sharing = [f"-XX:SharedArchiveFile={archive}"]
        else:
            sharing = [f"-XX:ArchiveClassesAtExit={folder / archive.name}"]
        quiet = (
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
        )  # an archive of another build of Java is simply not used
        libs = _class_path(self._home / "libs")
        return [self._java, *_JVM, *sharing, *quiet, _LOGGING, "-cp", libs, "kafka.Kafka", str(config)]

    def stopped(self, folder: Path) -> None:
        """Keep what a run leaves for the next ones: the class archive."""
        fresh, archive = folder / self._archive().name, self._archive()
        if fresh.exists() and not archive.exists():
            partial = archive.with_name(f".{folder.name}.jsa")  # may come from another file system
            shutil.copyfile(fresh, partial)
            partial.replace(archive)

    def port_is_taken(self, log: str) -> bool:
        """Whether a node that ended with this log had met another process on one of its ports."""
        return "Address already in use" in log

    def _archive(self) -> Path:
        return self._home / f"classes-{self._java_version}.jsa"

    def _config(self, data: Path, ports: tuple[int, int]) -> str:
        broker, controller = (f"127.0.0.1:{p}" for p in ports)
        properties = {
            **_PROPERTIES,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "log.dirs": str(data),
            **self._extra,
        }
        return "".join(f"{k}={v}\n" for k, v in properties.items())


def _class_path(libs: Path) -> str:
    # Written out, not as `libs/*`: a class archive is only valid for the same list in the same order.
    return os.pathsep.join(sorted(map(str, libs.glob("*.jar"))))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if "ERROR" in line] or text.strip().splitlines()
    return lines[0] if lines else "it said nothing"
