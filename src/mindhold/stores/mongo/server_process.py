"""The keeper process, which runs a private mongod while any client uses it: `python -m mindhold.stores.mongo.server_process FOLDER LOG PROGRAM BYTES`."""

from __future__ import annotations

import json
import os
import re
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindhold.hooks.lease import try_lock

RUNNING = "running.json"  # addresses of mongod and its keeper; exists while they run
FAILED = "failed.txt"  # why mongod could not be started
HELLO, BYE, LAST, OTHERS = b"hello ", b"bye\n", b"stopped\n", b"others\n"
START_SECONDS = 30.0
LARGEST_LOG = 8 << 20  # bytes of one log file

_LOCK = "keeper.lock"
_PORT = "port"
_TURN_SECONDS = 0.1
_PORT_SECONDS = 10.0  # seconds to wait for a port that is in use: by a mongod that is ending, or briefly by another program
_FEWEST_SECONDS = 2.0  # a mongod that three times lives shorter than this is given up
_DATABASE_IN_USE, _PORT_IN_USE = 100, 48
_LOOK_SECONDS = 1.0  # between two checks of the log


@dataclass(frozen=True, slots=True)
class RunningMongod:
    """The contents of RUNNING."""

    port: int
    pid: int
    keeper_port: int
    keeper_pid: int
    token: str


