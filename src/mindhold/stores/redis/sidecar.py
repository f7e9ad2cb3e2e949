"""The Redis sidecar of a store: connection, cache, activity of conversations, job wake-ups, and the store wrapper that notifies it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, TypeVar, cast

from mindhold.model.errors import (
    MindholdError,
    SettingsError,
    StoreAway,
    StoreDenied,
    StoreError,
    StoreReadOnly,
)
from mindhold.model.memory import Memory
from mindhold.model.scope import sees
from mindhold.ports.cache import ActiveConversation, SidecarFacts
from mindhold.ports.store import Change, Enqueue, Put, Receipt, Revise, Store
from mindhold.stores.base import StoreWrapper
from mindhold.stores.redis.keywords import RedisKeywordSets


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
        self.fault: StoreError | None = None  # why the connection is lost; None while it works
        self._search: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._returned: list[Callable[[], None]] = []

    def on_return(self, callback: Callable[[], None]) -> None:
        """Register a function to be called after each reconnection."""
        self._returned.append(callback)

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
        if self.fault is not None:
            raise self.fault
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
        common: dict[str, Any] = {
            "ssl": address.tls,
            "socket_connect_timeout": address.timeout,
            "retry": Retry(NoBackoff(), 0),  # a call waits once
        }
        options = common | {
            "db": address.database,
            "username": address.username or None,
            "password": address.password or None,
            "client_name": "mindhold",
        }
        if address.sentinels:
            plain = common | {
                "socket_timeout": address.timeout,
                "password": address.sentinel_password or None,
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
        if self.fault is None and self._client is not None:
            log.warning("Redis is left out until it answers: %s", fault.message)
            self._search = asyncio.create_task(self._look_for_it())
        self.fault = fault

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
                self.fault = self._read(error)
                continue
            self.fault = None
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


MOST_SHOWN = 100
MOST_LOOKED_AT = 1_000
Key = tuple[str, str]  # agent, conversation


class RedisActivity:
    """Implements Activity. Gathers counts while it writes, so that a busy conversation costs one write at a time."""

    def __init__(self, line: RedisConnection, names: KeyNames, *, seconds: int) -> None:
        self._line = line
        self._names = names
        self._seconds = seconds
        self._gathered: dict[Key, Counter[str]] = {}
        self._writing: asyncio.Task[None] | None = None

    def note(self, conversation: str, *, agent: str, counts: Mapping[str, int]) -> None:
        if self._line.fault is not None:
            return
        self._gathered.setdefault((agent, conversation), Counter()).update(counts)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def recent(self, *, viewer: str) -> list[ActiveConversation]:
        async def latest(redis: Client) -> Any:
            return await redis.zrevrange(self._names.active, 0, MOST_LOOKED_AT - 1, withscores=True)

        try:
            listed = [(json.loads(member), at) for member, at in await self._line.ask(latest)]
            seen = [each for each in listed if sees(viewer, each[0][0])][:MOST_SHOWN]
            keys = [self._names.activity(agent, conversation) for (agent, conversation), _ in seen]
            counts = await self._line.ask(lambda redis: _counts(redis, keys)) if keys else []
        except StoreError:
            return []
        return [
            ActiveConversation(agent, conversation, datetime.fromtimestamp(at, UTC), counted)
            for ((agent, conversation), at), counted in zip(seen, counts, strict=True)
            if counted
        ]

    async def close(self) -> None:
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._gathered:
            gathered, self._gathered = self._gathered, {}
            try:
                await self._line.ask(lambda redis: self._written(redis, gathered))  # noqa: B023
            except StoreError:
                return  # a count is lost, but no call fails

    async def _written(self, redis: Client, gathered: Mapping[Key, Counter[str]]) -> None:
        now = time.time()
        async with redis.pipeline(transaction=False) as pipe:
            for (agent, conversation), counts in gathered.items():
                key = self._names.activity(agent, conversation)
                for name, number in counts.items():
                    pipe.hincrby(key, name, number)
                pipe.expire(key, self._seconds)
                pipe.zadd(self._names.active, {json.dumps([agent, conversation]): now})
            pipe.zremrangebyscore(self._names.active, "-inf", now - self._seconds)
            pipe.expire(self._names.active, self._seconds)
            await pipe.execute()


async def _counts(redis: Client, keys: list[str]) -> list[dict[str, int]]:
    async with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.hgetall(key)
        answers = await pipe.execute()
    return [{name.decode(): int(number) for name, number in each.items()} for each in answers]


AT_ONCE = 5.0  # seconds of one wait, so that a lost connection is noticed
MOST_WAITING = 100
KEPT = 3_600


class RedisJobSignal:
    """Implements JobSignal. Pushes a word to a list for each job: one waiting runner gets it, or the next one that waits."""

    def __init__(self, line: RedisConnection, names: KeyNames) -> None:
        self._line = line
        self._names = names
        self._ringing: set[asyncio.Task[None]] = set()

    def ring(self) -> None:
        """Signal in the background."""
        task = asyncio.create_task(self._ring())
        self._ringing.add(task)
        task.add_done_callback(self._ringing.discard)

    async def wait(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0:
            try:
                if await self._line.await_word(self._names.queue, seconds=max(0.1, min(remaining, AT_ONCE))):
                    return True
            except StoreError:
                await asyncio.sleep(min(remaining, AT_ONCE))
        return False

    async def close(self) -> None:
        await asyncio.gather(*self._ringing)

    async def _ring(self) -> None:
        async def work(redis: Client) -> None:
            async with redis.pipeline() as pipe:
                pipe.lpush(self._names.queue, b"1")
                pipe.ltrim(self._names.queue, 0, MOST_WAITING - 1)
                pipe.expire(self._names.queue, KEPT)
                await pipe.execute()

        with suppress(StoreError):  # runners also look by themselves now and then
            await self._line.ask(work)


class FollowedStore(StoreWrapper):
    """A store wrapper that notifies Redis of writes: the keyword sets and waiting runners."""

    def __init__(self, store: Store, *, keywords: RedisKeywordSets, bell: RedisJobSignal) -> None:
        super().__init__(store)
        self._keywords = keywords
        self._bell = bell

    async def apply(self, changes: Sequence[Change]) -> None:
        written = [change.memory for change in changes if isinstance(change, Put | Revise)]
        before = await self._before(changes)
        touched = [memory for memory in written if memory.keywords or memory.id in before]
        if touched:
            await self._apply_followed(changes, touched, before)
        else:
            await self._store.apply(changes)
        if any(isinstance(change, Enqueue) for change in changes):
            self._bell.ring()

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        before = await self._store.get_many(ids, viewer="system")
        receipt = await self._store.erase(ids, references=references)
        if any(memory.keywords for memory in before.values()):
            await self._keywords.settle(None, now=(), before=before.values())
        return receipt

    async def rename_scope(self, old: str, new: str) -> None:
        """Rename a scope and rebuild the sets, which are named after scopes."""
        await self._keywords.distrust()
        await self._store.rename_scope(old, new)
        await self._keywords.distrust()

    async def _apply_followed(
        self, changes: Sequence[Change], touched: Sequence[Memory], before: dict[str, Memory]
    ) -> None:
        ticket = await self._keywords.announce([memory.id for memory in touched])
        try:
            await self._store.apply(changes)
        except StoreError:
            raise  # it may have been written all the same: the ticket names the ids to check
        except MindholdError:
            await self._keywords.withdraw(ticket)
            raise
        if ticket is None:
            await self._keywords.distrust()  # a build may have missed it
        else:
            await self._keywords.settle(ticket, now=touched, before=before.values())

    async def _before(self, changes: Sequence[Change]) -> dict[str, Memory]:
        """The records to be replaced as they were. A Put that expects no earlier record is new and isn't read."""
        replaced = [
            change.memory.id
            for change in changes
            if isinstance(change, Revise) or (isinstance(change, Put) and change.expected is not None)
        ]
        return await self._store.get_many(replaced, viewer="system") if replaced else {}


