"""Conversations that ended and that no job has summarised: from before there were any, or whose job failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta

from mindhold.engine.consolidate.stage import Bounds, Told
from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.recaps.covering import covering
from mindhold.engine.recaps.making import Talk, recapped
from mindhold.engine.recaps.material import said_in
from mindhold.model.access import EVERYONE
from mindhold.model.errors import Changed
from mindhold.model.query import Filter, Order

LOOKED = "recaps:looked"  # a cursor: up to when all that was written is known to be looked at
RECAPPED = "recapped"
LATE = timedelta(minutes=10)  # by which clocks differ
NEWEST = 50  # messages of which one that nobody stands for gives its conversation away


async def missed(engine: Engine, within: Bounds) -> AsyncIterator[Told | None]:
    """Something for each conversation that was looked at: what was made of it, if anything. Raises the store's errors."""
    begun = engine.clock()
    last = await engine.store.cursor(LOOKED)
    since = datetime.fromisoformat(last) if last else None
    async for talk in _talks(engine, since):
        if within.over:
            return
        yield await _recapped(engine, talk, dry=within.dry)
    if not within.dry:
        await engine.store.set_cursor(LOOKED, (begun - engine.policy.session_ttl - LATE).isoformat())


async def _talks(engine: Engine, since: datetime | None) -> AsyncIterator[Talk]:
    """Those in which something was said, or changed, since then."""
    where = Filter(viewer=EVERYONE, turns=True, changed=since, minimum_trust=LEAST_TRUST)
    for scope in await engine.store.tally(where, "scope"):
        own = replace(where, scopes=(scope,))
        for agent in await engine.store.tally(own, "agent"):
            for name in await engine.store.tally(replace(own, agents=(agent,)), "conversation"):
                yield Talk(name, scope, agent)


async def _recapped(engine: Engine, talk: Talk, *, dry: bool) -> Told | None:
    """None where it goes on, is too short, or is summarised already."""
    where = said_in(talk.conversation, scope=talk.scope, agent=talk.agent)
    newest = await engine.store.find(where, order=Order.CHANGED, limit=NEWEST)
    if not newest or newest[0].created + engine.policy.session_ttl > engine.clock():
        return None
    least = engine.policy.recaps.from_messages
    if await engine.store.count(where, most=least) < least:
        return None
    ids = {one.id for one in newest}
    if await covering(engine, ids) == ids:
        return None
    why = f"a conversation in {talk.scope} had no summary"
    if dry:
        return Told("", RECAPPED, why)
    try:
        found = (await recapped(engine, talk, whole=True)).recap
    except Changed:  # another time
        return None
    return Told(found.memory.id, RECAPPED, why) if found and found.made else None
