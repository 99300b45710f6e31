"""A server process that belongs to a test run: its folder, its ports, its end.

Whatever ends the run, the server ends too: the context manager stops it, `atexit` does where no one left the context,
and a `kill -9` of the run is met by the kernel (Linux) or by a watchdog at the end of a pipe (elsewhere). What a killed
run left on disk is removed by the next one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

__all__ = ("Child", "OwnedFolder", "broker_answers", "free_ports", "remove_leftovers")

_PREFIX: Final = "streamline-broker-"
_LOCK: Final = "owner.lock"

#: Run by the interpreter in front of the server: asks the kernel for SIGTERM when the thread that started it is gone
#: (prctl 1 is PR_SET_PDEATHSIG, 15 SIGTERM), looks whether it is gone already, and becomes the server. A separate
#: program, since code between fork and exec of a process with threads may deadlock.
_DIE_WITH_PARENT: Final = (
    "import ctypes,os,sys\n"
    "ctypes.CDLL(None).prctl(1,15)\n"
    "os.getppid()==int(sys.argv[1]) or sys.exit(1)\n"
    "os.execv(sys.argv[2],sys.argv[2:])\n"
)
#: Waits for the end of its input, which comes when every holder of the other end is gone.
_WATCHDOG: Final = 'cat >/dev/null; kill -TERM "$1"; sleep 5; kill -KILL "$1"; rm -rf "$2"'


class OwnedFolder:
    """A temporary folder that a later run may remove as soon as this process is gone.

    The owner is known by a lock on a file inside, not by its process id: ids come again, and differ between containers
    that share a temporary folder.
    """

    def __init__(self) -> None:
        self.path: Final = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Locked under another name first: a folder whose lock file nobody holds is a leftover.
        fresh = self.path / "fresh.lock"
        self._lock: IO[bytes] | None = fresh.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        fresh.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove it with all that is in it; more than once does nothing."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock.close()
            self._lock = None


def remove_leftovers() -> list[Path]:
    """Remove the folders of runs that are gone; returns what was removed."""
    removed = []
    for path in Path(tempfile.gettempdir()).glob(_PREFIX + "*"):
        try:
            with (path / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # held by a live run, another user's, or gone meanwhile
            continue
        removed.append(path)
    return removed


class Child:
    """A running server process.

    Args:
        command: program and arguments; the program is looked up on PATH.
        folder: its working folder.
        log: the file that takes what it prints.
        watchdog: guard it by a watchdog process instead of the kernel's signal; by default where there is no such
            signal.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, log: Path, *, watchdog: bool = sys.platform != "linux"
    ) -> None:
        program = shutil.which(command[0])
        if program is None:
            raise FileNotFoundError(f"no program {command[0]!r} on PATH")
        argv = [program, *command[1:]]
        if not watchdog:
            argv = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *argv]
        with log.open("ab") as output:
            # A session of its own: Ctrl-C in the terminal reaches the run, which stops the server in order.
            self._process = subprocess.Popen(
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._log = log
        self._watchdog: subprocess.Popen[bytes] | None = None
        if watchdog:
            self._watchdog = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHDOG, "sh", str(self._process.pid), str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def exit_code(self, wait_seconds: float = 0.0) -> int | None:
        """Its exit code, or None while it runs; waits for the end up to `wait_seconds`."""
        try:
            return self._process.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            return None

    def log_text(self, last: int = 4000) -> str:
        """The last characters of what it printed."""
        try:
            return self._log.read_bytes()[-last:].decode(errors="replace").strip()
        except OSError:
            return ""

    def stop(self, wait_seconds: float = 10.0) -> int:
        """End it, by force where it does not end within `wait_seconds`; returns its exit code."""
        if self._process.poll() is None:
            self._process.terminate()
            if self.exit_code(wait_seconds) is None:
                self._process.kill()
        code = self._process.wait()
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None
        return code

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL)."""
        self._process.kill()
        self.stop()


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now; another process may take one before its use."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def broker_answers(host: str, port: int, timeout_seconds: float = 1.0) -> bool:
    """Whether a Kafka broker at the address answers a Metadata request with at least one broker."""
    client = b"streamline"
    # Header: key 3 (Metadata), version 1, correlation id, client id. Body: an empty list, which asks for no topic.
    request = struct.pack(">hhih", 3, 1, 7, len(client)) + client + struct.pack(">i", 0)
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds) as s:
            s.sendall(struct.pack(">i", len(request)) + request)
            reply = b""
            while len(reply) < 12:  # length, correlation id, number of brokers
                chunk = s.recv(4096)
                if not chunk:
                    return False
                reply += chunk
    except OSError:
        return False
    _, correlation, brokers = struct.unpack(">iii", reply[:12])
    return bool(correlation == 7 and brokers > 0)
