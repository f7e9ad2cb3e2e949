"""The servers that stores live on, started for the benchmark, and the settings of a database on each."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from benchmarks.environment import CACHE
from tests.support.server_program import NoServer

from mindhold.model.errors import MindholdError
from mindhold.settings.loader import variable_of

LOCAL, POSTGRES, MONGODB, REDIS = "local", "postgres", "mongodb", "redis"
STORES = (LOCAL, POSTGRES, MONGODB)
NAMES = {LOCAL: "SQLite", POSTGRES: "PostgreSQL", MONGODB: "MongoDB", REDIS: "Redis"}

# The servers of the tests make do with less. By itself a MongoDB takes half of the machine's memory.
_CACHE = "cache_size=1G"

Settings = dict[str, Any]


class Sites:
    """Those of the chosen stores that can be had; of the others `missing` says why."""

    def __init__(self, folder: Path, wanted: Sequence[str]) -> None:
        self.missing: dict[str, str] = {}
        self._folder = folder
        self._wanted = wanted
        self._stack = ExitStack()
        self._servers: dict[str, Any] = {}
        self._processes: dict[str, tuple[int, ...]] = {}

    def __enter__(self) -> Sites:
        starts: dict[str, Callable[[], Any]] = {
            POSTGRES: self._postgres,
            MONGODB: self._mongodb,
            REDIS: self._redis,
        }
        with ExitStack() as undone:
            undone.enter_context(self._stack)
            for name in self._wanted:
                if name in starts:
                    self._start(name, starts[name])
            undone.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, name: str, make: Callable[[], Any]) -> None:
        before = _children()
        try:
            self._servers[name] = self._stack.enter_context(make())
        except (MindholdError, NoServer, ImportError, OSError) as reason:
            self.missing[name] = str(reason)
        self._processes[name] = tuple(_children() - before)
        if name == MONGODB and name in self._servers:
            self._servers[name].command({"setParameter": 1, "wiredTigerEngineRuntimeConfig": _CACHE})

    def _postgres(self) -> Any:
        from tests.support.postgres_server import PostgresServer

        return PostgresServer(self._folder / POSTGRES, durable=True)

    def _mongodb(self) -> Any:
        from tests.support.mongo_server import MongoServer

        return MongoServer(self._folder / MONGODB, replica=True)

    def _redis(self) -> Any:
        from tests.support.redis_server import RedisServer

        return RedisServer(self._folder / REDIS)

    @property
    def stores(self) -> list[str]:
        """The stores that run."""
        return [name for name in STORES if name in self._wanted and name not in self.missing]

    @property
    def redis(self) -> bool:
        return REDIS in self._servers

    def processes(self, *servers: str) -> tuple[int, ...]:
        """Of those servers."""
        return tuple(process for server in servers for process in self._processes.get(server, ()))

    def settings(self, store: str, database: str) -> Settings:
        """What tells Mindhold to keep everything in that store, in an empty database of that name."""
        return {"store.mode": store, **self._reach(store, database)}

    def beside(self) -> Settings:
        """What tells it that Redis stands beside."""
        address = urlsplit(self._servers[REDIS].url)
        found = {"redis.enabled": True, "redis.host": address.hostname, "redis.port": address.port}
        return found | ({"redis.password": address.password} if address.password else {})

    def everywhere(self, database: str) -> Settings:
        """What tells it of every store that runs, home being the local one."""
        found = self.settings(LOCAL, database)
        for store in self.stores:
            found |= self._reach(store, database)
        return found

    def _reach(self, store: str, database: str) -> Settings:
        if store == LOCAL:
            return {"store.path": str(self._folder / f"{database}.db")}
        if store == MONGODB:
            url = self._servers[MONGODB].url
            return {"mongodb.mode": "external", "mongodb.uri": url, "mongodb.database": database}
        return {"postgres.url": self._database(database)}

    def copy_postgres(self, source: str, target: str) -> None:
        """Make a database anew, as another is that nobody is connected to."""
        server = self._servers[POSTGRES]
        server.drop_database(target)
        server.create_database(target, template=source)

    def _database(self, name: str) -> str:
        server = self._servers[POSTGRES]
        if not server.execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
            server.create_database(name)
        return str(server.url_of(name))


@contextmanager
def site_folder(name: str) -> Iterator[Path]:
    """A folder for servers' data, gone afterwards. A server that won't run as root needs a way into it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    closed = any(not folder.stat().st_mode & 0o001 for folder in (CACHE, *CACHE.parents))
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=None if closed else CACHE))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def variables(settings: Settings) -> dict[str, str]:
    """The same for the environment of a process."""
    return {variable_of(key): str(value) for key, value in settings.items()}