def read_running(folder: Path) -> RunningMongod | None:
    try:
        return RunningMongod(**json.loads((folder / RUNNING).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


class MongodStopped(Exception):
    """mongod can't be kept running."""


class Keeper:
    """Runs one mongod and counts its users."""

    def __init__(self, folder: Path, log: Path, program: str, *, largest_log: int = LARGEST_LOG) -> None:
        self._folder = folder
        self._log = log
        self._largest_log = largest_log
        self._program = program
        self._token = secrets.token_hex(16)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._users: set[socket.socket] = set()
        self._last: socket.socket | None = None
        self._mongod: subprocess.Popen[bytes] | None = None
        self._port = 0

    def run(self) -> None:
        try:
            self._start()
            self._serve()
        except MongodStopped as error:
            write_private(self._folder / FAILED, str(error))
        finally:
            (self._folder / RUNNING).unlink(missing_ok=True)
            self._stop()

    def _serve(self) -> None:
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        nobody_until = time.monotonic() + START_SECONDS
        short_lives, started, looked = 0, time.monotonic(), time.monotonic()
        while self._users or time.monotonic() < nobody_until:
            for key, _ in self._selector.select(_TURN_SECONDS):
                if key.fileobj is self._listener:
                    self._welcome()
                elif isinstance(key.fileobj, socket.socket) and self._heard(key.fileobj):
                    nobody_until = 0.0
            if time.monotonic() - looked >= _LOOK_SECONDS:
                looked = time.monotonic()
                self._turn_log_over()
            if self._mongod is not None and self._mongod.poll() is not None:
                short_lives = short_lives + 1 if time.monotonic() - started < _FEWEST_SECONDS else 0
                if short_lives > 2:
                    raise MongodStopped(f"mongod ends again and again, status {self._mongod.returncode}.")
                self._start()
                started = time.monotonic()

    def _welcome(self) -> None:
        user, _ = self._listener.accept()
        user.settimeout(1.0)
        try:
            greeting = user.recv(256)
        except OSError:
            greeting = b""
        if greeting != HELLO + self._token.encode() + b"\n":
            user.close()
            return
        user.sendall(HELLO.strip() + b"\n")
        self._users.add(user)
        self._selector.register(user, selectors.EVENT_READ)

    def _heard(self, user: socket.socket) -> bool:
        """Handle a user's message. Returns whether it was the last user, who waits until mongod has stopped."""
        try:
            message = user.recv(64)
        except OSError:
            message = b""
        if message and message != BYE:
            return False
        self._selector.unregister(user)
        self._users.discard(user)
        last = not self._users
        if last:
            self._listener.close()  # nobody can connect from here on
            (self._folder / RUNNING).unlink(missing_ok=True)
            self._stop()
        with suppress(OSError):
            user.sendall(LAST if last else OTHERS)
        if last:
            self._last = user  # closed when this process ends, which its user waits for
        else:
            user.close()
        return last

    def _start(self) -> None:
        """Start mongod and wait until it accepts connections. Raises MongodStopped."""
        for _ in range(5):
            self._port = self._free_port()
            self._put_log_aside()
            self._mongod = subprocess.Popen(self._command(), **_detached())
            deadline = time.monotonic() + START_SECONDS
            while self._mongod.poll() is None and time.monotonic() < deadline:
                if _listens(self._port):
                    self._tell()
                    return
                time.sleep(0.02)
            status = self._mongod.poll()
            if status is None:
                self._stop()
                raise MongodStopped("mongod takes no connection in time.")
            if status == _DATABASE_IN_USE:
                self._end_orphan()
            elif status != _PORT_IN_USE:
                raise MongodStopped(f"mongod ended with status {status}.")
        raise MongodStopped("mongod can't be started: its data or its port is in use.")

    def _tell(self) -> None:
        assert self._mongod is not None
        write_private(self._folder / _PORT, str(self._port))
        running = {
            "port": self._port,
            "pid": self._mongod.pid,
            "keeper_port": self._listener.getsockname()[1],
            "keeper_pid": os.getpid(),
            "token": self._token,
        }
        (self._folder / FAILED).unlink(missing_ok=True)
        write_private(self._folder / RUNNING, json.dumps(running))

    def _command(self) -> list[str]:
        data = self._folder / "db"
        data.mkdir(mode=0o700, exist_ok=True)
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [self._program, "--dbpath", str(data), "--port", str(self._port), "--bind_ip", "127.0.0.1"]
        command += ["--auth", "--logpath", str(self._log), "--logappend", "--logRotate", "reopen", "--quiet"]
        command += ["--slowOpSampleRate", "0"]  # the log of slow operations would contain texts of memories
        command += ["--networkMessageCompressors", "snappy,zstd", "--wiredTigerCacheSizeGB", "0.25"]
        command += ["--setParameter", "diagnosticDataCollectionEnabled=false"]
        if sys.platform != "win32":
            command += ["--nounixsocket"]
        if _major(self._program) < 7:  # later versions don't have the option
            command += ["--enableFreeMonitoring", "off"]
        return command

    def _free_port(self) -> int:
        """The port that users of an earlier keeper know, after waiting for it to be free; otherwise any port."""
        deadline = time.monotonic() + _PORT_SECONDS
        with suppress(OSError, ValueError):
            port = self._port or int((self._folder / _PORT).read_text("ascii"))
            while time.monotonic() < deadline:
                if _is_free(port):
                    return port
                time.sleep(_TURN_SECONDS)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def _put_log_aside(self) -> bool:
        """Rename the log if it is full, replacing the older one. Returns whether it was full."""
        with suppress(OSError):
            if self._log.stat().st_size >= self._largest_log:
                self._log.replace(self._log.with_name(f"{self._log.name}.1"))
                return True
        return False

    def _turn_log_over(self) -> None:
        """Rotate the log while mongod writes to it. On Windows, where files in use can't be renamed, this waits for the next start."""
        reopen = getattr(signal, "SIGUSR1", None)
        if reopen is None or self._mongod is None:
            return
        # Again while there is no new file: mongod handles only one of two signals in quick succession.
        if self._put_log_aside() or not self._log.exists():
            self._mongod.send_signal(reopen)

    def _end_orphan(self) -> None:
        """Stop a mongod whose keeper was killed and which still holds the data; its lock file has its process id."""
        with suppress(OSError, ValueError):
            pid = int((self._folder / "db" / "mongod.lock").read_text("ascii"))
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.5)

    def _stop(self) -> None:
        if self._mongod is None:
            return
        self._mongod.terminate()
        try:
            self._mongod.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self._mongod.kill()
            self._mongod.wait()
        self._mongod = None


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable by its owner only."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    fresh.replace(path)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _major(program: str) -> int:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"db version v(\d+)", output)
    return int(match[1]) if match else 0


def _detached() -> dict[str, Any]:
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    if sys.platform == "win32":
        return quiet
    return {**quiet, "umask": 0o077, "preexec_fn": _end_with_parent if sys.platform == "linux" else None}


def _end_with_parent() -> None:
    """Make the system end mongod if the keeper is killed."""
    import ctypes

    parent_death_signal = 1
    ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGTERM)


def main(folder: str, log: str, program: str, largest_log: str = str(LARGEST_LOG)) -> None:
    descriptor = os.open(Path(folder) / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(descriptor, False)
    if try_lock(descriptor):  # held until this process ends
        Keeper(Path(folder), Path(log), program, largest_log=int(largest_log)).run()


if __name__ == "__main__":
    main(*sys.argv[1:5])
