"""How a topic came to be as it is: its decisions in order of time, and what each of them did to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.reach import reach
from mindhold.engine.recall import Question, recall
from mindhold.engine.surroundings import HIDDEN, Allowance, LinkedMemory
from mindhold.model.errors import InvalidInput
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Kind, Memory, Status
from mindhold.model.query import Filter, Order

MOST_DECISIONS = 200
MOST_BY_MEANING = 20
MOST_BESIDE = 5  # errors, procedures and the like that are told with one decision
STATUSES = (Status.ACTIVE, Status.SUPERSEDED, Status.ARCHIVED)


@dataclass(frozen=True, slots=True)
class Step:
    """One decision. The ids are those of what stands in that relation to it; `beside` is told with its words."""

    memory: Memory
    supersedes: tuple[str, ...]
    superseded_by: tuple[str, ...]
    contradicts: tuple[str, ...]
    contradicted_by: tuple[str, ...]
    beside: tuple[LinkedMemory, ...]
    versions: int  # earlier wordings of it


@dataclass(frozen=True, slots=True)
class Chain:
    """Oldest first. `left_out` are earlier decisions that there was no room for."""

    steps: tuple[Step, ...]
    left_out: int
    tokens: int
    by_meaning: bool  # no decision has that topic: these are about it


async def reconstruct(engine: Engine, topic: str, *, agent: str, scope: str | None, budget: int) -> Chain:
    """The newest decisions that fit the budget, in order of time. Raises InvalidInput, ScopeNotFound."""
    if not topic.strip():
        raise InvalidInput("There is no topic to reconstruct.", advice="Name one, or say what it is about.")
    found, total, by_meaning = await _decisions(engine, topic, agent=agent, scope=scope)
    allowance = Allowance(
        tokens=budget, characters=engine.policy.longest_answer, longest=engine.policy.longest_hit
    )
    fitting: list[Memory] = []
    for memory in found:  # the newest first: how it is now matters most
        if (short := allowance.fitted(memory)) is None:
            break
        fitting.append(short)
    fitting.reverse()
    steps = await _steps(engine, fitting, agent=agent, allowance=allowance)
    told = sum(step.memory.tokens + sum(one.memory.tokens for one in step.beside) for step in steps)
    return Chain(steps, total - len(steps), told, by_meaning)


async def _decisions(
    engine: Engine, topic: str, *, agent: str, scope: str | None
) -> tuple[list[Memory], int, bool]:
    """The newest first, and how many there are."""
    where = Filter(
        viewer=agent,
        scopes=await reach(engine, scope),
        kinds=(Kind.DECISION,),
        topic=topic.strip(),
        statuses=STATUSES,
        minimum_trust=LEAST_TRUST,
    )
    named = await engine.store.find(where, order=Order.NEWEST, limit=MOST_DECISIONS)
    if named:
        total = len(named) if len(named) < MOST_DECISIONS else await engine.store.count(where)
        return sorted(named, key=_moment, reverse=True), total, False
    question = Question(
        text=topic,
        scope=scope,
        kinds=(Kind.DECISION,),
        statuses=STATUSES,
        limit=MOST_BY_MEANING,
        count_use=False,
    )
    about = [hit.memory for hit in (await recall(engine, question, agent=agent)).hits]
    return sorted(about, key=_moment, reverse=True), len(about), bool(about)


async def _steps(
    engine: Engine, memories: Sequence[Memory], *, agent: str, allowance: Allowance
) -> tuple[Step, ...]:
    ids = [memory.id for memory in memories]
    links = await engine.store.links_of(ids, viewer=agent) if ids else []
    ends = {end for link in links for end in (link.origin, link.target)}
    others = await engine.store.get_many(list(ends), viewer=agent) if ends else {}
    visible = {
        memory_id: memory
        for memory_id, memory in others.items()
        if memory.status not in HIDDEN and memory.trust >= LEAST_TRUST
    }
    kept = await engine.store.versions_among(ids) if ids else {}
    inside = set(ids)
    steps = []
    for memory in memories:
        own = [link for link in links if memory.id in (link.origin, link.target)]
        own = [link for link in own if _far(link, memory.id) in visible]
        beside = [link for link in own if _far(link, memory.id) not in inside]
        steps.append(
            Step(
                memory=memory,
                supersedes=_named(own, memory.id, Relation.SUPERSEDED_BY, outward=False),
                superseded_by=_named(own, memory.id, Relation.SUPERSEDED_BY, outward=True),
                contradicts=_named(own, memory.id, Relation.CONTRADICTS, outward=True),
                contradicted_by=_named(own, memory.id, Relation.CONTRADICTS, outward=False),
                beside=_fitted(beside, memory.id, visible, allowance),
                versions=len(kept.get(memory.id, ())),
            )
        )
    return tuple(steps)


def _fitted(
    links: Sequence[Link], memory_id: str, known: dict[str, Memory], allowance: Allowance
) -> tuple[LinkedMemory, ...]:
    """Causes, solutions and what else a person linked before what was linked by itself."""
    taken: list[LinkedMemory] = []
    for link in sorted(links, key=lambda one: (one.relation is Relation.RELATED, one.automatic, -one.weight)):
        far = known[_far(link, memory_id)]
        if len(taken) == MOST_BESIDE:
            break
        if (short := allowance.fitted(far)) is not None:
            taken.append(LinkedMemory(link, short))
    return tuple(taken)


def _far(link: Link, memory_id: str) -> str:
    return link.target if link.origin == memory_id else link.origin


def _named(links: Sequence[Link], memory_id: str, relation: Relation, *, outward: bool) -> tuple[str, ...]:
    return tuple(
        _far(link, memory_id)
        for link in links
        if link.relation is relation and (link.origin == memory_id) is outward
    )


def _moment(memory: Memory) -> tuple[object, str]:
    return memory.occurred, memory.id
