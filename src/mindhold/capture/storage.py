"""Stores extracted items as memories: no duplicates, nothing that was forgotten, new statements supersede old ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mindhold.capture.items import CAPTURED, CapturedItem
from mindhold.capture.journal import erased_at
from mindhold.conversations.sessions import clean_conversation_name
from mindhold.engine import Engine
from mindhold.memories.duplicates import inheritance, superseding
from mindhold.memories.prepare import TURN, content_hash
from mindhold.memories.validation import FIRST_YEAR, safe_text
from mindhold.memories.write import RememberInput, WriteOutcome, write_many
from mindhold.model.errors import Conflict, MemoryNotFound, Refused, ScopeNotFound, StoreError
from mindhold.model.lifecycle import is_kept_for_good, is_part, is_working
from mindhold.model.memory import ANY_STATUS, Kind, Memory, Provenance, Relation, Status
from mindhold.model.query import Filter, Search
from mindhold.text.similarity import content_words, difference_kinds, jaccard, one_contains_other, quantifiers

DIALECT = "capture"
REPLACES, REPEATS = 0.5, 0.6  # shares of words: with what it says it replaces, with another of its kind
SAME_SUBJECT = 0.25  # of the words of the shorter one, that it shares with what it says it replaces
LOOKED_AT = 50  # memories that share most words
MOST_SOUGHT = 32  # words that they are looked for by
LONGEST = 2_000
_ENDED = (Status.SUPERSEDED, Status.ARCHIVED, Status.FORGOTTEN)
# Two texts that differ in one of these speak of two things.
_APART = frozenset({"number", "name", "date", "path", "negation", "antonym"})


@dataclass(frozen=True, slots=True)
class StoredItems:
    """What became of items: new memories, those that they took the place of, and how many were there already.

    `ids` has the memory of each item, None for one that became none: noise, or erased since it was said.
    """

    ids: tuple[str | None, ...] = ()
    stored: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    duplicates: int = 0


async def store_items(
    engine: Engine, items: Sequence[CapturedItem], *, conversation: str, file: str, scope: str, agent: str
) -> StoredItems:
    """Raises ScopeNotFound, Refused for a scope that is deactivated, and the store's errors."""
    keeping = _Keeping(engine, scope=scope, agent=agent)
    source = Provenance(DIALECT, CAPTURED, clean_conversation_name(engine, conversation), file=file)
    known = await _stored_before(engine, source.conversation or "", scope=scope, agent=agent)
    ids: list[str | None] = [None] * len(items)
    fresh: dict[int, RememberInput] = {}
    again: list[tuple[CapturedItem, Memory]] = []
    for number, item in enumerate(items):
        digest = content_hash(safe_text(engine, item.content[:LONGEST]))
        if await keeping.was_erased(item, digest):
            continue
        if (before := await keeping.kept_before(item, digest, known.get(digest, ()))) is not None:
            ids[number] = before.id
            again.append((item, before))
        elif (same := await keeping.said_already(item)) is not None:
            ids[number] = same.id
        else:
            fresh[number] = _request(item, source, scope=scope, now=engine.clock())
    answers = await write_many(engine, list(fresh.values()), agent=agent)
    stored: list[str] = []
    retired: list[str] = []
    for number, answer in zip(fresh, answers, strict=True):
        if isinstance(answer.error, ScopeNotFound | Refused | StoreError):
            raise answer.error
        if answer.memory is None:
            continue
        ids[number] = answer.memory.id
        if answer.outcome is WriteOutcome.STORED:
            stored.append(answer.memory.id)
            retired += answer.superseded
            again.append((items[number], answer.memory))
    for item, memory in again:
        retired += await keeping.retire(item, memory)
    return StoredItems(
        ids=tuple(ids),
        stored=tuple(stored),
        superseded=tuple(dict.fromkeys(retired)),
        duplicates=sum(one is not None for one in ids) - len(stored),
    )


def _request(item: CapturedItem, source: Provenance, *, scope: str, now: datetime) -> RememberInput:
    """It happened when it was said; clocks may differ, and nothing was said in the future.

    Not validated: a transcript may hold text that is no valid Unicode, which preparing it cleans.
    """
    return RememberInput.model_construct(
        content=item.content[:LONGEST],
        kind=item.kind,
        scope=scope,
        tags=list(item.tags),
        confidence=item.confidence,
        occurred=min(item.said, now) if item.said and item.said.year >= FIRST_YEAR else None,
        dialect=source.dialect,
        source=source.source,
        conversation=source.conversation,
        file=source.file,
        line=item.line,
        metadata=dict(item.metadata),
    )


async def _stored_before(
    engine: Engine, conversation: str, *, scope: str, agent: str
) -> dict[str, list[Memory]]:
    """What the conversation stored, whatever became of it, by the hash of what it says or once said."""
    where = Filter(viewer=agent, scopes=(scope,), conversation=conversation, statuses=ANY_STATUS)
    known: dict[str, list[Memory]] = defaultdict(list)
    async for batch in engine.store.scan(where):
        versions = await engine.store.versions_among([memory.id for memory in batch])
        for memory in batch:
            once = (content_hash(one.content) for one in versions.get(memory.id, ()))
            for digest in {memory.content_hash, *once}:
                known[digest].append(memory)
    return known


