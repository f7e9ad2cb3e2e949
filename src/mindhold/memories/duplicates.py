"""Finds the stored memories that a new one repeats, replaces or belongs with, by text and by meaning."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mindhold.capture.extracted_items import CAPTURED
from mindhold.engine import Engine
from mindhold.memories.prepare import TURN
from mindhold.model.job import Job
from mindhold.model.lifecycle import SESSION_ONLY, is_kept_for_good
from mindhold.model.memory import Kind, Link, Memory, Relation, Status
from mindhold.model.query import Filter, Search, Vector
from mindhold.ports.store import Change, Connect, Inherit, Mark, Put
from mindhold.settings.schema import IntakeSettings
from mindhold.text.failure_resolution import resolves
from mindhold.text.repetition import tells_trap_too
from mindhold.text.similarity import replaces, same_statement

MAX_SEARCH_WORDS = 32  # words of a search
TRAPS = (Kind.ERROR, Kind.GOTCHA)  # which may tell the same failure in other words
TELLS_OF_A_FIX = frozenset(
    {Kind.ERROR, Kind.PROCEDURE, Kind.DECISION, Kind.FACT, Kind.GOTCHA, Kind.PATTERN, Kind.NOTE}
)


@dataclass(frozen=True, slots=True)
class RelatedMemories:
    """What a new memory does to the stored ones."""

    superseded: tuple[Memory, ...] = ()
    resolved: tuple[Memory, ...] = ()  # errors that it solves
    related: tuple[tuple[str, float], ...] = ()

    def links(self, new: str, *, now: datetime) -> list[Link]:
        """Return the links other than superseding: from errors to their fix, and to related memories."""
        solved = [Link(old.id, new, Relation.RESOLVED_BY, now, automatic=True) for old in self.resolved]
        beside = [
            Link(new, target, Relation.RELATED, now, weight=weight, automatic=True)
            for target, weight in self.related
        ]
        return solved + beside


def find_related(
    new: Memory, others: Iterable[tuple[Memory, float]], settings: IntakeSettings
) -> RelatedMemories:
    """Decide which of `others`, given with their similarity, the new memory supersedes, resolves or relates to.

    Memories of another topic are never related. Only a text that says the same is superseded, and only an error that the
    new text names is resolved. Anchors, permanent memories and turns of a log are never superseded, only linked.
    """
    superseded: list[Memory] = []
    resolved: list[Memory] = []
    related: list[tuple[str, float]] = []
    for other, similarity in sorted(others, key=lambda pair: -pair[1]):
        # Somebody else stored the same record a moment ago: the store reports it as a duplicate.
        same = (new.content_hash, new.scope, new.agent) == (other.content_hash, other.scope, other.agent)
        if same or similarity <= settings.link_threshold or not same_topic(new, other):
            continue
        protected = is_kept_for_good(other) or TURN in other.metadata or _outlives(other, new)
        may_be_fixed = other.kind is Kind.ERROR and new.kind in TELLS_OF_A_FIX
        if not protected and tells_trap_of(new, other):
            superseded.append(other)
        elif may_be_fixed and resolves(new.content, other.content):
            resolved.append(other)
        elif not protected and _stands_in_for(new, other, similarity=similarity, settings=settings):
            superseded.append(other)
        else:
            related.append((other.id, round(similarity, 4)))
    room = max(0, settings.most_links - len(superseded))
    rest = max(0, room - len(resolved))
    return RelatedMemories(tuple(superseded), tuple(resolved[:room]), tuple(related[:rest]))


def tells_trap_of(one: Memory, other: Memory) -> bool:
    """Whether one tells the failure that the other tells: "X fails until Y", "`X` failed. Fixed by `Y`.".

    A failure and its solution are two: they are linked.
    """
    both = one.kind in TRAPS and other.kind in TRAPS and tells_trap_too(one.content, other.content)
    return both and not resolves(one.content, other.content)


def _outlives(other: Memory, new: Memory) -> bool:
    """Whether `new` may not supersede `other`.

    A session-only memory never supersedes a permanent one, and a captured memory never supersedes one that was stored
    deliberately.
    """
    if new.provenance.source == CAPTURED != other.provenance.source:
        return True
    ends_with = new.metadata.get(SESSION_ONLY)
    return ends_with is not None and other.metadata.get(SESSION_ONLY) != ends_with


def _stands_in_for(new: Memory, old: Memory, *, similarity: float, settings: IntakeSettings) -> bool:
    """Whether `new` supersedes `old`: only within one kind. Contradictions between kinds are left to the search for
    contradictions, which can be undone.
    """
    if new.kind is not old.kind:
        return False
    alike = similarity > settings.near_duplicate
    return (alike and same_statement(new.content, old.content)) or replaces(new.content, old.content)


async def near_by_words(engine: Engine, words: Iterable[str], where: Filter, *, limit: int) -> list[Memory]:
    """The memories with the most of these words in common."""
    longest = sorted(words, key=lambda word: (-len(word), word))[:MAX_SEARCH_WORDS]
    if not longest:
        return []
    search = Search(where, lexemes=tuple(longest), pool=limit, neighbours=False)
    ids = (await engine.store.search(search)).ids
    memories = await engine.store.get_many(ids, viewer=where.viewer)
    return [memories[memory_id] for memory_id in ids if memory_id in memories]


def same_topic(one: Memory, other: Memory) -> bool:
    """Whether two memories have the same topic; a memory without one matches any."""
    return not one.topic or not other.topic or one.topic.casefold() == other.topic.casefold()


def superseding(new: Memory, old_ones: Sequence[Memory], *, now: datetime) -> list[Change]:
    """Return the changes that mark the old memories as superseded by `new`; all stay readable."""
    changes: list[Change] = []
    for old in old_ones:
        changes.append(
            Mark(old.id, Status.SUPERSEDED, previous=old.status, updated=now, only_from=old.status)
        )
        changes.append(Connect(Link(old.id, new.id, Relation.SUPERSEDED_BY, now, automatic=True)))
    return changes


def inheritance(new: Memory, old_ones: Sequence[Memory]) -> Inherit:
    """Return the change that gives the new memory the importance and the uses of the old ones."""
    return Inherit(
        new.id,
        supersedes=new.supersedes or old_ones[0].id,
        importance=max(old.importance for old in old_ones),
        uses=sum(old.uses for old in old_ones),
    )


def inherit_from(new: Memory, old_ones: Sequence[Memory]) -> Memory:
    """Return the new memory with the importance, uses and topic that it inherits from those it supersedes."""
    return replace(
        new,
        supersedes=old_ones[0].id,
        topic=new.topic or old_ones[0].topic,
        importance=max(new.importance, *(old.importance for old in old_ones)),
        uses=new.uses + sum(old.uses for old in old_ones),
    )


RELATE = "relate"
DRAWN = (Relation.RELATED, Relation.RESOLVED_BY, Relation.SUPERSEDED_BY)
LOOKED_AT = 16  # nearest memories that are read; those of other topics are skipped


def relate_job(engine: Engine, ids: Sequence[str]) -> Job:
    """Return the job that relates memories after a bulk write."""
    now = engine.clock()
    return Job(id=engine.new_id(), name=RELATE, created=now, due=now, payload={"ids": list(ids)})


async def find_related_by_meaning(engine: Engine, puts: Sequence[Put]) -> dict[str, RelatedMemories]:
    """Find related memories for records that are about to be written; records without a vector have none."""
    return await _kin(engine, [(put.memory, put.vector) for put in puts if put.vector is not None])


async def relate(engine: Engine, ids: Sequence[str]) -> int:
    """Link stored memories to related ones and supersede older duplicates. Returns the number of changes."""
    model = engine.vector_source.model
    if model is None:
        return 0
    vectors = await engine.store.vector_of(ids, model=model)
    memories = await engine.store.get_many(list(vectors), viewer="system")
    active = [memory for memory in memories.values() if memory.status is Status.ACTIVE]
    kin = await _kin(engine, [(memory, vectors[memory.id]) for memory in active])
    links = await engine.store.links_of(list(kin), relations=DRAWN, viewer="system")
    drawn = {frozenset((link.origin, link.target)) for link in links}
    had = Counter(max(link.origin, link.target) for link in links if link.automatic)
    changes: list[Change] = []
    retired: set[str] = set()
    for memory in active:
        own = kin.get(memory.id, RelatedMemories())
        if memory.id in retired:
            continue
        older = [old for old in own.superseded if old.id < memory.id and old.id not in retired]
        retired.update(old.id for old in older)
        if older:
            changes.append(inheritance(replace(memory, supersedes=None), older))
            changes.extend(superseding(memory, older, now=memory.updated))
        fresh = [
            Connect(link)
            for link in own.links(memory.id, now=engine.clock())
            # Each pair is linked once, when the later memory is processed; existing links stay.
            if max(link.origin, link.target) == memory.id
            and frozenset((link.origin, link.target)) not in drawn
        ]
        changes.extend(fresh[: max(0, engine.settings.intake.most_links - had[memory.id])])
    if changes:
        await engine.store.apply(changes)
    return len(changes)


async def _kin(engine: Engine, items: Sequence[tuple[Memory, Vector | None]]) -> dict[str, RelatedMemories]:
    model = engine.vector_source.model
    groups: dict[tuple[str, str], list[tuple[Memory, Vector]]] = defaultdict(list)
    for memory, vector in items:
        if vector is not None:
            groups[memory.scope, memory.agent].append((memory, vector))
    related: dict[str, RelatedMemories] = {}
    for (scope, agent), members in groups.items():
        if model is None:
            continue
        where = Filter(viewer=agent, scopes=(scope,), agents=(agent,))
        near = await engine.store.nearest(
            [vector for _, vector in members], model=model, where=where, limit=LOOKED_AT
        )
        neighbours = await engine.store.get_many(
            list({hit.id for hits in near for hit in hits}), viewer=agent
        )
        for (memory, _), hits in zip(members, near, strict=True):
            others = [
                (neighbours[hit.id], engine.vector_source.similarity(hit.cosine))
                for hit in hits
                if hit.id in neighbours and hit.id != memory.id
            ]
            related[memory.id] = find_related(memory, others, engine.settings.intake)
    return related
