"""Stores for each storage mode, by their addresses: a path stands for a SQLite file, whatever the mode."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mindhold.app.application import App, open_app
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter, Vector
from mindhold.ports.store import Store
from mindhold.settings.loader import load_settings
from mindhold.stores.registry import OpenStoreRegistry, opened_store
from mindhold.stores.sqlite.store import SqliteStore

Addresses = Mapping[str, str]
CHILD = Path(__file__).with_name("dwelling_child.py")


def now() -> datetime:
    return datetime.now(UTC)


def store_at(address: str) -> Store:
    """The store of an address."""
    if address.startswith("postgresql://"):
        from mindhold.stores.postgres.store import PostgresStore

        return PostgresStore(address, clock=now, max_connections=6)
    if address.startswith("mongodb://"):
        from mindhold.stores.mongo.store import MongoStore

        uri, _, database = address.rpartition("#")
        return MongoStore(uri, clock=now, database=database)
    return SqliteStore(Path(address), clock=now, durability="normal")


def houses_at(addresses: Addresses, *, home: str = "local") -> OpenStoreRegistry:
    return OpenStoreRegistry(
        home,
        {
            mode: lambda address=address: opened_store(store_at(address))
            for mode, address in addresses.items()
        },
    )


def opened_at(folder: Path, addresses: Addresses, *, home: str = "local") -> AbstractAsyncContextManager[App]:
    """As one more process would."""
    settings = load_settings(
        {
            "home": folder,
            "time_zone": "UTC",
            "embedding.provider": "hashing",
            "history.claude_dir": str(folder.parent / "claude"),
        },
        environ={},
    )
    return open_app(settings, store_registry=houses_at(addresses, home=home))


async def contents(store: Store, project: str) -> dict[str, Any]:
    """Everything that a store has of a project."""
    where = Filter(viewer="system", scopes=(project,), statuses=ANY_STATUS)
    memories = [memory async for batch in store.scan(where) for memory in batch]
    ids = [memory.id for memory in memories]
    inside = set(ids)
    links = [
        link
        for link in await store.links_of(ids, viewer="system")
        if link.origin in inside and link.target in inside
    ]
    return {
        "memories": memories,
        "versions": await store.versions_among(ids),
        "links": sorted(links, key=lambda link: (link.origin, link.target, link.relation)),
    }


async def vectors(store: Store, project: str) -> dict[str, Vector]:
    """Those of a project."""
    where = Filter(viewer="system", scopes=(project,), statuses=ANY_STATUS)
    memories = [memory async for batch in store.scan(where) for memory in batch]
    found: dict[str, Vector] = {}
    for model in {memory.embedded_by for memory in memories if memory.embedded_by}:
        found |= await store.vector_of([memory.id for memory in memories], model=model)
    return found


class Child:
    """Another process that is told what to do, line by line, and may be killed."""

    def __init__(self, folder: Path, addresses: Addresses, *, home: str = "local") -> None:
        told = json.dumps({"folder": str(folder), "addresses": dict(addresses), "home": home})
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def tell(self, do: str, **arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()

    async def hear(self) -> dict[str, Any]:
        """The next thing that it says."""
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line, "it ended"
        said: dict[str, Any] = json.loads(line)
        return said

    def kill(self) -> list[dict[str, Any]]:
        """As a power switch would; returns what it had said by then and nobody heard."""
        assert self._process.stdout is not None
        self._process.kill()
        rest = self._process.stdout.read()
        self._process.wait(60)
        return [json.loads(line) for line in rest.splitlines() if line.endswith("}")]

    def end(self) -> list[dict[str, Any]]:
        """Let it finish what it is at."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        rest = self._process.stdout.read()
        self._process.wait(60)
        return [json.loads(line) for line in rest.splitlines() if line.endswith("}")]

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._process.kill()
        self._close()

    def _close(self) -> None:
        self._process.wait(60)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
