"""The conversations of the log, and what stands for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.recap_undo import is_recap
from mindhold.engine.recaps.making import top
from mindhold.engine.recaps.record import STANDING, Recap, recap_of
from mindhold.model.memory import Kind, Status
from mindhold.model.query import Filter, Order, Spot
from mindhold.model.recap import CONVERSATION, TAG, TOPICS

PAGE = 200
MOST_PAGES = 25  # of the newest messages that are looked through for whose conversation each is


@dataclass(frozen=True, slots=True)
class Listed:
    """One conversation in one scope, as far as somebody sees it."""

    conversation: str
    scope: str
    messages: int
    first: datetime
    last: datetime
    recap: Recap | None = None


async def conversations(engine: Engine, scopes: Sequence[str], *, agent: str, limit: int) -> list[Listed]:
    """Those of which something was said last, the latest first; messages in the archive count too."""
    where = Filter(
        viewer=agent, scopes=tuple(scopes), turns=True, statuses=STANDING, minimum_trust=LEAST_TRUST
    )
    places: dict[tuple[str, str], None] = {}
    after: Spot | None = None
    for _ in range(MOST_PAGES):
        page = await engine.store.find(where, limit=PAGE, after=after)
        for message in page:
            places.setdefault((message.scope, message.provenance.conversation or ""))
        if len(places) >= limit or len(page) < PAGE:
            break
        after = Spot.of(page[-1], Order.NEWEST)
    else:
        for scope in await engine.store.tally(where, "scope"):  # behind those that fill all pages
            for name in await engine.store.tally(replace(where, scopes=(scope,)), "conversation"):
                places.setdefault((scope, name))
    found = [await listed(engine, name, scope=scope, agent=agent) for scope, name in list(places)[:limit]]
    return sorted(filter(None, found), key=lambda one: one.last, reverse=True)


async def listed(engine: Engine, conversation: str, *, scope: str, agent: str) -> Listed | None:
    """None where the agent sees no message of it."""
    where = Filter(
        viewer=agent,
        scopes=(scope,),
        conversation=conversation,
        turns=True,
        statuses=STANDING,
        minimum_trust=LEAST_TRUST,
    )
    first = await engine.store.find(where, order=Order.OLDEST, limit=1)
    last = await engine.store.find(where, order=Order.NEWEST, limit=1)
    if not first or not last:
        return None
    told = await engine.store.find(
        recaps_where((scope,), viewer=agent, conversation=conversation), limit=PAGE
    )
    ordered = sorted(
        map(recap_of, filter(is_recap, told)),
        key=lambda one: (one.memory.agent == agent, one.positions or (-1, -1)),
    )
    return Listed(
        conversation,
        scope,
        await engine.store.count(where),
        first[0].occurred,
        last[0].occurred,
        top(ordered),
    )


def recaps_where(
    scopes: Sequence[str],
    *,
    viewer: str,
    conversation: str | None = None,
    level: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    archived: bool = False,
) -> Filter:
    """What picks summaries; those that are merged into others only if asked for."""
    return Filter(
        viewer=viewer,
        scopes=tuple(scopes),
        kinds=(Kind.CONTEXT,),
        tags=(TAG,),
        topic=TOPICS.get(CONVERSATION if conversation is not None else level or 0),
        conversation=conversation,
        since=since,
        until=until,
        statuses=STANDING if archived else (Status.ACTIVE,),
        minimum_trust=LEAST_TRUST,
    )
