"""The read path: plan, search, fuse, rank, floor, drop duplicates, expand, fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from recollect.engine.beside import beside
from recollect.engine.checks import checked_moment
from recollect.engine.core import LEAST_TRUST, Engine
from recollect.engine.keyed import by_keywords, spoken_for
from recollect.engine.ranked import Evidence, Ranked, Ranking
from recollect.engine.reach import reach
from recollect.engine.storage import without_vectors
from recollect.engine.surroundings import Allowance, LinkedMemory, around, linked, shortened
from recollect.engine.text.clean import clean
from recollect.engine.timeframe import Timeframe, find_timeframe
from recollect.engine.timeline import timeframe_of
from recollect.model.errors import InvalidInput
from recollect.model.lexemes import query_lexemes
from recollect.model.link import DEFAULT_FOLLOWED, Relation
from recollect.model.memory import Kind, Memory, Status
from recollect.model.query import Candidates, Filter, Order, Search
from recollect.model.tokens import count_tokens, truncate_to_tokens
from recollect.ports.cache import ALONE
from recollect.ports.embedder import Matrix
from recollect.ports.store import Capability

LONGEST_QUERY = 8_000
MOST_HITS = 200
POOL = 100
_WORDS = re.compile(r"\w+")
SPARE = 4  # read beyond the limit, for duplicates
MORE_THAN_ASKED = 3  # so that collapsing duplicates leaves enough
CHOSEN = Evidence(why=("filter",), layer="filter")  # for a listing, where nothing is compared


@dataclass(frozen=True, slots=True)
class Question:
    """What to recall. `when` is a phrase of time that filters; one inside the text only prefers.

    `minimum_similarity` is a cosine, asked of what has a vector; keywords alone ask for none. Who asks for what is quarantined
    asks for what isn't trusted.
    """

    text: str = ""
    keywords: tuple[str, ...] = ()
    scope: str | None = None
    everywhere: bool = False
    among: tuple[str, ...] = ()  # which scopes everywhere means; all when none is named
    conversation: str | None = None
    scope_only: bool = False
    tags: tuple[str, ...] = ()
    tags_any: bool = False
    kinds: tuple[Kind, ...] = ()
    topic: str | None = None
    statuses: tuple[Status, ...] = (Status.ACTIVE,)
    when: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None
    token_budget: int | None = None
    floor: float | None = None
    minimum_similarity: float | None = None
    minimum_trust: float = LEAST_TRUST
    with_links: bool = False
    relations: tuple[Relation, ...] = DEFAULT_FOLLOWED
    neighbours: int = 0
    count_use: bool = True


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory that answers, why, and what stands around it."""

    memory: Memory
    score: float
    why: tuple[str, ...]
    content: str  # bounded; `truncated` says whether it is all
    truncated: bool
    tokens: int
    similarity: float | None = None
    layer: str = ""
    links: tuple[LinkedMemory, ...] = ()
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class Recalled:
    """The answer, and how it came about."""

    hits: tuple[Hit, ...]
    considered: int  # records within the filter
    tokens: int
    rung: str
    notice: str = ""
    timeframe: Timeframe | None = None
    time_filters: bool = False
    scopes: tuple[str, ...] = field(default=())


async def recall(engine: Engine, question: Question, *, agent: str) -> Recalled:
    """The right few; without words, the newest that the filters admit.

    Raises InvalidInput, UnknownTime, ScopeNotFound and the store's errors.
    """
    text = clean(question.text).strip()
    asked = " ".join([text, *question.keywords]).strip()
    _check(question, text, asked)
    if not asked:
        return await _listed(engine, question, agent=agent)
    if not text and (known := await _keyed(engine, question, agent=agent)) is not None:
        return known
    vectors = Capability.VECTORS in engine.store.capabilities
    limit = question.limit or engine.policy.limit
    async with beside(_embedded(engine, asked, vectors=vectors)) as embedding:
        where, timeframe = await _filter(engine, question, agent=agent)
    keywords = [word for keyword in question.keywords for word in query_lexemes(keyword)]
    lexemes = tuple(dict.fromkeys([*query_lexemes(text), *keywords]))
    matrix = embedding.result()
    found = await engine.store.search(
        Search(
            filter=where,
            lexemes=lexemes,
            vector=None if matrix is None else matrix.reshape(-1),
            model=None if matrix is None else engine.meaning.model,
            pool=max(POOL, limit * MORE_THAN_ASKED),
        )
    )
    preferred = None
    if timeframe is None:
        preferred = find_timeframe(
            text, now=engine.clock(), zone=engine.zone(), date_order=engine.policy.date_order
        )
    ranking = Ranking(
        engine, found, text=asked, lexemes=lexemes, keywords=frozenset(keywords), preferred=preferred
    )
    hits = await _hits(engine, question, ranking, where=where) if found.ids else ()
    await _count_use(engine, question, hits)
    return Recalled(
        hits=hits,
        considered=found.total,
        tokens=sum(_tokens(hit) for hit in hits),
        rung=engine.meaning.rung if vectors else "full text",
        notice=await _notice(engine, where, matrix is not None, found),
        timeframe=timeframe or preferred,
        time_filters=timeframe is not None,
        scopes=where.scopes,
    )


