"""Builds the configured stores and the Redis sidecar, creates the home folder, and diagnoses and salvages a damaged store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from mindhold.hooks.files import permissions_notice, restrict_permissions
from mindhold.model.errors import (
    MindholdError,
    Refused,
    SettingsError,
    StoreDamaged,
    StoreError,
    StoreReadOnly,
)
from mindhold.model.scope import LOCAL, MONGODB, POSTGRES
from mindhold.ports.backend import Backend, BackendSite
from mindhold.ports.cache import NO_SIDECAR, Sidecar
from mindhold.ports.store import Clock, Store, StoreFinding
from mindhold.settings.loader import LoadedSettings
from mindhold.settings.schema import PostgresSettings, RedisSettings, Settings
from mindhold.settings.sections import comma_list
from mindhold.stores.registry import Make, OpenStoreRegistry, opened_store
from mindhold.stores.sqlite.store import RAW_FORM, SqliteSite, SqliteStore

if TYPE_CHECKING:
    from mindhold.stores.redis.sidecar import RedisAddress


HOME_FOLDERS = ("data", "models", "backups", "logs", "export")
log = logging.getLogger(__name__)


def utc_now() -> datetime:
    """The present instant."""
    return datetime.now(UTC)


def make_home(home: Path, *, database: Path | None = None) -> None:
    """Create the home folder for its owner only; too open permissions are corrected and logged. Raises StoreReadOnly."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in HOME_FOLDERS:
            (home / name).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(
            f"The home folder {home} can't be made: {error.strerror}.",
            advice="Choose another with MINDHOLD_HOME.",
        ) from error
    corrected = restrict_permissions(str(home), str(database) if database else "")
    if corrected:
        log.warning("%s", permissions_notice(corrected, home=str(home)))


def make_store_registry(settings: Settings, *, clock: Clock) -> OpenStoreRegistry:
    """The stores by storage mode. None is opened, and no driver imported, before a project needs it."""
    makers: dict[str, Make] = {
        LOCAL: lambda: opened_store(local_store(settings, clock=clock)),
        POSTGRES: lambda: opened_store(postgres_store(settings.postgres, clock=clock)),
        MONGODB: lambda: mongo_store(settings, clock=clock),
    }
    return OpenStoreRegistry(settings.store.mode, makers)


def local_store(settings: Settings, *, clock: Clock) -> Backend:
    """The SQLite store."""
    return SqliteStore(
        settings.database,
        clock=clock,
        busy_timeout_ms=settings.store.busy_timeout_ms,
        durability=settings.store.durability,
    )


def postgres_store(chosen: PostgresSettings, *, clock: Clock) -> Backend:
    """The PostgreSQL store. Raises SettingsError."""
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
    """The address of the configured server. Raises SettingsError without one."""
    if not chosen.url and not chosen.host:
        raise SettingsError(
            "No PostgreSQL is configured.",
            advice="Set postgres.url, or POSTGRES_HOST, POSTGRES_DB, POSTGRES_USER and POSTGRES_PASSWORD.",
        )
    if chosen.url:
        return chosen.url
    user, password, host, database = (
        quote(part, safe="") for part in (chosen.user, chosen.password, chosen.host, chosen.database)
    )  # a host may be the folder of a socket
    login = f"{user}{f':{password}' if password else ''}@" if user else ""
    return f"postgresql://{login}{host}:{chosen.port}/{database}"


@asynccontextmanager
async def mongo_store(settings: Settings, *, clock: Clock) -> AsyncIterator[Backend]:
    """The MongoDB store, on a server or on a private mongod that runs while it is used. Raises SettingsError."""
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
    """The address, and whether it is a private mongod, which runs as long as the context."""
    chosen = settings.mongodb
    if chosen.mode == "embedded" or (chosen.mode == "auto" and not chosen.uri):
        from mindhold.stores.mongo.embedded import EmbeddedMongo

        # mongod keeps two log files.
        largest = (settings.log.most_megabytes << 20) // 2
        async with EmbeddedMongo(settings.home, program=chosen.mongod, largest_log=largest) as server:
            yield server.uri, True
    else:
        yield chosen.uri or "mongodb://localhost:27017", False


