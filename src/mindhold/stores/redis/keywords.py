"""Sets of ids, one for each keyword of each scope and agent, which follow the store's writes."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from mindhold.model.errors import StoreError
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Memory
from mindhold.model.query import Filter
from mindhold.model.scope import visible_agents
from mindhold.ports.store import Store
from mindhold.stores.registry import REGISTRY, WHOLE

if TYPE_CHECKING:
    from mindhold.stores.redis.sidecar import Client, KeyNames, RedisConnection


BUILDING = "building:"
MOST_FOUND = 400  # more are ranked as quickly by the store itself
MOST_PLACES = 64
OLD_TICKET = 120.0  # seconds; no write takes so long
LAPSED = 600.0  # seconds after which another process may take over a build
KEPT = 86_400  # seconds: a daily rebuild corrects whatever was missed
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
# Everything that a lookup needs, at one instant and in one answer. KEYS: mark, tickets, then the sets of each place.
# ARGV: the number of sets of a place, and the number of ids that is too many.
LOOK = """
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local answer = {redis.call('GET', KEYS[1]), run, redis.call('HGETALL', KEYS[2])}
local found, total = {}, 0
for first = 3, #KEYS, tonumber(ARGV[1]) do
  local keys, least = {}, nil
  for number = first, first + tonumber(ARGV[1]) - 1 do
    local size = redis.call('SCARD', KEYS[number])
    least = math.min(least or size, size)
    keys[#keys + 1] = KEYS[number]
  end
  total = total + least
  if total > tonumber(ARGV[2]) then
    answer[4] = false
    return answer
  end
  for _, id in ipairs(redis.call('SINTER', unpack(keys))) do
    found[#found + 1] = id
  end
end
answer[4] = table.concat(found, '\\n')
return answer
"""
_EVERYTHING = Filter(viewer="system", statuses=())
log = logging.getLogger("mindhold.redis")


@dataclass(frozen=True, slots=True)
class _Build:
    epoch: str
    run: str


@dataclass(frozen=True, slots=True)
class _Look:
    build: _Build | None
    run: str  # the present run id of the server
    tickets: Mapping[str, Any]
    ids: set[str] | None  # None if there are too many


class RedisKeywordSets:
    """Implements KeywordSets, and is notified of writes by the store that the sets follow."""

    def __init__(self, line: RedisConnection, store: Store, names: KeyNames) -> None:
        self._line = line
        self._store = store
        self._names = names
        self._tasks: set[asyncio.Task[None]] = set()
        self._builder: asyncio.Task[None] | None = None
        self._pause = FIRST_PAUSE
        self._not_before = 0.0
        self._owing = False  # the cursor in the store could not be reset yet
        self.obstacle = ""  # why the sets can't be kept here

    async def having(self, forms: Sequence[str], where: Filter) -> list[str] | None:
        if not forms or self._line.fault is not None or self.obstacle:
            return None
        try:
            if self._owing:
                await self.distrust()
            places = await self._places(where)
            if len(places) > MOST_PLACES:
                return None
            keys = [self._names.keyword(*place, form) for place in places for form in forms]
            epoch, look = await asyncio.gather(
                self._store.cursor(WHOLE),
                self._line.ask(lambda redis: self._look(redis, keys, at_once=len(forms))),
            )
        except StoreError:
            return None
        if self._owing or epoch is None or look.build != _Build(epoch, look.run):
            self.build_soon()
            return None
        ids = None if look.ids is None else look.ids | self._under_way(look.tickets)
        return sorted(ids, reverse=True) if ids is not None and len(ids) <= MOST_FOUND else None

    async def facts(self) -> str:
        """The state: whole, building, unbuilt or off."""
        if self.obstacle:
            return "off"
        epoch = await self._store.cursor(WHOLE)
        if epoch is not None and epoch.startswith(BUILDING):
            return "building"
        look = await self._line.ask(lambda redis: self._look(redis, (), at_once=1))
        return "whole" if epoch is not None and look.build == _Build(epoch, look.run) else "unbuilt"

    # Following the writes

    async def announce(self, ids: Sequence[str]) -> str | None:
        """Called before a write. Returns its ticket, or None if the sets can't follow it and were marked as incomplete."""
        ticket = secrets.token_hex(8)
        announcement = json.dumps({"at": time.time(), "ids": list(ids)})
        try:
            await self._line.ask(lambda redis: redis.hset(self._names.tickets, ticket, announcement))
        except StoreError:
            await self.distrust()
            return None
        return ticket

    async def withdraw(self, ticket: str | None) -> None:
        """Remove the ticket of a write that didn't happen."""
        if ticket is not None:
            with suppress(StoreError):
                await self._line.ask(lambda redis: redis.hdel(self._names.tickets, ticket))

    async def settle(
        self, ticket: str | None, *, now: Collection[Memory], before: Collection[Memory] = ()
    ) -> None:
        """Update the sets after a write, before it is acknowledged, from the records as they are now and were before."""
        added = self._by_set(now)
        removed = {key: ids - added.get(key, set()) for key, ids in self._by_set(before).items()}
        places = {json.dumps([memory.scope, memory.agent]) for memory in now}

        async def work(redis: Client) -> list[Any]:
            async with redis.pipeline() as pipe:
                pipe.get(self._names.mark)
                pipe.get(self._names.building)
                pipe.info("server")
                _change(pipe, added, places=places, names=self._names)
                for key, ids in removed.items():
                    if ids:
                        pipe.srem(key, *ids)
                if ticket is not None:
                    pipe.hdel(self._names.tickets, ticket)
                results: list[Any] = await pipe.execute()
                return results

        try:
            epoch, answers = await asyncio.gather(self._store.cursor(WHOLE), self._line.ask(work))
        except StoreError:
            await self.distrust()
            return
        run = answers[2]["run_id"]
        current_builds = {
            build.epoch for build in map(_read, answers[:2]) if build is not None and build.run == run
        }
        if self._owing or (epoch is not None and _bare(epoch) not in current_builds):
            await self.distrust()  # others follow another server, or this one has lost data

    async def distrust(self) -> None:
        """Mark the sets as incomplete for all processes. If the store can't be written now, that is retried, and the sets aren't used."""
        try:
            if await self._store.cursor(WHOLE) is not None:
                await self._store.set_cursor(WHOLE, None)
            self._owing = False
        except StoreError as error:
            log.warning("the keyword sets could not be declared stale yet: %s", error.code)
            self._owing = True

    # Building

    def build_soon(self) -> None:
        """Start a build in the background, unless one is running or has just run."""
        idle = self._builder is None or self._builder.done()
        if idle and not self.obstacle and time.monotonic() >= self._not_before:
            self._builder = self._later(self._build())

    async def built(self) -> None:
        """Wait until a running build has ended."""
        if self._builder is not None:
            await asyncio.wait({self._builder})

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _build(self) -> None:
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        self._not_before = time.monotonic() + self._pause
        epoch = secrets.token_hex(8)
        claim = f"{BUILDING}{epoch}@{int(time.time())}"
        try:
            if await self.facts() == "whole":
                return
            before = await self._store.cursor(WHOLE)
            if _claimed(before) or not await self._store.swap_cursor(WHOLE, old=before, new=claim):
                return
        except StoreError:
            return
        complete = False
        try:
            complete = await self._built(epoch)
            complete = complete and await self._store.swap_cursor(WHOLE, old=claim, new=epoch)
        except StoreError as error:
            log.warning("the keyword sets were not built: %s", error.code)
        finally:
            if not complete:
                with suppress(StoreError):
                    await asyncio.shield(self._store.swap_cursor(WHOLE, old=claim, new=None))
        if complete:
            self._pause, self._not_before = FIRST_PAUSE, 0.0
            log.info("the keyword sets are whole")

    async def _built(self, epoch: str) -> bool:
        """Build the sets. Returns whether nothing was lost meanwhile."""
        run = await self._line.ask(lambda redis: self._begun(redis, epoch))
        if run is None:
            return False
        async for keys in self._sets_there():
            await self._line.ask(lambda redis, keys=keys: redis.unlink(*keys))  # type: ignore[misc]
        async for batch in self._store.scan(await self._at_home()):
            await self._line.ask(lambda redis, batch=batch: self._put(redis, batch))  # type: ignore[misc]
        return await self._line.ask(lambda redis: self._finished(redis, epoch, run))

    async def _at_home(self) -> Filter:
        """The filter for records of the home store: sets of others aren't needed, and an unreachable store must not block the build."""
        placed = json.loads(await self._store.cursor(REGISTRY) or "{}")
        if not placed:
            return _EVERYTHING
        names = tuple(scope.name for scope in await self._store.scopes() if scope.name not in placed)
        return replace(_EVERYTHING, scopes=names)

    async def _begun(self, redis: Client, epoch: str) -> str | None:
        memory = await redis.info("memory")
        if int(memory.get("maxmemory", 0)) and str(memory.get("maxmemory_policy", "")).startswith("allkeys"):
            self.obstacle = (
                "Redis drops keys by itself (maxmemory-policy allkeys-*), so no keyword sets are kept there; "
                "noeviction or volatile-* lets them be."
            )
            log.warning(self.obstacle)
            return None
        run = str((await redis.info("server"))["run_id"])
        async with redis.pipeline() as pipe:
            pipe.delete(self._names.mark, self._names.places)
            pipe.set(self._names.building, json.dumps([epoch, run]))
            await pipe.execute()
        return run

    async def _sets_there(self) -> AsyncIterator[list[bytes]]:
        cursor = 0
        while True:
            place = cursor
            cursor, keys = await self._line.ask(
                lambda redis: redis.scan(place, match=self._names.every_keyword, count=1_000)  # noqa: B023
            )
            if keys:
                yield keys
            if not cursor:
                return

    async def _put(self, redis: Client, memories: Sequence[Memory]) -> None:
        places = {json.dumps([memory.scope, memory.agent]) for memory in memories if memory.keywords}
        async with redis.pipeline(transaction=False) as pipe:
            _change(pipe, self._by_set(memories), places=places, names=self._names)
            await pipe.execute()

    async def _finished(self, redis: Client, epoch: str, run: str) -> bool:
        from redis.exceptions import WatchError

        async with redis.pipeline() as pipe:
            await pipe.watch(self._names.building)
            begun = _read(await pipe.get(self._names.building))
            server = await pipe.info("server")
            if begun != _Build(epoch, run) or server["run_id"] != run:
                return False
            pipe.multi()
            pipe.set(self._names.mark, json.dumps([epoch, run]), ex=KEPT)
            pipe.delete(self._names.building)
            try:
                await pipe.execute()
            except WatchError:
                return False
        return True

    # Looking

    async def _places(self, where: Filter) -> list[tuple[str, str]]:
        agents = visible_agents(where.viewer)
        if where.scopes and agents is not None:
            return list(product(where.scopes, sorted(agents)))
        members = await self._line.ask(lambda redis: redis.smembers(self._names.places))
        places = [tuple(json.loads(place)) for place in members]
        return [
            (scope, agent)
            for scope, agent in places
            if (not where.scopes or scope in where.scopes) and (agents is None or agent in agents)
        ]

    async def _look(self, redis: Client, keys: Sequence[str], *, at_once: int) -> _Look:
        key_names = [self._names.mark, self._names.tickets, *keys]
        script = redis.register_script(LOOK)
        mark, run, tickets, joined_ids = await script(keys=key_names, args=[at_once, MOST_FOUND])
        announcements = dict(zip(tickets[::2], map(json.loads, tickets[1::2]), strict=True))
        ids = None if joined_ids is None else {each.decode() for each in joined_ids.split(b"\n") if each}
        return _Look(
            _read(mark), run.decode(), {ticket.decode(): each for ticket, each in announcements.items()}, ids
        )

    def _under_way(self, tickets: Mapping[str, Any]) -> set[str]:
        oldest = time.time() - OLD_TICKET
        old = {
            ticket: announcement["ids"]
            for ticket, announcement in tickets.items()
            if announcement["at"] < oldest
        }
        if old:
            self._later(self._put_in_order(old))
        return {memory_id for announcement in tickets.values() for memory_id in announcement["ids"]}

    async def _put_in_order(self, tickets: dict[str, list[str]]) -> None:
        """Complete the writes of processes that died."""
        with suppress(StoreError):
            for ticket, ids in tickets.items():
                memories = await self._store.get_many(ids, viewer=_EVERYTHING.viewer)
                await self.settle(ticket, now=memories.values())

    def _by_set(self, memories: Iterable[Memory]) -> dict[str, set[str]]:
        sets: dict[str, set[str]] = {}
        for memory in memories:
            for form in keyword_forms(memory.keywords):
                sets.setdefault(self._names.keyword(memory.scope, memory.agent, form), set()).add(memory.id)
        return sets

    def _later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _change(pipe: Any, added: dict[str, set[str]], *, places: Iterable[str], names: KeyNames) -> None:
    for key, ids in added.items():
        pipe.sadd(key, *ids)
    if places := list(places):
        pipe.sadd(names.places, *places)


def _read(mark: bytes | None) -> _Build | None:
    return None if mark is None else _Build(*json.loads(mark))


def _bare(cursor: str) -> str:
    """The build that a cursor names, complete or under way."""
    return cursor.removeprefix(BUILDING).partition("@")[0]


def _claimed(cursor: str | None) -> bool:
    """Whether another process is building, and not for too long."""
    if cursor is None or not cursor.startswith(BUILDING):
        return False
    return time.time() - float(cursor.partition("@")[2]) < LAPSED
