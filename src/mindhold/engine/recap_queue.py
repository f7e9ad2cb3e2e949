"""When conversations of the log are to be summarised: jobs that are written with the messages, and that nobody waits for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from mindhold.engine.core import Engine
from mindhold.engine.keys import fingerprint
from mindhold.model.access import EVERYONE
from mindhold.model.job import SCOPE, Job
from mindhold.model.memory import Memory
from mindhold.model.query import Filter
from mindhold.ports.store import Change, Enqueue

RECAP_JOB = "recap"
AGENT, CONVERSATION, WHY = "agent", "conversation", "why"  # in a job's payload
SILENCE, GROWN, ENDED, REMADE = "silence", "grown", "ended", "remade"  # why
Along = Callable[[Sequence[Memory]], list[Change]]


def recap_job(
    engine: Engine, conversation: str, *, scope: str, agent: str, why: str, due: datetime | None = None
) -> Job:
    """One waits for the silence of a conversation, and one of each other reason to do it now."""
    now = engine.clock()
    key = f"{RECAP_JOB}:{why}:{fingerprint(json.dumps([agent, scope, conversation]))}"
    payload = {SCOPE: scope, AGENT: agent, CONVERSATION: conversation, WHY: why}
    return Job(engine.new_id(), RECAP_JOB, created=now, due=due or now, payload=payload, key=key)


def recap_jobs(engine: Engine) -> Along:
    """What is written along with messages, of many at once: of each conversation one job for when it is silent, and one for
    now where it has grown by enough."""
    chosen = engine.policy.recaps
    queued: set[tuple[str, str, str, str]] = set()

    def along(messages: Sequence[Memory]) -> list[Change]:
        if not chosen.enabled:
            return []
        changes: list[Change] = []
        for message in messages:
            told = message.provenance
            grown = told.position is not None and (told.position + 1) % chosen.every_messages == 0
            for why in (SILENCE, GROWN) if grown else (SILENCE,):
                place = (message.agent, message.scope, told.conversation or "", why)
                if place in queued:
                    continue
                queued.add(place)
                due = engine.clock() + engine.policy.session_ttl if why == SILENCE else None
                job = recap_job(engine, place[2], scope=message.scope, agent=message.agent, why=why, due=due)
                changes.append(Enqueue(job))
        return changes

    return along


async def queue_ended(engine: Engine, conversation: str, *, agents: Iterable[str] = ()) -> None:
    """It is over: summarise what these agents, or all, said in it in each scope; mostly that is nothing."""
    if not engine.policy.recaps.enabled:
        return
    where = Filter(viewer=EVERYONE, agents=tuple(agents), conversation=conversation, turns=True)
    jobs: list[Change] = [
        Enqueue(recap_job(engine, conversation, scope=scope, agent=agent, why=ENDED))
        for scope in await engine.store.tally(where, "scope")
        for agent in await engine.store.tally(replace(where, scopes=(scope,)), "agent")
    ]
    if jobs:
        await engine.store.apply(jobs)
