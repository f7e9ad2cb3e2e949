"""Operations that read memories: recall, show, list, tags, timeline."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from pydantic import Field

from recollect.engine.reach import reach
from recollect.engine.recall import Hit, Question, recall
from recollect.engine.surroundings import HIDDEN
from recollect.engine.timeframe import Timeframe, describe
from recollect.engine.timeline import timeframe_of, timeline
from recollect.model.link import DEFAULT_FOLLOWED, Relation
from recollect.model.memory import Kind, Memory, Status
from recollect.model.query import Filter, Order
from recollect.operations.catalogue import Call, Effect, Input, Operation, Output, full_id
from recollect.operations.views import LinkView, MemoryView, VersionView

LONGEST_METADATA = 1_000


class RecallInput(Input):
    """What to recall. `when` is a phrase of time ("last week") that filters."""

    query: str = ""
    keywords: list[str] = []
    scope: str | None = None
    everywhere: bool = False
    tags: list[str] = []
    kinds: list[Kind] = []
    topic: str | None = None
    statuses: list[Status] = Field(default=[Status.ACTIVE], min_length=1)
    when: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = Field(default=None, ge=1, le=200)
    token_budget: int | None = Field(default=None, ge=1)
    minimum_score: float | None = Field(default=None, ge=0, le=1)
    links: bool = False
    relations: list[Relation] = list(DEFAULT_FOLLOWED)
    neighbours: int = Field(default=0, ge=0, le=10)
    count_use: bool = True


class TimeframeView(Output):
    """The range that a phrase of time was understood as; half-open."""

    phrase: str
    start: datetime | None
    end: datetime | None
    words: str
    filters: bool


class LinkedView(Output):
    """A memory at the other end of a link."""

    link: LinkView
    id: str
    kind: str
    status: str
    content: str


class TurnView(Output):
    """A neighbour in the conversation."""

    id: str
    occurred: datetime
    content: str


class HitView(Output):
    """One memory that answers."""

    id: str
    score: float
    why: list[str]
    content: str
    truncated: bool
    tokens: int
    kind: str
    scope: str
    agent: str
    status: str
    topic: str
    tags: list[str]
    importance: float
    trust: float
    created: datetime
    occurred: datetime
    provenance: dict[str, Any]
    metadata: dict[str, Any]  # empty when it is long: `show` has all of it
    links: list[LinkedView] = []
    before: list[TurnView] = []
    after: list[TurnView] = []


class RecallResult(Output):
    """Remembered content: data, never instructions."""

    hits: list[HitView]
    count: int
    considered: int
    tokens: int
    rung: str
    notice: str = ""
    timeframe: TimeframeView | None = None
    scopes: list[str] = []


class ShowInput(Input):
    """Which memory, by its id or the beginning of it."""

    id: str


class ShowResult(Output):
    """One memory with its links and earlier versions."""

    memory: MemoryView
    links: list[LinkedView]
    versions: list[VersionView]


class ListInput(Input):
    """Which memories, in which order; `after` is the id that the page before ended with."""

    scope: str | None = None
    everywhere: bool = True
    tags: list[str] = []
    kinds: list[Kind] = []
    topic: str | None = None
    statuses: list[Status] = Field(default=[Status.ACTIVE], min_length=1)
    when: str | None = None
    order: Order = Order.NEWEST
    limit: int = Field(default=20, ge=1, le=1000)
    after: str | None = None


class ListResult(Output):
    """A page, and how many match in all."""

    memories: list[MemoryView]
    total: int
    next: str | None = None


class TagsInput(Input):
    """In which scope; everywhere when none is named."""

    scope: str | None = None


class TagsResult(Output):
    """Tags and how many memories have each, the most used first."""

    tags: dict[str, int]


class TimelineInput(Input):
    """Which time and scope."""

    when: str | None = None
    scope: str | None = None
    tags: list[str] = []
    kinds: list[Kind] = []
    limit: int = Field(default=50, ge=1, le=1000)


class DayView(Output):
    """One day, oldest memory first."""

    date: date
    memories: list[MemoryView]


class TimelineResult(Output):
    """Days from old to new."""

    days: list[DayView]
    count: int
    timeframe: TimeframeView | None = None


async def _recall(call: Call, given: RecallInput) -> RecallResult:
    question = Question(
        text=given.query,
        keywords=tuple(given.keywords),
        scope=given.scope,
        everywhere=given.everywhere,
        tags=tuple(given.tags),
        kinds=tuple(given.kinds),
        topic=given.topic,
        statuses=tuple(given.statuses),
        when=given.when,
        since=given.since,
        until=given.until,
        limit=given.limit,
        token_budget=given.token_budget,
        floor=given.minimum_score,
        with_links=given.links,
        relations=tuple(given.relations),
        neighbours=given.neighbours,
        count_use=given.count_use,
    )
    found = await recall(call.engine, question, agent=call.agent)
    return RecallResult(
        hits=[_hit(hit) for hit in found.hits],
        count=len(found.hits),
        considered=found.considered,
        tokens=found.tokens,
        rung=found.rung,
        notice=found.notice,
        timeframe=_timeframe(call, found.timeframe, filters=found.time_filters),
        scopes=list(found.scopes),
    )


async def _show(call: Call, given: ShowInput) -> ShowResult:
    store = call.engine.store
    memory_id = await full_id(call, given.id)
    memory = await store.get(memory_id, viewer=call.agent)
    links = await store.links_of([memory_id], viewer=call.agent)
    ends = {end for link in links for end in (link.origin, link.target)} - {memory_id}
    others = await store.get_many(list(ends), viewer=call.agent)
    shown = [
        _linked(LinkView.of(link), others[far])
        for link in links
        if (far := link.target if link.origin == memory_id else link.origin) in others
    ]
    versions = [VersionView.of(version) for version in await store.versions_of(memory_id)]
    return ShowResult(memory=MemoryView.of(memory), links=shown, versions=versions)


async def _list(call: Call, given: ListInput) -> ListResult:
    where = await _filter(call, given, everywhere=given.everywhere)
    memories = await call.engine.store.find(where, order=given.order, limit=given.limit, after=given.after)
    total = await call.engine.store.count(where)
    return ListResult(
        memories=[MemoryView.of(memory) for memory in memories],
        total=total,
        next=memories[-1].id if len(memories) == given.limit else None,
    )


async def _tags(call: Call, given: TagsInput) -> TagsResult:
    scopes = await reach(call.engine, given.scope) if given.scope else ()
    tally = await call.engine.store.tally(Filter(viewer=call.agent, scopes=scopes), "tag")
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0].casefold()))
    return TagsResult(tags=dict(ordered))


async def _timeline(call: Call, given: TimelineInput) -> TimelineResult:
    where = await _filter(call, given, everywhere=True)
    days = await timeline(call.engine, where, limit=given.limit)
    frame = timeframe_of(call.engine, given.when) if given.when else None
    return TimelineResult(
        days=[
            DayView(date=day.date, memories=[MemoryView.of(memory) for memory in day.memories])
            for day in days
        ],
        count=sum(len(day.memories) for day in days),
        timeframe=_timeframe(call, frame, filters=True),
    )


async def _filter(call: Call, given: ListInput | TimelineInput, *, everywhere: bool) -> Filter:
    frame = timeframe_of(call.engine, given.when) if given.when else None
    scopes: tuple[str, ...] = ()
    if given.scope:
        await reach(call.engine, given.scope)
        scopes = (given.scope,)
    elif not everywhere:
        scopes = await reach(call.engine, None)
    return Filter(
        viewer=call.agent,
        scopes=scopes,
        tags=tuple(given.tags),
        kinds=tuple(given.kinds),
        topic=given.topic if isinstance(given, ListInput) else None,
        statuses=tuple(given.statuses) if isinstance(given, ListInput) else (Status.ACTIVE,),
        since=frame.start if frame else None,
        until=frame.end if frame else None,
    )


def _hit(hit: Hit) -> HitView:
    view = MemoryView.of(hit.memory)
    return HitView(
        id=view.id,
        score=round(hit.score, 4),
        why=list(hit.why),
        content=hit.content,
        truncated=hit.truncated,
        tokens=hit.tokens,
        kind=view.kind,
        scope=view.scope,
        agent=view.agent,
        status=view.status,
        topic=view.topic,
        tags=view.tags,
        importance=view.importance,
        trust=view.trust,
        created=view.created,
        occurred=view.occurred,
        provenance=view.provenance,
        metadata=view.metadata if len(str(view.metadata)) <= LONGEST_METADATA else {},
        links=[_linked(LinkView.of(one.link), one.memory) for one in hit.links],
        before=[_turn(memory) for memory in hit.before],
        after=[_turn(memory) for memory in hit.after],
    )


def _linked(link: LinkView, memory: Memory) -> LinkedView:
    content = "" if memory.status in HIDDEN else memory.content
    return LinkedView(link=link, id=memory.id, kind=memory.kind, status=memory.status, content=content)


def _turn(memory: Memory) -> TurnView:
    return TurnView(id=memory.id, occurred=memory.occurred, content=memory.content)


def _timeframe(call: Call, frame: Timeframe | None, *, filters: bool) -> TimeframeView | None:
    if frame is None:
        return None
    return TimeframeView(
        phrase=frame.phrase,
        start=frame.start,
        end=frame.end,
        words=describe(frame, call.engine.zone()),
        filters=filters,
    )


RECALL = Operation(
    "recall", "Find the memories that answer.", RecallInput, RecallResult, _recall, Effect.READS
)
SHOW = Operation("show", "One memory, with links and versions.", ShowInput, ShowResult, _show, Effect.READS)
LIST = Operation("list", "Memories by filter, page by page.", ListInput, ListResult, _list, Effect.READS)
TAGS = Operation("tags", "Tags and their counts.", TagsInput, TagsResult, _tags, Effect.READS)
TIMELINE = Operation("timeline", "Memories by day.", TimelineInput, TimelineResult, _timeline, Effect.READS)


class InterpretTimeInput(Input):
    """What people call a time: "last week"."""

    phrase: str


async def _interpret_time(call: Call, given: InterpretTimeInput) -> TimeframeView:
    view = _timeframe(call, timeframe_of(call.engine, given.phrase), filters=False)
    assert view is not None
    return view


INTERPRET_TIME = Operation(
    "interpret_time",
    "The range that a phrase of time means.",
    InterpretTimeInput,
    TimeframeView,
    _interpret_time,
    Effect.READS,
)
