"""Checks of queries and listings, the filters that they mean, and the operations that list memories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field

from mindhold.engine import Engine
from mindhold.memories.prepare import MOST_LABELS, bare_tags, checked_moment
from mindhold.memories.views import (
    LinkedView,
    MemoryId,
    MemoryView,
    NextCursor,
    Notice,
    ScopeName,
    VersionView,
    View,
    etag_of,
    next_cursor,
    page_start,
)
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import Kind, Memory, Status
from mindhold.model.query import Filter, Order
from mindhold.operations import Context, Input, Output, full_id, operation
from mindhold.projects.scopes import active_scopes, visible_scopes
from mindhold.projects.storage import ask_reachable
from mindhold.text.timeframe import Timeframe, describe_timeframe, parse_timeframe

if TYPE_CHECKING:
    from mindhold.memories.recall import RecallInput


T = TypeVar("T")


class TimeframeView(View):
    """The range that a phrase of time was understood as; half-open."""

    phrase: str = Field(description="A period in words, such as `last week`.", examples=["last week"])
    start: datetime | None = Field(examples=["2026-11-09T00:00:00Z"])
    end: datetime | None = Field(examples=["2026-11-16T00:00:00Z"])
    words: str = Field(examples=["Mon 2026-11-09 to Sun 2026-11-15"])
    filters: bool = Field(examples=[False])


class ShowInput(Input):
    """Which memory, by its id or the beginning of it."""

    id: MemoryId


class ShowResult(Output):
    """One memory with its links and earlier versions."""

    memory: MemoryView
    links: list[LinkedView] = Field(description="Linked memories.", examples=[[]])
    versions: list[VersionView] = Field(description="Its versions.", examples=[[]])
    etag: str = ""  # what an amendment of it as it is here may expect


class Filtering(Input):
    """Which memories are listed."""

    scope: str | None = Field(default=None, description="The scope; the server's default scope if absent.")
    everywhere: bool = Field(
        default=True, description="Search every scope that you may see, not only this one and its parents."
    )
    tags: list[str] = Field(default=[], max_length=MOST_LABELS, description="Tags.")
    tags_any: bool = Field(default=False, description="Match any of the tags instead of all.")
    kinds: list[Kind] = Field(default=[], description="Only these kinds.")
    topic: str | None = Field(default=None, description="Topic, in a word or two.")
    statuses: list[Status] = Field(default=[Status.ACTIVE], min_length=1, description="Only these statuses.")
    when: str | None = Field(default=None, description="A period in words, such as `last week`.")
    since: datetime | None = Field(default=None, description="Only memories from this time on.")
    until: datetime | None = Field(default=None, description="Only memories from before this time.")
    minimum_trust: float = Field(default=0.0, ge=0, le=1, description="Minimum trust, from 0 to 1.")


class ListInput(Filtering):
    """Which memories, in which order; `cursor` is the `next` of the page before, `after` the id that it ended with."""

    order: Order = Field(default=Order.NEWEST, description="Sort order.")
    limit: int = Field(default=20, ge=1, le=1000, description="Maximum number of results.")
    after: str | None = Field(
        default=None,
        description="Last id of the previous page. `cursor` does the same and stays valid if that memory is deleted.",
    )  # or a cursor
    cursor: str | None = Field(default=None, description="`next` of the previous page.")


class ListResult(Output):
    """A page, and how many match in all. `next` stays where it is, whatever is written meanwhile."""

    memories: list[MemoryView] = Field(description="Memories.")
    total: int = Field(description="Total number.", examples=[1])
    next: NextCursor = None
    notice: Notice = ""  # which stores don't answer


class TagsInput(Input):
    """In which scope; everywhere when none is named."""

    scope: ScopeName = None


class TagsResult(Output):
    """Tags and how many memories have each, the most used first."""

    tags: dict[str, int] = Field(
        description="Number of memories by tag.", examples=[{"network": 12, "billing": 4}]
    )
    notice: Notice = ""  # which stores don't answer


async def _show(context: Context, request: ShowInput) -> ShowResult:
    """One memory, with links and versions."""
    memory_id = await full_id(context, request.id)
    return await shown_memory(context, await context.engine.store.get(memory_id, viewer=context.agent))


SHOW = operation("show", _show, reads=True, shown_ids=lambda result: [result.memory.id])


async def shown_memory(context: Context, memory: Memory) -> ShowResult:
    """Return everything that `show` shows of a memory, with its etag."""
    store, memory_id = context.engine.store, memory.id
    links = await store.links_of([memory_id], viewer=context.agent)
    ends = {end for link in links for end in (link.origin, link.target)} - {memory_id}
    others = await store.get_many(list(ends), viewer=context.agent)
    linked = [
        LinkedView.of(link, others[far])
        for link in links
        if (far := link.target if link.origin == memory_id else link.origin) in others
    ]
    versions = [
        VersionView.fill(version, importance=version.importance)
        for version in await store.versions_of(memory_id)
    ]
    result = ShowResult(memory=MemoryView.of(memory, context.engine.clock()), links=linked, versions=versions)
    return result.model_copy(update={"etag": etag_of(memory, result)})


async def _list(context: Context, request: ListInput) -> ListResult:
    """Memories by filter, page by page."""
    where = await filter_for(context, request, everywhere=request.everywhere)
    store, begin = context.engine.store, page_start(request.order, cursor=request.cursor, after=request.after)

    async def page(scopes: tuple[str, ...]) -> tuple[list[Memory], int]:
        own = replace(where, scopes=where.scopes or scopes)
        memories = await store.find(own, order=request.order, limit=request.limit, after=begin)
        return memories, await store.count(own)

    (memories, total), notice = await as_asked(context, page, everywhere=not where.scopes)
    return ListResult(
        memories=[MemoryView.of(memory, context.engine.clock()) for memory in memories],
        total=total,
        next=next_cursor(memories, request.order, limit=request.limit),
        notice=notice,
    )


LIST = operation(
    "list", _list, reads=True, shown_ids=lambda result: [memory.id for memory in result.memories]
)


async def _tags(context: Context, request: TagsInput) -> TagsResult:
    """Tags and their counts."""
    named_scopes = await visible_scopes(context.engine, request.scope) if request.scope else ()

    async def counted(scopes: tuple[str, ...]) -> dict[str, int]:
        return await context.engine.store.tally(
            Filter(viewer=context.agent, scopes=named_scopes or scopes), "tag"
        )

    tally, notice = await as_asked(context, counted, everywhere=not named_scopes)
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0].casefold()))
    return TagsResult(tags=dict(ordered), notice=notice)


TAGS = operation("tags", _tags, reads=True)


async def as_asked(
    context: Context, ask: Callable[[tuple[str, ...]], Awaitable[T]], *, everywhere: bool
) -> tuple[T, str]:
    """Ask, and say which stores don't answer.

    If a scope is named, a store that is away is an error; if all are asked, those within reach answer.
    """
    if not everywhere:
        return await ask(()), ""

    async def of_active(scopes: tuple[str, ...]) -> T:
        return await ask(await active_scopes(context.engine, scopes))

    return await ask_reachable(context.engine, of_active)


async def filter_for(context: Context, given: Filtering, *, everywhere: bool) -> Filter:
    """Return the filter of a listing. Raises UnknownTime, ScopeNotFound, InvalidInput."""
    scopes: tuple[str, ...] = ()
    if given.scope:
        scopes = (await visible_scopes(context.engine, given.scope))[:1]
    elif not everywhere:
        scopes = await visible_scopes(context.engine, None)
    where, _ = _conditions(context.engine, given)
    return replace(where, viewer=context.agent, scopes=scopes, minimum_trust=given.minimum_trust)


def _conditions(engine: Engine, request: Filtering | RecallInput) -> tuple[Filter, Timeframe | None]:
    """Return the filter without scopes and viewer, and the time frame of its phrase."""
    since, until, timeframe = period_of(engine, request.when, request.since, request.until)
    where = Filter(
        viewer="",
        tags=bare_tags(request.tags),
        tags_any=request.tags_any,
        topic=request.topic,
        kinds=tuple(request.kinds),
        statuses=tuple(request.statuses),
        since=since,
        until=until,
    )
    return where, timeframe


def period_of(
    engine: Engine, when: str | None, since: datetime | None, until: datetime | None
) -> tuple[datetime | None, datetime | None, Timeframe | None]:
    """Return the later start and the earlier end of a phrase and of limits, and what the phrase means.

    Raises UnknownTime, InvalidInput.
    """
    frame = timeframe_of(engine, when) if when else None
    starts = [checked_moment(engine, moment) for moment in (since, frame and frame.start) if moment]
    ends = [checked_moment(engine, moment) for moment in (until, frame and frame.end) if moment]
    return max(starts, default=None), min(ends, default=None), frame


def timeframe_view(context: Context, frame: Timeframe | None, *, filters: bool) -> TimeframeView | None:
    """Return the time frame as a view."""
    if frame is None:
        return None
    words = describe_timeframe(frame, context.engine.zone())
    return TimeframeView.fill(frame, words=words, filters=filters)


LONGEST_QUERY = 8_000  # characters, the keywords included
MOST_KEYWORDS = 500
MOST_HITS = 200


def check_query(request: RecallInput) -> None:
    """Raise InvalidInput for a query that can't be answered."""
    if not request.asked and not _filters(request):
        raise InvalidInput(
            "There is nothing to look for.", advice="Give a question, keywords, or something to filter by."
        )
    if (length := len(request.asked)) > LONGEST_QUERY:
        both = " and its keywords have" if request.keywords else " has"
        raise InvalidInput(
            f"The question{both} {length:,} characters; at most {LONGEST_QUERY:,} are read.",
            advice="Shorten it.",
        )


