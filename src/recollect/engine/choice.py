"""Which memories a caller means to forget."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.engine.core import Engine
from recollect.engine.reach import find_scope, reach
from recollect.engine.recall import Hit, Question, recall
from recollect.model.errors import InvalidInput
from recollect.model.memory import ANY_STATUS, Status
from recollect.model.query import Filter

MOST_FOUND = 20


@dataclass(frozen=True, slots=True)
class Choice:
    """All that is stated must hold. `hidden` takes in what recall doesn't find."""

    ids: tuple[str, ...] = ()
    query: str | None = None
    tags: tuple[str, ...] = ()
    topic: str | None = None
    scope: str | None = None
    everywhere: bool = True  # without a scope: in all of them, or in those that the call sees
    hidden: bool = False

    @property
    def whole_scope(self) -> bool:
        """Whether everything in a scope is meant."""
        return bool(self.scope and not (self.ids or self.query or self.tags or self.topic))


async def chosen(engine: Engine, choice: Choice, *, agent: str) -> list[str]:
    """The ids, without a query. Raises InvalidInput when nothing is stated, ScopeNotFound."""
    if not (choice.ids or choice.tags or choice.topic or choice.scope):
        raise InvalidInput(
            "Nothing was named to forget.", advice="Give ids, a query, or a tag, topic or scope."
        )
    if choice.scope:
        await find_scope(engine, choice.scope)
    if choice.ids and not (choice.tags or choice.topic or choice.scope):
        return list(choice.ids)
    scopes = (choice.scope,) if choice.scope else () if choice.everywhere else await reach(engine, None)
    where = Filter(
        viewer=agent,
        ids=choice.ids,
        tags=choice.tags,
        topic=choice.topic,
        scopes=scopes,
        statuses=ANY_STATUS if choice.hidden or choice.ids else (Status.ACTIVE,),
    )
    return [memory.id async for batch in engine.store.scan(where) for memory in batch]


async def candidates(engine: Engine, choice: Choice, *, agent: str) -> tuple[Hit, ...]:
    """What a query finds, best first. Raises InvalidInput for ids beside it, ScopeNotFound."""
    if choice.ids:
        raise InvalidInput("Name ids, or a query; not both.")
    question = Question(
        text=choice.query or "",
        scope=choice.scope,
        scope_only=choice.scope is not None,
        tags=choice.tags,
        topic=choice.topic,
        limit=MOST_FOUND,
        count_use=False,
    )
    return (await recall(engine, question, agent=agent)).hits