@contextmanager
def require_driver(what: str, package: str, *, extra: str) -> Iterator[None]:
    """Raise SettingsError, naming the extra to install, if the import in the block fails."""
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
    """The store as the engine uses it, and the sidecar, which is closed at the end.

    Raises SettingsError, and StoreDenied, StoreReadOnly or StoreError for faults that waiting won't mend.
    """
    if not settings.redis.enabled:
        from mindhold.stores.registry import WHOLE, KeywordSetInvalidator

        # If others keep keyword sets in Redis, writes mark these as out of date.
        has_keyword_sets = await store.cursor(WHOLE) is not None
        yield cast(Store, KeywordSetInvalidator(store)) if has_keyword_sets else store, NO_SIDECAR
        return
    from mindhold.stores.redis.sidecar import open_sidecar

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
    """The address of the configured Redis. Raises SettingsError for Sentinels that can't be read."""
    from mindhold.stores.redis.sidecar import RedisAddress as Address

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


def _sentinels(names: str) -> tuple[tuple[str, int], ...]:
    sentinels: list[tuple[str, int]] = []
    for name in comma_list(names):
        host, _, port = name.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise SettingsError(
                f"redis.sentinels names {name!r}, which is no host:port.",
                advice="Write them as host:port, by commas.",
            )
        sentinels.append((host.strip("[]"), int(port)))
    if not sentinels:
        raise SettingsError("redis.sentinels names none.", advice="Write them as host:port, by commas.")
    return tuple(sentinels)


class SettingsSites:
    """BackendSites of the settings. Nothing is opened, and no driver imported, before it is needed."""

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
        return self.scratch(path)

    def scratch(self, path: Path) -> AbstractAsyncContextManager[Backend]:
        return opened_store(SqliteStore(path, clock=self._clock, durability="normal", readers=1))

    @asynccontextmanager
    async def _mongo(self) -> AsyncIterator[str]:
        async with mongo_address(self._settings) as (uri, _embedded):
            yield uri


@contextmanager
def advise_restore(home: Path) -> Iterator[None]:
    """Add the last good backup to the advice of a StoreDamaged error."""
    try:
        yield
    except StoreDamaged as error:
        from mindhold.backup.create import offer_restore  # imported late: a sound store needs no backup

        offer = offer_restore(home / "backups")
        if not offer:
            raise
        raise StoreDamaged(error.message, advice=f"{error.advice} {offer}".strip()) from error


async def diagnose_store(loaded: LoadedSettings) -> list[StoreFinding]:
    """Findings about a store that can't be opened, and about Redis."""
    settings = loaded.settings
    redis = [await _redis_finding(settings)] if settings.redis.enabled else []
    if settings.store.mode != LOCAL:
        return [await _server_finding(settings), *redis]
    from mindhold.stores.sqlite.salvage import diagnose

    findings = await asyncio.to_thread(diagnose, settings.database)
    return [*findings, *redis, *await asyncio.to_thread(_backup_finding, settings, findings)]


def _backup_finding(settings: Settings, findings: Sequence[StoreFinding]) -> list[StoreFinding]:
    """The backup that could replace a damaged store."""
    if all(finding.healthy for finding in findings):
        return []
    from mindhold.backup.create import offer_restore

    offer = offer_restore(settings.home / "backups")
    return [StoreFinding("backup", bool(offer), offer or "there is none to restore")]


async def salvage_store(loaded: LoadedSettings) -> list[str]:
    """Replace a damaged database with what can be read of it, and keep the damaged file. Says what it did.

    Raises StoreBusy while another process uses it, StoreDamaged when nothing can be read, SchemaTooNew, and Refused for a
    server's database.
    """
    if loaded.settings.store.mode != LOCAL:
        raise Refused(
            f"The files of {loaded.settings.store.mode} are its server's.", advice="Restore a backup there."
        )
    from mindhold.stores.sqlite.salvage import rescue

    path = loaded.settings.database
    with advise_restore(loaded.settings.home):
        saved = await asyncio.to_thread(rescue, path, now=utc_now())
    return [f"saved {saved.memories} memories into {path}", f"kept the damaged file as {saved.aside}"]


async def _server_finding(settings: Settings) -> StoreFinding:
    """Open the store again: the server says best what is wrong."""
    registry, mode = make_store_registry(settings, clock=utc_now), settings.store.mode
    try:
        await registry.house(mode)
    except (StoreError, SettingsError) as error:
        return _fault(mode, error)
    finally:
        await registry.close()
    return StoreFinding(mode, True, "it answers now")


async def _redis_finding(settings: Settings) -> StoreFinding:
    from mindhold.stores.redis.sidecar import RedisConnection

    try:
        connection = RedisConnection(redis_address(settings.redis))
        await connection.open()
        await connection.close()
    except (StoreError, SettingsError) as error:
        return _fault("redis", error)
    if connection.fault is not None:
        return _fault("redis", connection.fault)
    return StoreFinding("redis", True, "it answers")


def _fault(name: str, error: MindholdError) -> StoreFinding:
    return StoreFinding(name, False, f"{error.code}: {error.message}", error.advice)
