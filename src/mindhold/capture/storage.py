"""Stores extracted items as memories: no duplicates, nothing that was forgotten, new statements supersede old ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mindhold.capture.extracted_items import CAPTURED, CapturedItem
from mindhold.capture.journal import all_hashes, erased_at
from mindhold.capture.rejections import rejected_items
from mindhold.conversations.sessions import clean_conversation_name
from mindhold.engine import Engine
from mindhold.memories.duplicates import TRAPS, inheritance, near_by_words, superseding
from mindhold.memories.prepare import FIRST_YEAR, TURN, content_hash, safe_text
from mindhold.memories.reflect import OPEN_QUESTION
from mindhold.memories.write import RememberInput, WriteOutcome, write_many
from mindhold.model.errors import Conflict, MemoryNotFound, Refused, ScopeNotFound, StoreError
from mindhold.model.lifecycle import is_kept_for_good, is_part, is_working
from mindhold.model.memory import ANY_STATUS, Kind, Memory, Provenance, Relation, Status
from mindhold.model.query import Filter
from mindhold.ports.store import Mark
from mindhold.text.repetition import tells_trap_too
from mindhold.text.similarity import (
    content_words,
    difference_kinds,
    jaccard,
    one_contains_other,
    quantifiers,
)

DIALECT = "capture"
# Shares of common words: with the text that it supersedes, with another memory of its kind.
SUPERSEDES_SHARE, REPEATS_SHARE = 0.5, 0.6
SAME_SUBJECT_SHARE = 0.25  # of the shorter one's words, which the text that it supersedes has too
WITHDRAWN_SHARE = 0.8  # of common words, from which a memory is the one that an item takes back
MAX_SIMILAR = 50  # memories with the most common words
LONGEST = 2_000
_ENDED_STATUSES = (Status.SUPERSEDED, Status.ARCHIVED, Status.FORGOTTEN)
# Two texts that differ in one of these speak of two things.
_SEPARATING_DIFFERENCES = frozenset({"number", "name", "date", "path", "negation", "antonym"})


@dataclass(frozen=True, slots=True)
class StoredItems:
    """The result of storing items: new memories, those that they replaced, and how many existed already.

    `withdrawn` are memories of the conversation that no longer hold and are archived.
    `ids` has the memory of each item; None for noise, for what was erased since it was said, and for the `rejected` items,
    which are like what the user rejected.
    """

    ids: tuple[str | None, ...] = ()
    stored: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    duplicates: int = 0
    rejected: int = 0
    withdrawn: tuple[str, ...] = ()


async def store_items(
    engine: Engine,
    items: Sequence[CapturedItem],
    *,
    conversation: str,
    file: str,
    scope: str,
    agent: str,
    past: bool = False,
) -> StoredItems:
    """Store the items; of a `past` conversation, after which others were held, without its open ends. Raises ScopeNotFound, Refused for a deactivated scope, and the store's errors."""
    matcher = _ItemMatcher(engine, scope=scope, agent=agent)
    source = Provenance(DIALECT, CAPTURED, clean_conversation_name(engine, conversation), file=file)
    known_by_hash = await _stored_before(engine, source.conversation or "", scope=scope, agent=agent)
    rejected = await rejected_items(engine, items, scope=scope, agent=agent)
    ids: list[str | None] = [None] * len(items)
    requests: dict[int, RememberInput] = {}
    current: list[tuple[CapturedItem, Memory]] = []
    for number, item in enumerate(items):
        if item.withdrawn or number in rejected or (past and is_open_end(item)):
            continue
        digest = content_hash(safe_text(engine, item.content[:LONGEST]))
        erased = await erased_at(engine, digest, scope=scope, agent=agent)
        if erased is not None and (item.said is None or item.said <= erased):
            continue
        if (earlier := await matcher.find_earlier(item, digest, known_by_hash.get(digest, ()))) is not None:
            ids[number] = earlier.id
            current.append((item, earlier))
        elif (duplicate := await matcher.find_duplicate(item)) is not None:
            ids[number] = duplicate.id
        else:
            requests[number] = _request(item, source, scope=scope, now=engine.clock())
    results = await write_many(engine, list(requests.values()), agent=agent)
    stored: list[str] = []
    retired: list[str] = []
    for number, result in zip(requests, results, strict=True):
        if isinstance(result.error, ScopeNotFound | Refused | StoreError):
            raise result.error
        if result.memory is None:
            continue
        ids[number] = result.memory.id
        if result.outcome is WriteOutcome.STORED:
            stored.append(result.memory.id)
            retired += result.superseded
            current.append((items[number], result.memory))
    for item, memory in current:
        retired += await matcher.retire(item, memory)
    withdrawn = [
        memory_id
        for item in items
        if item.withdrawn
        for memory_id in await matcher.withdraw(item, source.conversation or "")
    ]
    return StoredItems(
        ids=tuple(ids),
        stored=tuple(stored),
        superseded=tuple(dict.fromkeys(retired)),
        duplicates=sum(each is not None for each in ids) - len(stored),
        rejected=len(rejected),
        withdrawn=tuple(withdrawn),
    )