async def _listed(engine: Engine, question: Question, *, agent: str) -> Recalled:
    where, timeframe = await _filter(engine, question, agent=agent)
    limit = question.limit or engine.policy.limit
    memories = await engine.store.find(where, order=Order.NEWEST, limit=limit)
    chosen = [(Ranked(memory.id, 1.0, row), memory) for row, memory in enumerate(memories)]
    fitted = _fitted(engine, chosen, lambda _row: CHOSEN, budget=question.token_budget)
    hits = await _expanded(engine, question, fitted, where=where)
    await _count_use(engine, question, hits)
    return Recalled(
        hits=hits,
        considered=await engine.store.count(where),
        tokens=sum(_tokens(hit) for hit in hits),
        rung="filter",
        timeframe=timeframe,
        time_filters=timeframe is not None,
        scopes=where.scopes,
    )


async def _keyed(engine: Engine, question: Question, *, agent: str) -> Recalled | None:
    """Keywords alone, from what stands beside the store; None when that isn't enough."""
    if engine.aside is ALONE or question.floor is not None:
        return None
    where, timeframe = await _filter(engine, question, agent=agent)
    limit = question.limit or engine.policy.limit
    found = await by_keywords(engine, question.keywords, where=where, limit=limit)
    distinct = _distinct(found, limit) if found is not None else []
    if found is None or len(distinct) < limit:
        return None
    evidence = spoken_for(question.keywords)
    fitted = _fitted(engine, distinct, lambda _row: evidence, budget=question.token_budget)
    hits = await _expanded(engine, question, fitted, where=where)
    await _count_use(engine, question, hits)
    return Recalled(
        hits=hits,
        considered=len(found),
        tokens=sum(_tokens(hit) for hit in hits),
        rung="keyword sets",
        timeframe=timeframe,
        time_filters=timeframe is not None,
        scopes=where.scopes,
    )


async def _count_use(engine: Engine, question: Question, hits: Sequence[Hit]) -> None:
    if question.count_use:
        engine.uses.note([hit.memory.id for hit in hits])
        if engine.uses.due:
            await engine.uses.flush()


async def _embedded(engine: Engine, text: str, *, vectors: bool) -> Matrix | None:
    return await engine.meaning.embed_query(text) if vectors else None


def _check(question: Question, text: str, asked: str) -> None:
    if not asked and not _filters(question):
        raise InvalidInput(
            "There is nothing to look for.", advice="Give a question, keywords, or something to filter by."
        )
    if len(text) > LONGEST_QUERY:
        raise InvalidInput(
            f"The question has {len(text):,} characters; at most {LONGEST_QUERY:,} are read.",
            advice="Shorten it.",
        )
    if question.limit is not None and not 1 <= question.limit <= MOST_HITS:
        raise InvalidInput(f"The limit is {question.limit}; it must be between 1 and {MOST_HITS}.")
    if question.token_budget is not None and question.token_budget < 1:
        raise InvalidInput("The token budget must be at least 1.")


def _filters(question: Question) -> bool:
    stated = (question.scope, question.topic, question.when, question.since, question.until)
    chosen = question.tags or question.kinds or question.statuses != (Status.ACTIVE,)
    return bool(chosen) or any(condition is not None for condition in stated)


async def _filter(engine: Engine, question: Question, *, agent: str) -> tuple[Filter, Timeframe | None]:
    timeframe = timeframe_of(engine, question.when) if question.when else None
    starts = [
        checked_moment(engine, moment) for moment in (question.since, timeframe and timeframe.start) if moment
    ]
    ends = [
        checked_moment(engine, moment) for moment in (question.until, timeframe and timeframe.end) if moment
    ]
    scopes = question.among if question.everywhere else await reach(engine, question.scope)
    if question.scope_only and not question.everywhere:
        scopes = scopes[:1]
    where = Filter(
        viewer=agent,
        scopes=scopes,
        kinds=question.kinds,
        statuses=question.statuses,
        tags=question.tags,
        tags_any=question.tags_any,
        topic=question.topic,
        conversation=question.conversation,
        since=max(starts, default=None),
        until=min(ends, default=None),
        minimum_trust=0.0 if Status.QUARANTINED in question.statuses else question.minimum_trust,
    )
    return where, timeframe