STORE_ID = "store.id"  # the cursor with a random id that tells apart stores sharing a server


class RedisCache:
    """Implements Cache."""

    def __init__(self, line: RedisConnection, names: KeyNames, *, seconds: int) -> None:
        self._line = line
        self._names = names
        self._seconds = seconds

    async def get(self, key: str) -> bytes | None:
        if self._seconds == 0:
            return None
        with suppress(StoreError):
            value: bytes | None = await self._line.ask(lambda redis: redis.get(self._names.cached(key)))
            return value
        return None

    async def put(self, key: str, value: bytes) -> None:
        if self._seconds == 0:
            return
        with suppress(StoreError):
            await self._line.ask(lambda redis: redis.set(self._names.cached(key), value, ex=self._seconds))


class RedisSidecar:
    """Implements Sidecar, and offers the store wrapper that notifies it."""

    def __init__(
        self,
        line: RedisConnection,
        store: Store,
        names: KeyNames,
        *,
        cache_seconds: int,
        activity_seconds: int,
    ) -> None:
        self._line = line
        self.keywords = RedisKeywordSets(line, store, names)
        self.cache = RedisCache(line, names, seconds=cache_seconds)
        self.activity = RedisActivity(line, names, seconds=activity_seconds)
        self.bell = RedisJobSignal(line, names)
        self.store = cast(Store, FollowedStore(store, keywords=self.keywords, bell=self.bell))
        line.on_return(self.keywords.build_soon)

    async def facts(self) -> SidecarFacts:
        where = str(self._line.address)
        try:
            keywords = await self.keywords.facts()
        except StoreError:
            keywords = "away"
        fault = self._line.fault
        if fault is None:
            return SidecarFacts("redis", "ok", where, keywords, self.keywords.obstacle)
        state = "denied" if isinstance(fault, StoreDenied) else "away"
        return SidecarFacts("redis", state, where, "away", str(fault))

    async def close(self) -> None:
        await self.keywords.close()
        await self.bell.close()
        await self.activity.close()
        await self._line.close()


async def open_sidecar(
    address: RedisAddress, store: Store, *, place: str = "", cache_seconds: int, activity_seconds: int
) -> RedisSidecar:
    """Open the sidecar of an open store. `place` is the path of its file, since a copy of the file is another store.

    Raises StoreDenied, StoreReadOnly and StoreError for lasting problems, SettingsError without the driver.
    """
    line = RedisConnection(address)
    await line.open()
    try:
        names = KeyNames(await _store_id(store), place)
    except BaseException:
        await line.close()
        raise
    return RedisSidecar(line, store, names, cache_seconds=cache_seconds, activity_seconds=activity_seconds)


async def _store_id(store: Store) -> str:
    store_id = await store.cursor(STORE_ID)
    if store_id is None:
        await store.swap_cursor(STORE_ID, old=None, new=secrets.token_hex(8))
        store_id = await store.cursor(STORE_ID)
    assert store_id is not None
    return store_id
