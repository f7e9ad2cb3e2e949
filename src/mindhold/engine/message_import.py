"""Many messages of a project at once, and again where an import broke off."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from mindhold.engine.checks import LARGEST_NUMBER
from mindhold.engine.core import Engine
from mindhold.engine.draft import Draft
from mindhold.engine.messages import Message, free_position, message_draft
from mindhold.engine.once import LONGEST_KEY
from mindhold.engine.recap_queue import recap_jobs
from mindhold.engine.verbatim import Kept, keep_many
from mindhold.model.errors import InvalidInput, MindholdError
from mindhold.model.memory import ANY_STATUS, Memory
from mindhold.model.query import Filter

ALL = "system"  # a place may be taken by anybody


async def save_messages(
    engine: Engine,
    project: str,
    numbered: Sequence[tuple[int, Message]],
    *,
    agent: str,
    key: str | None = None,
    embed: bool = True,
) -> list[Kept | MindholdError]:
    """One answer a message, in order. The project is there; messages are of it, whatever they say themselves.

    With a key, a message is stored once under it and its number. Raises InvalidInput for what is no key, ScopeNotFound
    and the store's errors.
    """
    names = [] if key is None else _names(key, [number for number, _ in numbered])
    drafts: dict[int, Draft] = {}
    answers: dict[int, Kept | MindholdError] = {}
    for place, (_, message) in enumerate(numbered):
        try:
            drafts[place] = message_draft(engine, message, project=project, agent=agent)
        except InvalidInput as error:
            answers[place] = error
    kept = await keep_many(
        engine,
        list(drafts.values()),
        names=[names[place] for place in drafts] if names else (),
        placing=_Places(engine, project),
        embed=embed,
        along=recap_jobs(engine),
    )
    answers |= dict(zip(drafts, kept, strict=True))
    return [answers[place] for place in range(len(numbered))]


class _Places:
    """Where messages stand in their conversations: looked up once for each, then counted."""

    def __init__(self, engine: Engine, scope: str) -> None:
        self._engine = engine
        self._scope = scope
        self._next: dict[str, int] = {}

    async def __call__(self, memories: Sequence[Memory]) -> list[int]:
        named = [memory.provenance.conversation or "" for memory in memories]
        new = [name for name in dict.fromkeys(named) if name not in self._next]
        self._next |= dict(zip(new, await asyncio.gather(*map(self._free, new)), strict=True))
        places: list[int] = []
        for name in named:
            places.append(self._next[name])
            self._next[name] = min(places[-1] + 1, LARGEST_NUMBER)
        return places

    async def _free(self, conversation: str) -> int:
        """Most conversations of an import are new."""
        begun = Filter(
            viewer=ALL,
            scopes=(self._scope,),
            statuses=ANY_STATUS,
            conversation=conversation,
            positions=(0, 0),
        )
        if not await self._engine.store.count(begun, most=1):
            return 0
        return await free_position(self._engine, conversation, scope=self._scope)


def _names(key: str, numbers: Sequence[int]) -> list[str]:
    """What the messages of an import are known by. Nobody reads the key back."""
    if not key.strip() or len(key) > LONGEST_KEY:
        raise InvalidInput(
            f"An idempotency key has 1 to {LONGEST_KEY} characters.", advice="A random id does well."
        )
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return [f"import {digest} {number}" for number in numbers]
