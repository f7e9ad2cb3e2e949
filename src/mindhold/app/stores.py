"""Builds the stores that the settings name, with Redis beside them; makes the home folder; diagnoses and salvages a damaged store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from mindhold.backup.schedule import offer_restore
from mindhold.hooks.permissions import permissions_notice, restrict_permissions
from mindhold.model.errors import Refused, SettingsError, StoreDamaged, StoreError, StoreReadOnly
from mindhold.model.scope import LOCAL, MONGODB, POSTGRES
from mindhold.ports.backend import Backend, BackendSite
from mindhold.ports.cache import NO_SIDECAR, Sidecar
from mindhold.ports.store import Clock, Store, StoreFinding
from mindhold.settings.loader import LoadedSettings
from mindhold.settings.schema import PostgresSettings, RedisSettings, Settings
from mindhold.stores.registry import Make, OpenStoreRegistry, opened_store
from mindhold.stores.sqlite.store import RAW_FORM, SqliteSite, SqliteStore

if TYPE_CHECKING:
    from mindhold.stores.redis.connection import RedisAddress


ROOMS = ("data", "models", "backups", "logs", "export")
log = logging.getLogger(__name__)


def make_home(home: Path, *, database: Path | None = None) -> None:
    """For its owner only, also where it was made or changed by somebody else's hand, which is told. Raises StoreReadOnly."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ROOMS:
            (home / name).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(
            f"The home folder {home} can't be made: {error.strerror}.",
            advice="Choose another with MINDHOLD_HOME.",
        ) from error
    mended = restrict_permissions(str(home), str(database) if database else "")
    if mended:
        log.warning("%s", permissions_notice(mended, home=str(home)))


def make_store_registry(settings: Settings, *, clock: Clock) -> OpenStoreRegistry:
    """Nothing is opened, and no driver imported, before a project needs it."""
    makers: dict[str, Make] = {
        LOCAL: lambda: opened_store(local_store(settings, clock=clock)),
        POSTGRES: lambda: opened_store(postgres_store(settings.postgres, clock=clock)),
        MONGODB: lambda: mongo_store(settings, clock=clock),
    }
    return OpenStoreRegistry(settings.store.mode, makers)


def local_store(settings: Settings, *, clock: Clock) -> Backend:
    """A file of this machine."""
    return SqliteStore(
        settings.database,
        clock=clock,
        busy_timeout_ms=settings.store.busy_timeout_ms,
        durability=settings.store.durability,
    )


def postgres_store(chosen: PostgresSettings, *, clock: Clock) -> Backend:
    """A database of a PostgreSQL server. Raises SettingsError."""
    address = postgres_address(chosen)
    with require_driver("PostgreSQL", "psycopg", extra="postgres"):
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
async def mongo_store(settings: Settings, *, clock: Clock) -> AsyncIterator[Backend]:
    """A MongoDB: at an address, or one that is started here and stopped when nobody needs it. Raises SettingsError."""
    chosen = settings.mongodb
    with require_driver("MongoDB", "pymongo", extra="mongodb"):
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
        async with opened_store(store):
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
def require_driver(what: str, package: str, *, extra: str) -> Iterator[None]:
    """Raises SettingsError where it isn't installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise SettingsError(
            f"{what} needs a driver.", advice=f"`pip install 'mindhold[{extra}]'` brings it."
        ) from error


@asynccontextmanager
async def with_sidecar(settings: Settings, store: Store) -> AsyncIterator[tuple[Store, Sidecar]]:
    """The open store as the engine should have it, and what stands beside it; let go of at the end.

    Raises StoreDenied, StoreReadOnly and StoreError for what waiting won't mend, SettingsError.
    """
    if not settings.redis.enabled:
        yield await _without(store), NO_SIDECAR
        return
    from mindhold.stores.redis.sidecar import open_sidecar  # for those who have one

    chosen = settings.redis
    sidecar = await open_sidecar(
        redis_address(chosen),
        store,
        place=str(settings.database.absolute()) if settings.store.mode == "local" else "",
        cache_seconds=chosen.cache_seconds if chosen.cache else 0,
        activity_seconds=60 * settings.serve.session_ttl_minutes,
    )
    try:
        yield sidecar.store, sidecar
    finally:
        await sidecar.close()


def redis_address(chosen: RedisSettings) -> RedisAddress:
    """Raises SettingsError for Sentinels that can't be read."""
    from mindhold.stores.redis.connection import RedisAddress as Address

    return Address(
        host=chosen.host,
        port=chosen.port,
        database=chosen.database,
        username=chosen.username,
        password=chosen.password,
        tls=chosen.tls,
        sentinels=_sentinels(chosen.sentinels) if chosen.sentinel else (),
        master_name=chosen.master_name,
        sentinel_password=chosen.sentinel_password,
        timeout=chosen.timeout_ms / 1000,
    )


async def _without(store: Store) -> Store:
    """Others may rely on keyword sets that this process can't bring up to date."""
    from mindhold.stores.registry import WHOLE, KeywordSetInvalidator

    return store if await store.cursor(WHOLE) is None else cast(Store, KeywordSetInvalidator(store))