async def _hits(engine: Engine, question: Question, ranking: Ranking, *, where: Filter) -> tuple[Hit, ...]:
    limit = question.limit or engine.policy.limit
    ranked = ranking.best(
        floor=question.floor,
        similarity=question.minimum_similarity if question.text.strip() else None,
        most=limit * MORE_THAN_ASKED,
    )
    distinct: list[tuple[Ranked, Memory]] = []
    while ranked and len(distinct) < limit:
        wanted, ranked = ranked[: limit + SPARE], ranked[limit + SPARE :]
        memories = await engine.store.get_many([one.id for one in wanted], viewer=where.viewer)
        found = [(one, memories[one.id]) for one in wanted if one.id in memories]
        distinct = _distinct([*distinct, *found], limit)
    hits = _fitted(engine, distinct, ranking.evidence, budget=question.token_budget)
    return await _expanded(engine, question, hits, where=where)


def _distinct(ranked: Sequence[tuple[Ranked, Memory]], limit: int) -> list[tuple[Ranked, Memory]]:
    """The best of them, true near-duplicates only once."""
    kept: list[tuple[Ranked, Memory]] = []
    words: list[frozenset[str]] = []
    for one, memory in ranked:
        said = frozenset(_WORDS.findall(memory.content.casefold()))
        near = [other for (_, other), others in zip(kept, words, strict=True) if _nearly(said, others)]
        if not any(_same(memory, other) for other in near):
            kept.append((one, memory))
            words.append(said)
        if len(kept) == limit:
            break
    return kept


def _nearly(words: frozenset[str], others: frozenset[str]) -> bool:
    """Cheap, so that the close look is for the few that need it."""
    return 5 * len(words & others) >= 4 * max(len(words), len(others))


def _same(one: Memory, other: Memory) -> bool:
    """The same words, or the same statement; the turns of a conversation stay as they were said."""
    if one.content_hash == other.content_hash:
        return True
    told = one.provenance.position is not None or other.provenance.position is not None
    if told or one.kind is not other.kind:
        return False
    from recollect.engine.text.sameness import same_statement  # its word lists are for the rare close look

    return same_statement(one.content, other.content)


def _fitted(
    engine: Engine,
    chosen: Sequence[tuple[Ranked, Memory]],
    evidence: Callable[[int], Evidence],
    *,
    budget: int | None,
) -> list[Hit]:
    """Bounded in size whatever was stored, and within the token budget to the token."""
    room = engine.policy.longest_answer
    tokens_left = budget
    hits: list[Hit] = []
    for one, memory in chosen:
        short = shortened(memory, min(engine.policy.longest_hit, room))
        content, tokens = short.content, short.tokens
        if tokens_left is not None and tokens > tokens_left:
            if hits or tokens_left == 0:
                continue  # a shorter one further down may still fit
            content = truncate_to_tokens(content, tokens_left)
            tokens = count_tokens(content)
        if not content:
            continue
        spoke = evidence(one.row)
        hits.append(
            Hit(
                memory,
                score=one.score,
                why=spoke.why,
                content=content,
                truncated=content != memory.content,
                tokens=tokens,
                similarity=spoke.similarity,
                layer=spoke.layer,
            )
        )
        room -= len(content)
        if tokens_left is not None:
            tokens_left -= tokens
        if room < 2:
            break
    return hits


async def _expanded(engine: Engine, question: Question, hits: list[Hit], *, where: Filter) -> tuple[Hit, ...]:
    spent = sum(hit.tokens for hit in hits)
    allowance = Allowance(
        tokens=None if question.token_budget is None else question.token_budget - spent,
        characters=engine.policy.longest_answer - sum(len(hit.content) for hit in hits),
        longest=engine.policy.longest_hit,
    )
    memories = [hit.memory for hit in hits]
    links: dict[str, tuple[LinkedMemory, ...]] = {}
    if question.with_links and hits:
        links = await linked(engine, memories, relations=question.relations, where=where, allowance=allowance)
    expanded: list[Hit] = []
    for hit in hits:
        before: tuple[Memory, ...] = ()
        after: tuple[Memory, ...] = ()
        if question.neighbours:
            before, after = await around(
                engine, hit.memory, reach=question.neighbours, where=where, allowance=allowance
            )
        expanded.append(replace(hit, links=links.get(hit.memory.id, ()), before=before, after=after))
    return tuple(expanded)


def _tokens(hit: Hit) -> int:
    around_it = (*hit.before, *hit.after, *(one.memory for one in hit.links))
    return hit.tokens + sum(memory.tokens for memory in around_it)


async def _notice(engine: Engine, where: Filter, embedded: bool, found: Candidates) -> str:
    if embedded and found.embedded >= found.total:
        return ""
    places, home = await engine.houses.places(), engine.houses.home
    modes = [home, *(one.mode for name, one in places.items() if not where.scopes or name in where.scopes)]
    bare = await without_vectors(engine, modes)
    if not embedded:
        return f"Recalled by full text only. {bare.get(home) or engine.meaning.reason}".strip()
    lacking = f"{found.total - found.embedded} of {found.total} memories have no vector"
    if bare:
        return f"{lacking}. {' '.join(f'{mode}: {why}' for mode, why in bare.items())}"
    return f"{lacking} yet: `recollect jobs run` makes them."