def _filters(request: RecallInput) -> bool:
    conditions = (request.scope, request.topic, request.when, request.since, request.until)
    selected = request.tags or request.kinds or request.statuses != [Status.ACTIVE]
    return bool(selected) or any(condition is not None for condition in conditions)


async def filter_of(
    engine: Engine,
    request: RecallInput,
    *,
    agent: str,
    scopes: tuple[str, ...] = (),
    conversation: str | None = None,
) -> tuple[Filter, Timeframe | None]:
    """Return the filter of a recall, and the time frame of its phrase; `scopes` are those that everywhere means.

    Raises UnknownTime, ScopeNotFound.
    """
    conditions, timeframe = _conditions(engine, request)
    if request.everywhere:
        scopes = scopes or await active_scopes(engine)
    else:
        scopes = await visible_scopes(engine, request.scope)
    if request.scope_only and not request.everywhere:
        scopes = scopes[:1]
    where = replace(
        conditions,
        viewer=agent,
        scopes=scopes,
        conversation=conversation,
        # A caller who asks for quarantined memories wants untrusted ones.
        minimum_trust=0.0 if Status.QUARANTINED in request.statuses else request.minimum_trust,
    )
    return where, timeframe


def timeframe_of(engine: Engine, phrase: str) -> Timeframe:
    """Parse a time phrase in the user's zone. Raises UnknownTime."""
    return parse_timeframe(
        phrase, now=engine.clock(), zone=engine.zone(), date_order=engine.settings.date_order
    )