def _sentinels(named: str) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for name in filter(None, (part.strip() for part in named.split(","))):
        host, _, port = name.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise SettingsError(
                f"redis.sentinels names {name!r}, which is no host:port.",
                advice="Write them as host:port, by commas.",
            )
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise SettingsError("redis.sentinels names none.", advice="Write them as host:port, by commas.")
    return tuple(found)


class SettingsSites:
    """Keeps the Grounds contract. Nothing is opened, and no driver imported, before it is needed."""

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def site(self, mode: str) -> BackendSite:
        if mode == LOCAL:
            return SqliteSite(self._settings.database, clock=self._clock)
        if mode == POSTGRES:
            with require_driver("PostgreSQL", "psycopg", extra="postgres"):
                from mindhold.stores.postgres.store import PostgresSite
            return PostgresSite(postgres_address(self._settings.postgres), clock=self._clock)
        if mode == MONGODB:
            with require_driver("MongoDB", "pymongo", extra="mongodb"):
                from mindhold.stores.mongo.store import MongoSite
            chosen = self._settings.mongodb
            return MongoSite(
                self._mongo, database=chosen.database, clock=self._clock, timeout_ms=chosen.timeout_ms
            )
        raise SettingsError(f"There is no storage mode {mode!r}.")

    def opened(self, form: str, path: Path) -> AbstractAsyncContextManager[Backend]:
        if form != RAW_FORM:
            raise Refused(
                f"The backup holds a store in the form {form!r}, which this Mindhold doesn't know.",
                advice="Upgrade it, as whoever wrote the backup did.",
            )
        return self._file(path)

    def scratch(self, path: Path) -> AbstractAsyncContextManager[Backend]:
        return self._file(path)

    @asynccontextmanager
    async def _file(self, path: Path) -> AsyncIterator[Backend]:
        async with opened_store(
            SqliteStore(path, clock=self._clock, durability="normal", readers=1)
        ) as store:
            yield store

    @asynccontextmanager
    async def _mongo(self) -> AsyncIterator[str]:
        async with mongo_address(self._settings) as (uri, _embedded):
            yield uri


@contextmanager
def advise_restore(home: Path) -> Iterator[None]:
    """Who finds the database damaged is told of the last good backup, too."""
    try:
        yield
    except StoreDamaged as error:
        words = offer_restore(home / "backups")
        if not words:
            raise
        raise StoreDamaged(error.message, advice=f"{error.advice} {words}".strip()) from error


async def diagnose_store(loaded: LoadedSettings) -> list[StoreFinding]:
    """What can be said of a database that can't be opened, and of what stands beside it."""
    settings = loaded.settings
    beside = [await _tried_beside(settings)] if settings.redis.enabled else []
    if settings.store.mode != LOCAL:
        return [await _tried(settings), *beside]
    from mindhold.stores.sqlite.salvage import diagnose

    found = await asyncio.to_thread(diagnose, settings.database)
    return [*found, *beside, *await asyncio.to_thread(_backup_finding, settings, found)]


def _backup_finding(settings: Settings, found: Sequence[StoreFinding]) -> list[StoreFinding]:
    """What could take its place, where it is damaged."""
    if all(finding.healthy for finding in found):
        return []
    words = offer_restore(settings.home / "backups")
    return [StoreFinding("backup", bool(words), words or "there is none to restore")]


async def salvage_store(loaded: LoadedSettings) -> list[str]:
    """Put what can be read of a damaged database in its place; the damaged file is kept aside. Says what it did.

    Raises StoreBusy while another process uses it, StoreDamaged when nothing can be read, SchemaTooNew, Refused for a
    server's database.
    """
    if loaded.settings.store.mode != LOCAL:
        raise Refused(
            f"The files of {loaded.settings.store.mode} are its server's.", advice="Restore a backup there."
        )
    from mindhold.stores.sqlite.salvage import rescue

    path = loaded.settings.database
    with advise_restore(loaded.settings.home):
        saved = await asyncio.to_thread(rescue, path, now=_utc_now())
    return [f"saved {saved.memories} memories into {path}", f"kept the damaged file as {saved.aside}"]


async def _tried(settings: Settings) -> StoreFinding:
    """A server says more when it is asked again than any look from outside."""
    registry, mode = make_store_registry(settings, clock=_utc_now), settings.store.mode
    try:
        await registry.house(mode)
    except (StoreError, SettingsError) as error:
        return StoreFinding(mode, False, f"{error.code}: {error.message}", error.advice)
    finally:
        await registry.close()
    return StoreFinding(mode, True, "it answers now")


async def _tried_beside(settings: Settings) -> StoreFinding:
    from mindhold.stores.redis.connection import RedisConnection  # for those who have one

    try:
        line = RedisConnection(redis_address(settings.redis))
        await line.open()
        await line.close()
    except (StoreError, SettingsError) as error:
        return StoreFinding("redis", False, f"{error.code}: {error.message}", error.advice)
    if line.fault is not None:
        return StoreFinding("redis", False, f"{line.fault.code}: {line.fault.message}", line.fault.advice)
    return StoreFinding("redis", True, "it answers")


def _utc_now() -> datetime:
    return datetime.now(UTC)
