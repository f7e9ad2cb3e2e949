"""A real mongod with vector search in front of it, which only Atlas and a search server beside mongod have.

It speaks the real protocol over a real socket: all goes to the server as it came and comes back as it is, but for the
commands of search indexes and $vectorSearch. Those it answers itself, as the server's documentation has it.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Any

import numpy as np

from mindhold.testing.servers.mongo import MongoServer

_HEADER = struct.Struct("<iiii")
_MESSAGE = 2013


class VectorSearchProxy:
    """One before a running server; `url` leads to it. `asked` are the stages that it was sent."""

    def __init__(self, server: MongoServer) -> None:
        self._server = server
        self._replies = count(1_000_000)
        self._indexes: dict[str, list[dict[str, Any]]] = {}
        self._known: set[Any] | None = None
        self.asked: list[dict[str, Any]] = []
        proxy = self

        class Line(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                proxy._carry(self.request)

        socketserver.ThreadingTCPServer.allow_reuse_address = True
        self._listener = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Line)
        self._listener.daemon_threads = True
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        port = self._listener.server_address[1]
        return f"mongodb://127.0.0.1:{port}/?directConnection=true"

    def lag(self, database: str, collection: str) -> None:
        """From now on the index knows no record that isn't there already, as one that is behind."""
        with self._client() as client:
            self._known = set(client[database][collection].distinct("_id"))

    def __enter__(self) -> VectorSearchProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()

    def _client(self) -> Any:
        from pymongo import MongoClient

        return MongoClient[dict[str, Any]](self._server.url)

    def _carry(self, line: socket.socket) -> None:
        """One client's connection, with one of its own to the server."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._server.port)) as upstream:
            back = threading.Thread(target=_pump, args=(upstream, line), daemon=True)
            back.start()
            while (message := _received(line)) is not None:
                answer = self._answered(message)
                if answer is None:
                    upstream.sendall(message)
                else:
                    line.sendall(answer)
            upstream.shutdown(socket.SHUT_RDWR)
            back.join()

    def _answered(self, message: bytes) -> bytes | None:
        """The reply to what the server doesn't know; None for all else."""
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
        place = f"{command.get('$db')}.{command.get(name)}"
        if name == "createSearchIndexes":
            made = self._indexes.setdefault(place, [])
            for index in command["indexes"]:
                made.append(
                    {"name": index["name"], "latestDefinition": index["definition"], "queryable": True}
                )
            return {"indexesCreated": [{"name": index["name"]} for index in command["indexes"]]}
        if name != "aggregate" or not command["pipeline"]:
            return None
        stage, body = next(iter(command["pipeline"][0].items()))
        if stage == "$listSearchIndexes":
            found: list[Any] = self._indexes.get(place, [])
        elif stage == "$vectorSearch":
            self.asked.append(body)
            found = self._searched(command, body)
        else:
            return None
        return {"cursor": {"id": 0, "ns": place, "firstBatch": found}}

    def _searched(self, command: Mapping[str, Any], asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        place = f"{command['$db']}.{command['aggregate']}"
        (index,) = [one for one in self._indexes[place] if one["name"] == asked["index"]]
        filtered = {
            field["path"] for field in index["latestDefinition"]["fields"] if field["type"] == "filter"
        }
        assert _fields(asked["filter"]) <= filtered, "a filter over a field that is not in the index"
        assert asked["limit"] <= asked["numCandidates"] <= 10_000
        wanted = np.array(asked["queryVector"], dtype=np.float32)
        with self._client() as client:
            collection = client[command["$db"]][command["aggregate"]]
            scored = []
            for document in collection.find(asked["filter"], {asked["path"]: 1}):
                vector = _vector(document.get(asked["path"]))
                known = self._known is None or document["_id"] in self._known
                if known and vector is not None and len(vector) == len(wanted):
                    scored.append((float(vector @ wanted), document["_id"]))
            best = [key for _, key in sorted(scored, key=lambda one: -one[0])[: asked["limit"]]]
            return list(collection.aggregate([{"$match": {"_id": {"$in": best}}}, *command["pipeline"][1:]]))


def _vector(value: Any) -> Any:
    """As the index reads it: numbers of four bytes after two that say so."""
    return None if not value else np.frombuffer(value, dtype="<f4", offset=2)


def _fields(condition: Any) -> set[str]:
    if isinstance(condition, Mapping):
        inner = [_fields(value) for key, value in condition.items() if key in ("$and", "$or")]
        return {key for key in condition if not key.startswith("$")}.union(*inner)
    return set().union(*map(_fields, condition)) if isinstance(condition, list) else set()


def _received(line: socket.socket) -> bytes | None:
    """One message; None when there are no more."""
    head = _exactly(line, _HEADER.size)
    if head is None:
        return None
    rest = _exactly(line, _HEADER.unpack(head)[0] - _HEADER.size)
    return None if rest is None else head + rest


def _exactly(line: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        try:
            part = line.recv(min(size, 1 << 20))
        except OSError:
            return None
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(1 << 16):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