def is_open_end(item: CapturedItem) -> bool:
    """Whether the item says what is left to do."""
    return OPEN_QUESTION in item.tags


def _request(item: CapturedItem, source: Provenance, *, scope: str, now: datetime) -> RememberInput:
    """Build the request. It occurred when it was said, but never in the future, for clocks may differ.

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
    """Return what the conversation has stored, in any status, by the hash of its current and earlier contents."""
    where = Filter(viewer=agent, scopes=(scope,), conversation=conversation, statuses=ANY_STATUS)
    known_by_hash: dict[str, list[Memory]] = defaultdict(list)
    async for batch in engine.store.scan(where):
        for memory, hashes in await all_hashes(engine, batch):
            for digest in hashes:
                known_by_hash[digest].append(memory)
    return known_by_hash


class _ItemMatcher:
    """Compares items with the memories of one project."""

    def __init__(self, engine: Engine, *, scope: str, agent: str) -> None:
        self._engine = engine
        self._scope = scope
        self._agent = agent

    async def find_earlier(
        self, item: CapturedItem, digest: str, same_hash: Sequence[Memory]
    ) -> Memory | None:
        """Return the memory that the item became before, in any status: from this conversation, or one that resumes it.

        What was forgotten or superseded may be stored again if it was said later.
        """
        near = await self._near(content_words(item.content), None, statuses=_ENDED_STATUSES)
        for memory in (*same_hash, *(other for other in near if other.content_hash == digest)):
            if (
                memory.status not in _ENDED_STATUSES
                or item.said is None
                or item.said <= await self._ended(memory)
            ):
                return memory
        return None

    async def _ended(self, memory: Memory) -> datetime:
        """Return when the memory was superseded, by what was said then, or removed."""
        if memory.status is not Status.SUPERSEDED:
            return memory.updated
        relations = (Relation.SUPERSEDED_BY,)
        links = await self._engine.store.links_of([memory.id], relations=relations, viewer=self._agent)
        ids = [link.target for link in links if link.origin == memory.id]
        successors = await self._engine.store.get_many(ids, viewer=self._agent)
        return max((successor.occurred for successor in successors.values()), default=memory.updated)

    async def find_duplicate(self, item: CapturedItem) -> Memory | None:
        """Return a memory of the same kind that says all that the item says; progress is always stored anew."""
        if item.supersedes or item.kind is Kind.PROGRESS:
            return None
        words = content_words(item.content)
        for old in await self._near(words, item.kind):
            old_words = content_words(old.content)
            if (
                words <= old_words
                and jaccard(words, old_words) > REPEATS_SHARE
                and _same_thing(item.content, old.content)
            ):
                return old
        for kind in TRAPS if item.kind in TRAPS else ():
            for old in await self._near(words, kind):
                if tells_trap_too(old.content, item.content):
                    return old
        return None

    async def retire(self, item: CapturedItem, memory: Memory) -> list[str]:
        """Retire the memories that this one replaces, if it is active; return their ids."""
        if memory.status is not Status.ACTIVE:
            return []
        old = [each for each in await self._outdated(item) if _said_order(each) < _said_order(memory)]
        if not old:
            return []
        changes = superseding(memory, old, now=self._engine.clock())
        try:
            await self._engine.store.apply([*changes, inheritance(memory, old)])
        except (Conflict, MemoryNotFound):  # somebody removed one of them: it needs no retiring
            return []
        return [each.id for each in old]

    async def withdraw(self, item: CapturedItem, conversation: str) -> list[str]:
        """Archive what this conversation left and the item takes back; return its id."""
        words = content_words(item.content)
        candidates = [
            (jaccard(words, content_words(memory.content)), memory)
            for memory in await self._near(words, None)
            if memory.provenance.conversation == conversation and _may_retire(memory)
        ]
        share, memory = max(candidates, key=lambda candidate: candidate[0], default=(0.0, None))
        if (
            memory is None
            or share < WITHDRAWN_SHARE
            or difference_kinds(item.content, memory.content) & _SEPARATING_DIFFERENCES
        ):
            return []
        mark = Mark(memory.id, Status.ARCHIVED, memory.status, self._engine.clock(), only_from=Status.ACTIVE)
        await self._engine.store.apply([mark])
        return [memory.id]

    async def _outdated(self, item: CapturedItem) -> list[Memory]:
        outdated: dict[str, Memory] = {}
        if superseded_words := content_words(item.supersedes):
            subject = content_words(item.content)
            candidates = [
                (jaccard(superseded_words, content_words(memory.content)), memory)
                for memory in await self._near(superseded_words, None)
                if _may_retire(memory) and _same_subject(subject, content_words(memory.content))
            ]
            share, best = max(candidates, key=lambda candidate: candidate[0], default=(0.0, None))
            if best is not None and share > SUPERSEDES_SHARE:
                outdated[best.id] = best
        words = content_words(item.content)
        for old in await self._near(words, item.kind):
            is_similar = jaccard(words, content_words(old.content)) > REPEATS_SHARE
            if is_similar and _may_retire(old) and _same_thing(item.content, old.content):
                outdated[old.id] = old
        for kind in TRAPS if item.kind in TRAPS else ():
            for old in await self._near(words, kind):
                if _may_retire(old) and tells_trap_too(item.content, old.content):
                    outdated[old.id] = old
        return list(outdated.values())

    async def _near(
        self, words: frozenset[str], kind: Kind | None, *, statuses: tuple[Status, ...] = (Status.ACTIVE,)
    ) -> list[Memory]:
        """Return the agent's own memories with common words; active ones unless other statuses are given."""
        where = Filter(
            viewer=self._agent,
            scopes=(self._scope,),
            agents=(self._agent,),
            kinds=() if kind is None else (kind,),
            statuses=statuses,
        )
        return await near_by_words(self._engine, words, where, limit=MAX_SIMILAR)


def _said_order(memory: Memory) -> tuple[datetime, datetime, str]:
    """Order by when it was said, not by when it was read."""
    return (memory.occurred, memory.created, memory.id)


def _may_retire(old: Memory) -> bool:
    """Whether it may be retired; a captured memory never retires one that the user stored."""
    if old.provenance.source != CAPTURED:
        return False
    return not (is_kept_for_good(old) or is_working(old) or is_part(old) or TURN in old.metadata)


def _same_subject(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= SAME_SUBJECT_SHARE * max(1, min(len(one), len(other)))


def _same_thing(new: str, old: str) -> bool:
    """Whether one text only says more than the other about the same thing."""
    if not one_contains_other(content_words(new), content_words(old)) or quantifiers(new) != quantifiers(old):
        return False
    return not difference_kinds(new, old) & _SEPARATING_DIFFERENCES
