"""Whether a Redis stands beside the store: settings in, the store and its company out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from mindhold.model.errors import SettingsError
from mindhold.ports.cache import ALONE, Aside
from mindhold.ports.store import Store
from mindhold.settings.declared import RedisSettings, Settings

if TYPE_CHECKING:
    from mindhold.stores.redis.line import Address


@asynccontextmanager
async def company(settings: Settings, store: Store) -> AsyncIterator[tuple[Store, Aside]]:
    """The open store as the engine should have it, and what stands beside it; let go of at the end.

    Raises StoreDenied, StoreReadOnly and StoreError for what waiting won't mend, SettingsError.
    """
    if not settings.redis.enabled:
        yield await _without(store), ALONE
        return
    from mindhold.stores.redis.beside import open_aside  # for those who have one

    chosen = settings.redis
    aside = await open_aside(
        address_of(chosen),
        store,
        place=str(settings.database.absolute()) if settings.store.mode == "local" else "",
        cache_seconds=chosen.cache_seconds if chosen.cache else 0,
        activity_seconds=60 * settings.serve.session_ttl_minutes,
    )
    try:
        yield aside.store, aside
    finally:
        await aside.close()


def address_of(chosen: RedisSettings) -> Address:
    """Raises SettingsError for Sentinels that can't be read."""
    from mindhold.stores.redis.line import Address

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
    from mindhold.stores.unfollowed import WHOLE, Unfollowed

    return store if await store.cursor(WHOLE) is None else cast(Store, Unfollowed(store))


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
