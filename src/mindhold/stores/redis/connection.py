"""The connection to Redis, with bounded waits and automatic reconnection; names of keys."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from mindhold.model.errors import SettingsError, StoreAway, StoreDenied, StoreError, StoreReadOnly


class KeyNames:
    """The key names of one store; several may share a server."""

    def __init__(self, store_id: str, place: str = "") -> None:
        self.prefix = f"mindhold:{store_id}{_digest(place)[:8] if place else ''}:"
        self.mark = f"{self.prefix}mark"  # which build of the sets is complete, and the run id of its server
        self.building = f"{self.prefix}building"
        self.tickets = f"{self.prefix}tickets"  # of writes under way
        self.places = f"{self.prefix}places"  # pairs of scope and agent that have sets
        self.active = f"{self.prefix}active"
        self.queue = f"{self.prefix}queue"
        self.every_keyword = f"{self.prefix}k:*"

    def keyword(self, scope: str, agent: str, form: str) -> str:
        return f"{self.prefix}k:{_digest(scope, agent, form)}"

    def cached(self, key: str) -> str:
        return f"{self.prefix}c:{key}"

    def activity(self, agent: str, conversation: str) -> str:
        return f"{self.prefix}a:{_digest(agent, conversation)}"


def _digest(*parts: str) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


T = TypeVar("T")
Client = Any  # the driver's own types change with its versions
FIRST_PAUSE = 0.25  # seconds before the first attempt to reconnect
LONGEST_PAUSE = 10.0
MOST_AT_ONCE = 32
log = logging.getLogger("mindhold.redis")


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """The address of the server. With `sentinels`, host and port are not used."""

    host: str = "localhost"
    port: int = 6379
    database: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    sentinels: tuple[tuple[str, int], ...] = ()
    master_name: str = "mymaster"
    sentinel_password: str = field(default="", repr=False)
    timeout: float = 0.5

    def __str__(self) -> str:
        servers = ", ".join(f"{host}:{port}" for host, port in self.sentinels or ((self.host, self.port),))
        return f"{self.master_name} of {servers}" if self.sentinels else f"{servers}/{self.database}"


class RedisConnection:
    """A connection whose calls wait at most for the time-out, and not at all while it is lost."""

    def __init__(self, address: RedisAddress) -> None:
        self.address = address
        self._client: Client = None
        self._waiting: Client = None
        self._sentinel: Any = None
        self._fault: StoreError | None = None
        self._search: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._returned: list[Callable[[], None]] = []

    @property
    def fault(self) -> StoreError | None:
        """Why the connection is lost; None while it works."""
        return self._fault

    def on_return(self, told: Callable[[], None]) -> None:
        """Register a function to be called after each reconnection."""
        self._returned.append(told)

    async def open(self) -> None:
        """Connect. Raises StoreDenied, StoreReadOnly and StoreError for lasting problems; an absent server is retried later."""
        await self._connect()
        try:
            async with asyncio.timeout(max(1.0, 3 * self.address.timeout)):
                await self._greet()
        except _faults() as error:
            fault = self._read(error)
            if not isinstance(fault, StoreAway):
                await self.close()
                raise fault from error
            self._cut(fault)

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._search is not None:
            self._search.cancel()
            await asyncio.gather(self._search, return_exceptions=True)
        for client in (self._client, self._waiting, *(self._sentinel.sentinels if self._sentinel else ())):
            if client is not None:
                await client.aclose()
        self._client = self._waiting = self._sentinel = None

    async def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """The result of `work`. Raises StoreError, at once while the connection is lost."""
        self._ready()
        async with self._room:
            client = self._ready()
            try:
                async with asyncio.timeout(self.address.timeout):
                    return await work(client)
            except _faults() as error:
                raise self._lost(error) from error

    async def await_word(self, key: str, *, seconds: float) -> bool:
        """Wait until a word is pushed to the list. Returns whether it was. Raises StoreError."""
        self._ready()
        try:
            async with asyncio.timeout(seconds + self.address.timeout):
                return await self._waiting.brpop([key], timeout=seconds) is not None
        except _faults() as error:
            raise self._lost(error) from error

    def _ready(self) -> Client:
        if self._fault is not None:
            raise self._fault
        if self._client is None:
            raise StoreAway("Redis is closed.")
        return self._client

    async def _connect(self) -> None:
        try:
            module = await asyncio.to_thread(import_module, "redis.asyncio")
        except ModuleNotFoundError as error:
            raise SettingsError(
                "Redis needs a driver.", advice="`pip install 'mindhold[redis]'` brings it."
            ) from error
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        address = self.address
        options: dict[str, Any] = {
            "db": address.database,
            "username": address.username or None,
            "password": address.password or None,
            "ssl": address.tls,
            "socket_connect_timeout": address.timeout,
            "retry": Retry(NoBackoff(), 0),  # a call waits once
            "client_name": "mindhold",
        }
        if address.sentinels:
            plain = {
                "socket_timeout": address.timeout,
                "socket_connect_timeout": address.timeout,
                "password": address.sentinel_password or None,
                "ssl": address.tls,
                "retry": Retry(NoBackoff(), 0),
            }
            self._sentinel = module.Sentinel(address.sentinels, sentinel_kwargs=plain)

        def client(timeout: float | None) -> Client:
            bounded = options | {"socket_timeout": timeout}
            if self._sentinel is not None:
                return self._sentinel.master_for(address.master_name, **bounded)
            return module.Redis(host=address.host, port=address.port, **bounded)

        self._client = client(address.timeout)
        self._waiting = client(None)  # for waits that are meant to be long

    async def _greet(self) -> None:
        """Try everything that is needed: login, privileges, the database number, and writing."""
        if self._sentinel is not None:
            await self._ask_sentinels()
        async with self._client.pipeline(transaction=False) as pipe:
            pipe.ping()
            pipe.info("server")
            pipe.set("mindhold:greeting", b"1", ex=10)
            await pipe.execute()

    async def _ask_sentinels(self) -> None:
        """Raises an error if Sentinels answer but none knows the master: then the settings are wrong."""
        from redis.exceptions import AuthenticationError, RedisError

        answers: list[bool] = []
        for sentinel in self._sentinel.sentinels:
            try:
                answers.append(self.address.master_name in await sentinel.sentinel_masters())
            except AuthenticationError:
                raise
            except (RedisError, OSError):
                continue
        if answers and not any(answers):
            raise _UnknownMaster

    def _lost(self, error: BaseException) -> StoreError:
        fault = self._read(error)
        self._cut(fault)
        return fault

    def _cut(self, fault: StoreError) -> None:
        if self._fault is None and self._client is not None:
            log.warning("Redis is left out until it answers: %s", fault.message)
            self._search = asyncio.create_task(self._look_for_it())
        self._fault = fault

    async def _look_for_it(self) -> None:
        """Reconnect in the background, so that no call waits for a server that may be gone."""
        pause = FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)
            try:
                async with asyncio.timeout(max(1.0, 3 * self.address.timeout)):
                    await self._greet()
            except _faults() as error:
                self._fault = self._read(error)
                continue
            self._fault = None
            log.warning("Redis answers again.")
            for callback in self._returned:
                callback()
            return

    def _read(self, error: BaseException) -> StoreError:
        """Our error for the driver's. Its text is left out, since it may contain sent data."""
        from redis import exceptions as theirs

        where = f"Redis at {self.address}"
        refused = (theirs.AuthenticationError, theirs.AuthenticationWrongNumberOfArgsError)
        if isinstance(error, _UnknownMaster):
            return StoreError(
                f"The Sentinels know no master {self.address.master_name!r}.",
                advice="Set redis.master_name to the name that they monitor.",
            )
        if isinstance(error, (*refused, theirs.AuthorizationError)):
            return StoreDenied(
                f"{where} refuses the name or the password.",
                advice="Set redis.username and redis.password (REDIS_PASSWORD), or turn redis.enabled off.",
            )
        if isinstance(error, theirs.NoPermissionError):
            return StoreDenied(
                f"{where} does not let this user do what is needed.",
                advice="Allow it all commands on keys mindhold:* (ACL: ~mindhold:* +@all), or turn redis.enabled off.",
            )
        if isinstance(error, theirs.ReadOnlyError):
            return StoreReadOnly(
                f"{where} is a replica.", advice="Name the master, or let Sentinels find it (redis.sentinel)."
            )
        if isinstance(error, theirs.InvalidResponse):
            return StoreError(
                f"What answers at {self.address} is no Redis.", advice="Set redis.host and redis.port."
            )
        if isinstance(error, (theirs.ConnectionError, theirs.TimeoutError, OSError, TimeoutError)):
            return StoreAway(
                f"{where} can't be reached.", advice="See that it runs; nothing is lost meanwhile."
            )
        if isinstance(error, theirs.OutOfMemoryError):
            return StoreAway(
                f"{where} has no memory left.", advice="Raise its maxmemory; nothing is lost meanwhile."
            )
        if isinstance(error, theirs.ResponseError) and self.address.database and self._client is not None:
            return StoreDenied(
                f"{where} does not do what is asked of database {self.address.database}.",
                advice="Set redis.database (REDIS_DB) to one that it has; 0 always is.",
            )
        return StoreError(
            f"{where} does not do what is asked ({type(error).__name__}).", advice="Look into its log."
        )


class _UnknownMaster(Exception):
    """No Sentinel that answers monitors the master."""


def _faults() -> tuple[type[Exception], ...]:
    """Errors of the driver and of the system, including time-outs."""
    from redis.exceptions import RedisError

    return (RedisError, OSError, _UnknownMaster)
