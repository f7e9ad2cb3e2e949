"""Which messages summaries stand for, and which ones a summary does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.recap_undo import is_recap
from mindhold.engine.surroundings import HIDDEN
from mindhold.model.memory import Memory, Status, is_turn

BATCH = 500
MOST_MESSAGES = 100_000


async def covering(engine: Engine, ids: Collection[str]) -> set[str]:
    """Those of the messages that an active summary stands for, or one that an active summary stands for in its turn."""
    covered: set[str] = set()
    wanted = list(dict.fromkeys(ids))
    for start in range(0, len(wanted), BATCH):
        covered |= await _covered(engine, wanted[start : start + BATCH])
    return covered


async def _covered(engine: Engine, ids: Sequence[str]) -> set[str]:
    asked = set(ids)
    found = [one for one in await engine.store.derived_from(ids) if is_recap(one)]
    active = {one.id for one in found if _stands(one)}
    resting = [one.id for one in found if one.status is Status.ARCHIVED]
    active |= await _covered(engine, resting) if resting else set()
    return {source for one in found if one.id in active for source in one.merged_from if source in asked}


def _stands(recap: Memory) -> bool:
    return recap.status is Status.ACTIVE and recap.trust >= LEAST_TRUST


async def messages_of(engine: Engine, recap: Memory, *, agent: str) -> list[Memory]:
    """The messages that it stands for, as far as the agent sees them, in the order that they were said in."""
    found: dict[str, Memory] = {}
    seen: set[str] = {recap.id}
    ahead = list(recap.merged_from)
    while ahead and len(found) < MOST_MESSAGES:
        fresh = [one for one in dict.fromkeys(ahead) if one not in seen]
        seen.update(fresh)
        there = await engine.store.get_many(fresh, viewer=agent)
        found |= {one.id: one for one in there.values() if is_turn(one) and one.status not in HIDDEN}
        ahead = [source for one in there.values() if is_recap(one) for source in one.merged_from]
    return _in_order(found.values())


def _in_order(messages: Collection[Memory]) -> list[Memory]:
    """Conversation by conversation, as they began."""
    begun: dict[str, datetime] = {}
    for message in messages:
        name = message.provenance.conversation or ""
        begun[name] = min(message.occurred, begun.get(name, message.occurred))

    def place(message: Memory) -> tuple[datetime, str, int, str]:
        name = message.provenance.conversation or ""
        return begun[name], name, message.provenance.position or 0, message.id

    return sorted(messages, key=place)