class _Keeping:
    """Looks among the memories of one project."""

    def __init__(self, engine: Engine, *, scope: str, agent: str) -> None:
        self._engine = engine
        self._scope = scope
        self._agent = agent

    async def was_erased(self, item: CapturedItem, digest: str) -> bool:
        """Whether somebody erased it for good since it was said."""
        gone = await erased_at(self._engine, digest, scope=self._scope, agent=self._agent)
        return gone is not None and (item.said is None or item.said <= gone)

    async def kept_before(self, item: CapturedItem, digest: str, same: Sequence[Memory]) -> Memory | None:
        """The memory that the item is already, whatever became of it: from this conversation, or one that goes on with it.

        What was forgotten or overruled may be said again, but only later than that.
        """
        near = await self._near(content_words(item.content), None, statuses=_ENDED)
        for one in (*same, *(other for other in near if other.content_hash == digest)):
            if one.status not in _ENDED or item.said is None or item.said <= await self._ended(one):
                return one
        return None

    async def _ended(self, memory: Memory) -> datetime:
        """When it was overruled, by what was said then, or taken away."""
        if memory.status is not Status.SUPERSEDED:
            return memory.updated
        relations = (Relation.SUPERSEDED_BY,)
        links = await self._engine.store.links_of([memory.id], relations=relations, viewer=self._agent)
        ids = [link.target for link in links if link.origin == memory.id]
        by = await self._engine.store.get_many(ids, viewer=self._agent)
        return max((one.occurred for one in by.values()), default=memory.updated)

    async def said_already(self, item: CapturedItem) -> Memory | None:
        """One of the same kind that says all that the item says; where things stand is always told anew."""
        if item.supersedes or item.kind is Kind.PROGRESS:
            return None
        words = content_words(item.content)
        for old in await self._near(words, item.kind):
            theirs = content_words(old.content)
            if words <= theirs and jaccard(words, theirs) > REPEATS and _one_thing(item.content, old.content):
                return old
        return None

    async def retire(self, item: CapturedItem, memory: Memory) -> list[str]:
        """Those that the memory takes the place of, if it is in use."""
        if memory.status is not Status.ACTIVE:
            return []
        old = [one for one in await self._outdated(item) if _when(one) < _when(memory)]
        if not old:
            return []
        retiring = superseding(memory, old, now=self._engine.clock())
        try:
            await self._engine.store.apply([*retiring, inheritance(memory, old)])
        except (Conflict, MemoryNotFound):  # somebody took one of them away: it needs no retiring
            return []
        return [one.id for one in old]

    async def _outdated(self, item: CapturedItem) -> list[Memory]:
        found: dict[str, Memory] = {}
        if said := content_words(item.supersedes):
            subject = content_words(item.content)
            near = [
                one
                for one in await self._near(said, None)
                if _may_go(one) and _same_subject(subject, content_words(one.content))
            ]
            best = max(near, key=lambda one: jaccard(said, content_words(one.content)), default=None)
            if best is not None and jaccard(said, content_words(best.content)) > REPLACES:
                found[best.id] = best
        words = content_words(item.content)
        for old in await self._near(words, item.kind):
            alike = jaccard(words, content_words(old.content)) > REPEATS
            if alike and _may_go(old) and _one_thing(item.content, old.content):
                found[old.id] = old
        return list(found.values())

    async def _near(
        self, words: frozenset[str], kind: Kind | None, *, statuses: tuple[Status, ...] = (Status.ACTIVE,)
    ) -> list[Memory]:
        """Those that share words, the agent's own; in use, unless other ones are asked for."""
        if not words:
            return []
        engine = self._engine
        sought = sorted(words, key=lambda word: (-len(word), word))[:MOST_SOUGHT]
        where = Filter(
            viewer=self._agent,
            scopes=(self._scope,),
            agents=(self._agent,),
            kinds=() if kind is None else (kind,),
            statuses=statuses,
        )
        search = Search(where, lexemes=tuple(sought), pool=LOOKED_AT, neighbours=False)
        ids = (await engine.store.search(search)).ids
        found = await engine.store.get_many(ids, viewer=self._agent)
        return [found[one] for one in ids if one in found]


def _when(memory: Memory) -> tuple[datetime, datetime, str]:
    """What was said later counts, whenever it was read."""
    return (memory.occurred, memory.created, memory.id)


def _may_go(old: Memory) -> bool:
    """What a person wrote by hand is never retired by what was overheard."""
    if old.provenance.source != CAPTURED:
        return False
    return not (is_kept_for_good(old) or is_working(old) or is_part(old) or TURN in old.metadata)


def _same_subject(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= SAME_SUBJECT * max(1, min(len(one), len(other)))


def _one_thing(new: str, old: str) -> bool:
    """Whether one only says more than the other, of the same thing."""
    if not one_contains_other(content_words(new), content_words(old)) or quantifiers(new) != quantifiers(old):
        return False
    return not difference_kinds(new, old) & _APART
