"""Which store each storage mode stands for: settings in, stores out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import quote

from mindhold.model.errors import SettingsError
from mindhold.ports.clock import Clock
from mindhold.ports.houses import LOCAL, MONGODB, POSTGRES
from mindhold.ports.snapshot import House
from mindhold.settings.declared import PostgresSettings, Settings
from mindhold.stores.houses import Make, OpenHouses, kept_open
from mindhold.stores.sqlite.store import SqliteStore


def houses_of(settings: Settings, *, clock: Clock) -> OpenHouses:
    """Nothing is opened, and no driver imported, before a project needs it."""
    makers: dict[str, Make] = {
        LOCAL: lambda: kept_open(local_store(settings, clock=clock)),
        POSTGRES: lambda: kept_open(postgres_store(settings.postgres, clock=clock)),
        MONGODB: lambda: mongo_store(settings, clock=clock),
    }
    return OpenHouses(settings.store.mode, makers)


def local_store(settings: Settings, *, clock: Clock) -> House:
    """A file of this machine."""
    return SqliteStore(
        settings.database,
        clock=clock,
        busy_timeout_ms=settings.store.busy_timeout_ms,
        durability=settings.store.durability,
    )


def postgres_store(chosen: PostgresSettings, *, clock: Clock) -> House:
    """A database of a PostgreSQL server. Raises SettingsError."""
    address = postgres_address(chosen)
    with needed_driver("PostgreSQL", "psycopg", extra="postgres"):
        from mindhold.stores.postgres.store import PostgresStore
    return PostgresStore(
        address,
        clock=clock,
        max_connections=chosen.max_connections,
        idle_timeout_ms=chosen.idle_timeout_ms,
        connection_timeout_ms=chosen.connection_timeout_ms,
        query_timeout_ms=chosen.query_timeout_ms,
    )


def postgres_address(chosen: PostgresSettings) -> str:
    """Raises SettingsError where none is configured."""
    if not chosen.url and not chosen.host:
        raise SettingsError(
            "No PostgreSQL is configured.",
            advice="Set postgres.url, or POSTGRES_HOST, POSTGRES_DB, POSTGRES_USER and POSTGRES_PASSWORD.",
        )
    return chosen.url or _address(chosen)


@asynccontextmanager
async def mongo_store(settings: Settings, *, clock: Clock) -> AsyncIterator[House]:
    """A MongoDB: at an address, or one that is started here and stopped when nobody needs it. Raises SettingsError."""
    chosen = settings.mongodb
    with needed_driver("MongoDB", "pymongo", extra="mongodb"):
        from mindhold.stores.mongo.store import MongoStore
    async with mongo_address(settings) as (uri, embedded):
        store = MongoStore(
            uri,
            clock=clock,
            database=chosen.database,
            embedded=embedded,
            timeout_ms=chosen.timeout_ms,
            max_connections=chosen.max_connections,
        )
        async with kept_open(store):
            yield store


@asynccontextmanager
async def mongo_address(settings: Settings) -> AsyncIterator[tuple[str, bool]]:
    """Where it is, and whether it is one that is started here, for as long as it is wanted."""
    chosen = settings.mongodb
    if chosen.mode == "embedded" or (chosen.mode == "auto" and not chosen.uri):
        from mindhold.stores.mongo.embedded import EmbeddedMongo

        # Two files, beside those of our own: together they stay below twice what may be.
        largest = (settings.log.most_megabytes << 20) // 2
        async with EmbeddedMongo(settings.home, program=chosen.mongod, largest_log=largest) as server:
            yield server.uri, True
    else:
        yield chosen.uri or "mongodb://localhost:27017", False


def _address(chosen: PostgresSettings) -> str:
    """The parts as one address. A host may be the folder of a socket."""
    user = quote(chosen.user, safe="")
    secret = f":{quote(chosen.password, safe='')}" if chosen.password else ""
    login = f"{user}{secret}@" if chosen.user else ""
    return (
        f"postgresql://{login}{quote(chosen.host, safe='')}:{chosen.port}/{quote(chosen.database, safe='')}"
    )


@contextmanager
def needed_driver(what: str, package: str, *, extra: str) -> Iterator[None]:
    """Raises SettingsError where it isn't installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise SettingsError(
            f"{what} needs a driver.", advice=f"`pip install 'mindhold[{extra}]'` brings it."
        ) from error
