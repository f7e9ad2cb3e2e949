"""What a job does for one conversation: summarise it if it is over, or has grown by enough, and else look again later."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from time import monotonic
from typing import Any

from mindhold.engine.core import Engine
from mindhold.engine.recap_queue import AGENT, CONVERSATION, GROWN, REMADE, SILENCE, WHY, recap_job
from mindhold.engine.recaps.making import Talk, recapped
from mindhold.engine.recaps.material import said_in
from mindhold.engine.recaps.record import recaps_of
from mindhold.model.job import SCOPE
from mindhold.model.query import Order
from mindhold.ports.store import Enqueue

AGAIN = timedelta(minutes=1)  # where somebody else is at it
LONGEST_RUN = 20.0  # seconds, after which no further part is begun: other jobs wait


async def recap_due(
    engine: Engine, payload: Mapping[str, Any], *, seconds: float = LONGEST_RUN
) -> Mapping[str, Any]:
    """Of the conversation that a job names; what there is no time for is queued again. Raises Changed where messages went meanwhile, and the store's errors."""
    talk = Talk(str(payload[CONVERSATION]), str(payload[SCOPE]), str(payload[AGENT]))
    why = str(payload.get(WHY, SILENCE))
    chosen = engine.policy.recaps
    if not chosen.enabled and why != REMADE:  # any more
        return {"recapped": 0}
    where = said_in(talk.conversation, scope=talk.scope, agent=talk.agent)
    if why == SILENCE:
        latest = await engine.store.find(where, order=Order.CHANGED, limit=1)
        over = latest[0].created + engine.policy.session_ttl if latest else engine.clock()
        if over > engine.clock():
            job = recap_job(engine, talk.conversation, scope=talk.scope, agent=talk.agent, why=why, due=over)
            await engine.store.apply([Enqueue(job)])
            return {"recapped": 0}
    if why not in (GROWN, REMADE) and not await _is_enough(engine, talk):
        return {"recapped": 0}
    until = monotonic() + seconds
    done = await recapped(engine, talk, whole=why != GROWN, enough=lambda: monotonic() >= until)
    if done.busy or done.more:
        due = engine.clock() + (AGAIN if done.busy else timedelta())
        job = recap_job(engine, talk.conversation, scope=talk.scope, agent=talk.agent, why=why, due=due)
        await engine.store.apply([Enqueue(job)])
    return {"recapped": int(done.recap is not None and done.recap.made)}


async def _is_enough(engine: Engine, talk: Talk) -> bool:
    """Whether it was summarised before, or has as many messages as a summary needs."""
    where = said_in(talk.conversation, scope=talk.scope, agent=talk.agent)
    least = engine.policy.recaps.from_messages
    if await engine.store.count(where, most=least) >= least:
        return True
    return bool(await recaps_of(engine, talk.conversation, scope=talk.scope, agent=talk.agent))
