"""Which memories a caller means to forget."""

from __future__ import annotations

from dataclasses import dataclass

from mindhold.engine.checks import bare_tags
from mindhold.engine.core import Engine
from mindhold.engine.reach import reach, scope_called
from mindhold.engine.recall import MOST_HITS, Hit, Question, recall
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import ANY_STATUS, Status
from mindhold.model.query import Filter

MOST_FOUND = 20
FOUND = (Status.ACTIVE, Status.ARCHIVED)  # what recall finds, by itself or if it is asked to


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
    scope = await scope_called(engine, choice.scope) if choice.scope else None
    if choice.ids and not (choice.tags or choice.topic or choice.scope):
        return list(choice.ids)
    scopes = (scope,) if scope else () if choice.everywhere else await reach(engine, None)
    where = Filter(
        viewer=agent,
        ids=choice.ids,
        tags=bare_tags(choice.tags),
        topic=choice.topic,
        scopes=scopes,
        statuses=ANY_STATUS if choice.hidden or choice.ids else FOUND,
    )
    return [memory.id async for batch in engine.store.scan(where) for memory in batch]


async def candidates(engine: Engine, choice: Choice, *, agent: str) -> tuple[Hit, ...]:
    """What a query finds, best first; among the ids if there are some. Raises InvalidInput, ScopeNotFound."""
    question = Question(
        text=choice.query or "",
        scope=choice.scope,
        scope_only=choice.scope is not None,
        tags=choice.tags,
        topic=choice.topic,
        statuses=FOUND,
        limit=MOST_HITS if choice.ids else MOST_FOUND,
        count_use=False,
    )
    hits = (await recall(engine, question, agent=agent)).hits
    return tuple(hit for hit in hits if hit.memory.id in choice.ids) if choice.ids else hits
