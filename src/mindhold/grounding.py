"""Where the stores of the settings stand, for backups and restores: settings in, sites out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from mindhold.housing import mongo_address, needed_driver, postgres_address
from mindhold.model.errors import Refused, SettingsError
from mindhold.ports.clock import Clock
from mindhold.ports.houses import LOCAL, MONGODB, POSTGRES
from mindhold.ports.snapshot import House, Site
from mindhold.settings.declared import Settings
from mindhold.stores.houses import kept_open
from mindhold.stores.sqlite.site import SqliteSite
from mindhold.stores.sqlite.snapshot import RAW_FORM
from mindhold.stores.sqlite.store import SqliteStore


class SettingsGrounds:
    """Keeps the Grounds contract. Nothing is opened, and no driver imported, before it is needed."""

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def site(self, mode: str) -> Site:
        if mode == LOCAL:
            return SqliteSite(self._settings.database, clock=self._clock)
        if mode == POSTGRES:
            with needed_driver("PostgreSQL", "psycopg", extra="postgres"):
                from mindhold.stores.postgres.site import PostgresSite
            return PostgresSite(postgres_address(self._settings.postgres), clock=self._clock)
        if mode == MONGODB:
            with needed_driver("MongoDB", "pymongo", extra="mongodb"):
                from mindhold.stores.mongo.site import MongoSite
            chosen = self._settings.mongodb
            return MongoSite(
                self._mongo, database=chosen.database, clock=self._clock, timeout_ms=chosen.timeout_ms
            )
        raise SettingsError(f"There is no storage mode {mode!r}.")

    def opened(self, form: str, path: Path) -> AbstractAsyncContextManager[House]:
        if form != RAW_FORM:
            raise Refused(
                f"The backup holds a store in the form {form!r}, which this Mindhold doesn't know.",
                advice="Upgrade it, as whoever wrote the backup did.",
            )
        return self._file(path)

    def scratch(self, path: Path) -> AbstractAsyncContextManager[House]:
        return self._file(path)

    @asynccontextmanager
    async def _file(self, path: Path) -> AsyncIterator[House]:
        async with kept_open(SqliteStore(path, clock=self._clock, durability="normal", readers=1)) as store:
            yield store

    @asynccontextmanager
    async def _mongo(self) -> AsyncIterator[str]:
        async with mongo_address(self._settings) as (uri, _embedded):
            yield uri
