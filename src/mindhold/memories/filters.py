"""What a caller asks for, checked, and the filter and time frame that it means."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from pydantic import Field

from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.validation import MOST_LABELS, bare_tags, checked_moment
from mindhold.memories.views import LinkedView, MemoryView, VersionView, etag_of, next_cursor, page_start
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import DEFAULT_FOLLOWED, Kind, Memory, Relation, Status
from mindhold.model.query import Filter, Order
from mindhold.operations import Context, Input, Output, full_id, operation
from mindhold.projects.scopes import active_scopes, visible_scopes
from mindhold.projects.storage import ask_reachable
from mindhold.text.clean import clean
from mindhold.text.timeframe import Timeframe, describe_timeframe, parse_timeframe

T = TypeVar("T")


class TimeframeView(Output):
    """The range that a phrase of time was understood as; half-open."""

    phrase: str
    start: datetime | None
    end: datetime | None
    words: str
    filters: bool


class ShowInput(Input):
    """Which memory, by its id or the beginning of it."""

    id: str


class ShowResult(Output):
    """One memory with its links and earlier versions."""

    memory: MemoryView
    links: list[LinkedView]
    versions: list[VersionView]
    etag: str = ""  # what an amendment of it as it is here may expect


class Filtering(Input):
    """Which memories are listed."""

    scope: str | None = None
    everywhere: bool = True
    tags: list[str] = Field(default=[], max_length=MOST_LABELS)
    tags_any: bool = False  # any of them, instead of each
    kinds: list[Kind] = []
    topic: str | None = None
    statuses: list[Status] = Field(default=[Status.ACTIVE], min_length=1)
    when: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    minimum_trust: float = Field(default=0.0, ge=0, le=1)


class ListInput(Filtering):
    """Which memories, in which order; `cursor` is the `next` of the page before, `after` the id that it ended with."""

    order: Order = Order.NEWEST
    limit: int = Field(default=20, ge=1, le=1000)
    after: str | None = None  # or a cursor
    cursor: str | None = None


class ListResult(Output):
    """A page, and how many match in all. `next` stays where it is, whatever is written meanwhile."""

    memories: list[MemoryView]
    total: int
    next: str | None = None
    notice: str = ""  # which stores don't answer


class TagsInput(Input):
    """In which scope; everywhere when none is named."""

    scope: str | None = None


class TagsResult(Output):
    """Tags and how many memories have each, the most used first."""

    tags: dict[str, int]
    notice: str = ""  # which stores don't answer


async def _show(context: Context, request: ShowInput) -> ShowResult:
    """One memory, with links and versions."""
    memory_id = await full_id(context, request.id)
    return await shown_memory(context, await context.engine.store.get(memory_id, viewer=context.agent))


SHOW = operation("show", _show, reads=True, shown_ids=lambda result: [result.memory.id])


async def shown_memory(context: Context, memory: Memory) -> ShowResult:
    """All that is shown of it, and the tag that it has as that."""
    store, memory_id = context.engine.store, memory.id
    links = await store.links_of([memory_id], viewer=context.agent)
    ends = {end for link in links for end in (link.origin, link.target)} - {memory_id}
    others = await store.get_many(list(ends), viewer=context.agent)
    shown = [
        LinkedView.of(link, others[far])
        for link in links
        if (far := link.target if link.origin == memory_id else link.origin) in others
    ]
    versions = [VersionView.of(version) for version in await store.versions_of(memory_id)]
    result = ShowResult(memory=MemoryView.of(memory, context.engine.clock()), links=shown, versions=versions)
    return result.model_copy(update={"etag": etag_of(memory, result)})


async def _list(context: Context, request: ListInput) -> ListResult:
    """Memories by filter, page by page."""
    where = await filter_for(context, request, everywhere=request.everywhere)
    store, begin = context.engine.store, page_start(request.order, cursor=request.cursor, after=request.after)

    async def page(scopes: tuple[str, ...]) -> tuple[list[Memory], int]:
        own = replace(where, scopes=where.scopes or scopes)
        memories = await store.find(own, order=request.order, limit=request.limit, after=begin)
        return memories, await store.count(own)

    (memories, total), left = await as_asked(context, page, everywhere=not where.scopes)
    return ListResult(
        memories=[MemoryView.of(memory, context.engine.clock()) for memory in memories],
        total=total,
        next=next_cursor(memories, request.order, limit=request.limit),
        notice=left,
    )


LIST = operation(
    "list", _list, reads=True, shown_ids=lambda result: [memory.id for memory in result.memories]
)


async def _tags(context: Context, request: TagsInput) -> TagsResult:
    """Tags and their counts."""
    named = await visible_scopes(context.engine, request.scope) if request.scope else ()

    async def counted(scopes: tuple[str, ...]) -> dict[str, int]:
        return await context.engine.store.tally(Filter(viewer=context.agent, scopes=named or scopes), "tag")

    tally, left = await as_asked(context, counted, everywhere=not named)
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0].casefold()))
    return TagsResult(tags=dict(ordered), notice=left)


TAGS = operation("tags", _tags, reads=True)


async def as_asked(
    context: Context, ask: Callable[[tuple[str, ...]], Awaitable[T]], *, everywhere: bool
) -> tuple[T, str]:
    """Who names a scope is told when its store is away; who asks everywhere gets what is within reach."""
    if not everywhere:
        return await ask(()), ""

    async def of_active(scopes: tuple[str, ...]) -> T:
        return await ask(await active_scopes(context.engine, scopes))

    return await ask_reachable(context.engine, of_active)


async def filter_for(context: Context, given: Filtering, *, everywhere: bool) -> Filter:
    """What picks the memories that are listed. Raises UnknownTime, ScopeNotFound, InvalidInput."""
    frame = timeframe_of(context.engine, given.when) if given.when else None
    scopes: tuple[str, ...] = ()
    if given.scope:
        scopes = (await visible_scopes(context.engine, given.scope))[:1]
    elif not everywhere:
        scopes = await visible_scopes(context.engine, None)
    starts = (frame and frame.start, given.since and checked_moment(context.engine, given.since))
    ends = (frame and frame.end, given.until and checked_moment(context.engine, given.until))
    return Filter(
        viewer=context.agent,
        scopes=scopes,
        tags=bare_tags(given.tags),
        tags_any=given.tags_any,
        topic=given.topic,
        kinds=tuple(given.kinds),
        statuses=tuple(given.statuses),
        since=max((start for start in starts if start), default=None),
        until=min((end for end in ends if end), default=None),
        minimum_trust=given.minimum_trust,
    )


def timeframe_view(context: Context, frame: Timeframe | None, *, filters: bool) -> TimeframeView | None:
    """The frame as its view."""
    if frame is None:
        return None
    return TimeframeView(
        phrase=frame.phrase,
        start=frame.start,
        end=frame.end,
        words=describe_timeframe(frame, context.engine.zone()),
        filters=filters,
    )


LONGEST_QUERY = 8_000  # characters, the keywords included
MOST_KEYWORDS = 500
MOST_HITS = 200


@dataclass(frozen=True, slots=True)
class Question:
    """What to recall. `when` is a phrase of time that filters; one inside the text only prefers.

    `minimum_similarity` is a cosine, asked of what vectors found: what has a keyword is exempt, and so is what has no
    vector. Who asks for what is quarantined asks for what isn't trusted.
    """

    text: str = ""
    keywords: tuple[str, ...] = ()
    scope: str | None = None
    everywhere: bool = False
    among: tuple[str, ...] = ()  # which scopes everywhere means; all that are switched on when none is named
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
    explained: bool = True  # why each answers, and what contradicts it

    @property
    def words(self) -> str:
        """The text as it is looked for."""
        return clean(self.text).strip()

    @property
    def asked(self) -> str:
        """Text and keywords together; empty where only filters are stated."""
        return " ".join([self.words, *self.keywords]).strip()


def check_question(question: Question) -> None:
    """Raises InvalidInput for what can't be asked."""
    if not question.asked and not _filters(question):
        raise InvalidInput(
            "There is nothing to look for.", advice="Give a question, keywords, or something to filter by."
        )
    if (number := len(question.keywords)) > MOST_KEYWORDS:
        raise InvalidInput(
            f"There are {number:,} keywords; at most {MOST_KEYWORDS:,} are looked for.",
            advice="Name those that matter.",
        )
    if (length := len(question.asked)) > LONGEST_QUERY:
        both = " and its keywords have" if question.keywords else " has"
        raise InvalidInput(
            f"The question{both} {length:,} characters; at most {LONGEST_QUERY:,} are read.",
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


async def filter_of(engine: Engine, question: Question, *, agent: str) -> tuple[Filter, Timeframe | None]:
    """The filter, and the time that a phrase named. Raises UnknownTime, ScopeNotFound."""
    timeframe = timeframe_of(engine, question.when) if question.when else None
    starts = [
        checked_moment(engine, moment) for moment in (question.since, timeframe and timeframe.start) if moment
    ]
    ends = [
        checked_moment(engine, moment) for moment in (question.until, timeframe and timeframe.end) if moment
    ]
    if question.everywhere:
        scopes = question.among or await active_scopes(engine)
    else:
        scopes = await visible_scopes(engine, question.scope)
    if question.scope_only and not question.everywhere:
        scopes = scopes[:1]
    where = Filter(
        viewer=agent,
        scopes=scopes,
        kinds=question.kinds,
        statuses=question.statuses,
        tags=bare_tags(question.tags),
        tags_any=question.tags_any,
        topic=question.topic,
        conversation=question.conversation,
        since=max(starts, default=None),
        until=min(ends, default=None),
        minimum_trust=0.0 if Status.QUARANTINED in question.statuses else question.minimum_trust,
    )
    return where, timeframe


def timeframe_of(engine: Engine, phrase: str) -> Timeframe:
    """A phrase of time in the person's zone. Raises UnknownTime."""
    return parse_timeframe(
        phrase, now=engine.clock(), zone=engine.zone(), date_order=engine.settings.date_order
    )
