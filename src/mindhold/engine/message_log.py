"""Single messages of a project's log, pages of them, and their removal for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mindhold.engine.capture.rewriting import rewrite_documents
from mindhold.engine.core import Engine
from mindhold.engine.forget import erase
from mindhold.engine.message_session import asked_session
from mindhold.engine.message_text import firsts_of, is_part, whole_texts
from mindhold.engine.messages import is_message, messages_where
from mindhold.engine.projects import open_project
from mindhold.model.errors import (
    MemoryNotFound,
    MessageNotFound,
    NoCriteria,
    SessionNotFound,
    TaskNotFound,
)
from mindhold.model.life import is_kept_for_good
from mindhold.model.memory import ANY_STATUS, Memory, Status
from mindhold.model.query import Filter, Order, Spot

BATCH = 500  # so that others write in between
TRIES = 5  # of a batch of which others take something away meanwhile


@dataclass(frozen=True, slots=True)
class Criteria:
    """Which messages; all that is given holds of each."""

    message: str | None = None
    conversation: str | None = None
    task: int | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """How many messages went, and how many of those that match stayed, for they are kept for good."""

    project: str
    count: int
    kept: int
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """A message with all of its text."""

    memory: Memory
    content: str


async def message_page(
    engine: Engine, where: Filter, *, order: Order, limit: int, after: Spot | str | None
) -> list[Memory]:
    """A page of what `messages_where` picks."""
    return await engine.store.find(where, order=order, limit=limit, after=after)


async def show_message(engine: Engine, project: str | None, message_id: str, *, agent: str) -> Whole:
    """The whole of it, also by the id of one of its parts, and of what is quarantined: nobody comes upon it by its id.

    Raises ScopeNotFound, MessageNotFound.
    """
    name = (await open_project(engine, project)).name
    memory = await _message(engine, message_id, project=name, agent=agent)
    if memory is None or memory.status is Status.FORGOTTEN:
        raise MessageNotFound(message_id, project=name)
    return Whole(memory, (await whole_texts(engine, [memory], agent=agent))[memory.id])


async def delete_messages(
    engine: Engine, project: str | None, criteria: Criteria, *, agent: str, force: bool = False
) -> Deleted:
    """Remove them for good, parts, links, vectors and what was made of them too.

    One that is kept for good goes only with `force`: named by its id it is refused, else passed over. Raises NoCriteria,
    ScopeNotFound, MessageNotFound, SessionNotFound, TaskNotFound, Refused, InvalidInput for what can't be a session's name.
    """
    criteria = replace(criteria, conversation=asked_session(engine, criteria.conversation))
    if criteria == Criteria():
        raise NoCriteria(
            "Nothing says which messages are to be deleted.",
            advice="Give message_id, session_id, task_id or before_date.",
        )
    name = (await open_project(engine, project)).name
    where = _everywhere(
        messages_where(
            name,
            viewer=agent,
            conversation=criteria.conversation,
            task=criteria.task,
            until=criteria.before,
        )
    )
    if criteria.message is not None:
        named = await _message(engine, criteria.message, project=name, agent=agent)
        if named is None:
            raise MessageNotFound(criteria.message, project=name)
        where = replace(where, ids=(named.id,))
    count, kept, last = await _erased(engine, where, agent=agent, force=force, named=bool(criteria.message))
    if not count + kept:
        await _missing(engine, criteria, project=name, agent=agent)
    return Deleted(name, count, kept, await rewrite_documents(engine, last))


async def _erased(
    engine: Engine, where: Filter, *, agent: str, force: bool, named: bool
) -> tuple[int, int, Sequence[Memory]]:
    count = kept = 0
    last: list[Memory] = []
    after: Spot | None = None
    while page := await engine.store.find(where, order=Order.OLDEST, limit=BATCH, after=after):
        after = Spot.of(page[-1], Order.OLDEST)
        going = [memory for memory in page if force or named or not is_kept_for_good(memory)]
        kept += len(page) - len(going)
        count += await _gone(engine, going, agent=agent, force=force or not named)
        last = going or last
        if len(page) < BATCH:
            break
    return count, kept, last


async def _gone(engine: Engine, messages: Sequence[Memory], *, agent: str, force: bool) -> int:
    """How many of them were there to be erased: others may take some away at the same time."""
    ids = [message.id for message in messages]
    for tried in range(TRIES):
        if not ids:
            return 0
        try:
            await erase(engine, ids, agent=agent, force=force)
        except MemoryNotFound:
            if tried == TRIES - 1:
                raise
            ids = list(await engine.store.get_many(ids, viewer=agent))
        else:
            break
    return len(ids)


async def _missing(engine: Engine, criteria: Criteria, *, project: str, agent: str) -> None:
    """Raises what says that there is nothing of a name that was given."""
    everywhere = _everywhere(messages_where(project, viewer=agent))
    if criteria.conversation is not None:
        within = replace(everywhere, conversation=criteria.conversation)
        if not await engine.store.count(within, most=1):
            raise SessionNotFound(criteria.conversation, project=project)
    if criteria.task is not None:
        within = _everywhere(messages_where(project, viewer=agent, task=criteria.task))
        if not await engine.store.count(within, most=1):
            raise TaskNotFound(criteria.task, project=project)


def _everywhere(where: Filter) -> Filter:
    """Of whatever status and trust: what was set aside is deleted too."""
    return replace(where, statuses=ANY_STATUS, minimum_trust=0.0)


async def _message(engine: Engine, message_id: str, *, project: str, agent: str) -> Memory | None:
    found = (await engine.store.get_many([message_id], viewer=agent)).get(message_id)
    if found is not None and is_part(found):
        found = (await firsts_of(engine, [found], agent=agent)).get(found.id)
    return found if found is not None and found.scope == project and is_message(found) else None
