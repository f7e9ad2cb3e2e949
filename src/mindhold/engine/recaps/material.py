"""The messages of a conversation that a summary may stand for, read by their places."""

from __future__ import annotations

from collections.abc import Sequence

from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.draft import QUARANTINE_FROM
from mindhold.engine.message_text import whole_texts
from mindhold.engine.messages import free_position, is_message, role_of
from mindhold.engine.recaps.picking import Utterance
from mindhold.engine.recaps.record import STANDING
from mindhold.engine.text.suspicion import suspicion
from mindhold.model.access import EVERYONE
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order, Spot

PAGE = 500
MOST_CHARACTERS = 400_000  # of long messages that are read whole
LONGEST_MESSAGE = 20_000  # characters of one that are looked at


def said_in(conversation: str, *, scope: str, agent: str) -> Filter:
    """What picks an agent's messages of a conversation, those in the archive too: an owner's summary tells nobody else's."""
    return Filter(
        viewer=EVERYONE,
        scopes=(scope,),
        agents=(agent,),
        conversation=conversation,
        turns=True,
        statuses=STANDING,
        minimum_trust=LEAST_TRUST,
    )


async def messages_at(engine: Engine, where: Filter) -> list[Memory]:
    """Those that may be told again, in the order of their places. What reads like an instruction is none of them."""
    found: list[Memory] = []
    after: Spot | None = None
    while page := await engine.store.find(where, order=Order.OLDEST, limit=PAGE, after=after):
        after = Spot.of(page[-1], Order.OLDEST)
        found += [
            memory
            for memory in page
            if is_message(memory) and suspicion(memory.content).score < QUARANTINE_FROM
        ]
        if len(page) < PAGE:
            break
    return sorted(found, key=lambda one: (one.provenance.position or 0, one.id))


async def utterances(engine: Engine, messages: Sequence[Memory]) -> list[Utterance]:
    """As they were said, long ones whole as far as there is room."""
    texts = await whole_texts(engine, messages, agent=EVERYONE, most=MOST_CHARACTERS)
    return [
        Utterance(
            message.id,
            role_of(message),
            texts.get(message.id, message.content)[:LONGEST_MESSAGE],
            message.occurred,
        )
        for message in messages
    ]


async def last_place(engine: Engine, conversation: str, *, scope: str) -> int:
    """Of anybody's messages; -1 where there are none."""
    return await free_position(engine, conversation, scope=scope) - 1
