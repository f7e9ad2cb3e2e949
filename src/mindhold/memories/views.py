"""The shapes of operations' answers, etags of memories, and page cursors."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field

from mindhold.memories.hit_context import HIDDEN
from mindhold.memories.prepare import LARGEST_NUMBER
from mindhold.memories.ranking import LISTED
from mindhold.model.errors import InvalidInput
from mindhold.model.job import Job
from mindhold.model.lifecycle import confidence_at
from mindhold.model.memory import LOG_DIALECT, Kind, Link, Memory, Status, moment_of
from mindhold.model.query import Order, PagePosition
from mindhold.operations import Output
from mindhold.ports.store import Receipt

if TYPE_CHECKING:
    from mindhold.jobs.progress import Progress
    from mindhold.memories.recall import Hit


LONGEST_METADATA = 1_000
# Fields that several operations share.
MemoryId = Annotated[
    str,
    Field(
        description="The memory's id, or a unique beginning of it.", examples=["01m7gv42a3fzcy3gb19vmek4q7"]
    ),
]
ScopeName = Annotated[
    str | None, Field(description="The scope; the server's default scope if absent.", examples=["shop"])
]
Notice = Annotated[str, Field(description="A notice about this answer; usually empty.")]
NextCursor = Annotated[
    str | None, Field(description="The `cursor` of the next page; null on the last page.", examples=[None])
]
PLACES = ("dialect", "source", "conversation", "position", "file", "line")  # of provenance, if known


class View(Output):
    """An answer's shape. Its fields are the table: each is filled from the record's field of the same name."""

    @classmethod
    def fill(cls, *records: object, **values: Any) -> Self:
        """Make the view of records: the first that has a field gives it; `values` are the fields that differ."""
        for name in cls.model_fields:
            if name not in values:
                record = next((each for each in records if hasattr(each, name)), records[0])
                values[name] = _plain(getattr(record, name))
        return cls(**values)


def _plain(value: Any) -> Any:
    """Convert a value to JSON: lists and objects, and numbers rounded to four places."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _today(memory: Memory, now: datetime) -> dict[str, Any]:
    """Return the fields that are shown differently than stored: today's confidence, and provenance without blanks."""
    source = {name: getattr(memory.provenance, name) for name in PLACES}
    return {
        "confidence": round(confidence_at(memory, now), 4),
        "provenance": {name: value for name, value in source.items() if value not in (None, "")},
    }


def origin_of(kind: str, provenance: Mapping[str, Any]) -> str:
    """Return the source that the caller named, or else the kind."""
    if source := provenance.get("source"):
        return str(source)
    return "conversation" if kind == Kind.EPISODE and provenance.get("dialect") == LOG_DIALECT else kind


class MemoryView(View):
    """One memory."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    content: str = Field(description="The text.", examples=["Staging listens on port 5433."])
    kind: str = Field(description="Its kind.", examples=["fact"])
    scope: str = Field(description="Its scope.", examples=["shop"])
    agent: str = Field(description="The agent that owns it.", examples=["default"])
    status: str = Field(description="Its status.", examples=["active"])
    topic: str = Field(default="", description="Topic, in a word or two.", examples=["staging"])
    tags: list[str] = Field(default=[], description="Tags.", examples=[["network"]])
    keywords: list[str] = Field(default=[], description="Keywords for search.")
    importance: float = Field(description="Importance, from 0 to 1.", examples=[0.6])
    confidence: float = Field(description="Confidence, from 0 to 1.", examples=[1.0])
    trust: float = Field(description="Trust, from 0 to 1.", examples=[1.0])
    tier: str = Field(description="Storage tier: hot, warm, cold or permanent.", examples=["warm"])
    anchor: bool = Field(description="Whether it is an anchor, which never fades.", examples=[False])
    uses: int = Field(description="How often it was used.", examples=[3])
    shown: int = 0  # how often it was put before somebody who had not asked for it
    utility: float = 1.0  # by evaluation, and then by importance and use
    usefulness: float = 0.0  # -1 to 1, by the verdicts of those who were given it
    tokens: int = Field(description="Number of tokens.", examples=[8])
    created: datetime = Field(description="When it was created.", examples=["2026-11-16T10:30:00Z"])
    updated: datetime = Field(description="When it was last changed.", examples=["2026-11-16T10:30:00Z"])
    occurred: datetime = Field(description="When it happened.", examples=["2026-11-16T10:30:00Z"])
    last_used: datetime | None = None
    verified: datetime | None = None  # when it was found worth keeping
    review: datetime | None = None  # when upkeep looks at it next
    supersedes: str | None = Field(default=None, description="What it supersedes.")
    merged_from: list[str] = []
    provenance: dict[str, Any] = Field(
        default={}, description="Its origin: contract, conversation, file and line."
    )
    metadata: dict[str, Any] = Field(default={}, description="Free metadata, stored unchanged.")
    embedded_by: str | None = None
    content_hash: str = Field(examples=["2f6c0b9e5a14d3c7"])

    @property
    def origin(self) -> str:
        """Where it is from, in a word."""
        return origin_of(self.kind, self.provenance)

    @property
    def archived(self) -> bool:
        """Whether it is found by those alone who ask for what is archived too."""
        return self.status == Status.ARCHIVED

    @classmethod
    def of(cls, memory: Memory, now: datetime) -> MemoryView:
        """Return the memory as a view, with today's confidence."""
        return cls.fill(memory, **_today(memory, now))


class LinkView(View):
    """One link; read as: origin relation target."""

    origin: str = Field(
        description="The memory that the link starts from.", examples=["01m7gv42a3fzcy3gb19vmek4q7"]
    )
    target: str = Field(
        description="The memory that the link leads to.", examples=["01m7gv9k5d2w8r6t1p0n4b3xya"]
    )
    relation: str = Field(description="Kind of the link.", examples=["caused_by"])
    weight: float = Field(examples=[1.0])
    automatic: bool = Field(examples=[False])
    created: datetime = Field(description="When it was created.", examples=["2026-11-16T10:30:00Z"])

    @classmethod
    def of(cls, link: Link) -> LinkView:
        """Return the link as a view."""
        return cls.fill(link)


class LinkedView(View):
    """A memory at the other end of a link."""

    link: LinkView
    id: str = Field(description="Its id.")
    kind: str = Field(description="Its kind.")
    status: str = Field(description="Its status.")
    content: str = Field(description="The text.")

    @classmethod
    def of(cls, link: Link, memory: Memory) -> LinkedView:
        """Return the linked memory as a view; a hidden one without its words."""
        content = "" if memory.status in HIDDEN else memory.content
        return cls.fill(memory, link=LinkView.of(link), content=content)


class TurnView(View):
    """A neighbour in the conversation."""

    id: str = Field(description="Its id.")
    occurred: datetime = Field(description="When it happened.")
    content: str = Field(description="The text.")


class HitView(View):
    """One memory that answers."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    score: float = Field(description="Relevance score, from 0 to 1.", examples=[0.8312])
    similarity: float | None = Field(
        description="Similarity in meaning, from 0 to 1.", examples=[0.7741]
    )  # cosine with the question, where both have a vector
    layer: str = Field(
        description="The layer that found it: keywords, full text, vectors or filter.", examples=["L3"]
    )
    why: list[str] = Field(description="Why it was found.", examples=[["meaning", "words"]])
    content: str = Field(description="The text.", examples=["Staging listens on port 5433."])
    truncated: bool = Field(description="Whether the text was shortened.", examples=[False])
    tokens: int = Field(description="Number of tokens.", examples=[8])
    kind: str = Field(description="Its kind.", examples=["fact"])
    scope: str = Field(description="Its scope.", examples=["shop"])
    agent: str = Field(description="The agent that owns it.", examples=["default"])
    status: str = Field(description="Its status.", examples=["active"])
    topic: str = Field(description="Topic, in a word or two.", examples=["staging"])
    tags: list[str] = Field(description="Tags.", examples=[["network"]])
    keywords: list[str] = Field(description="Keywords for search.", examples=[["staging", "port"]])
    importance: float = Field(description="Importance, from 0 to 1.", examples=[0.6])
    confidence: float = Field(description="Confidence, from 0 to 1.", examples=[1.0])
    trust: float = Field(description="Trust, from 0 to 1.", examples=[1.0])
    tier: str = Field(description="Storage tier: hot, warm, cold or permanent.", examples=["warm"])
    anchor: bool = Field(description="Whether it is an anchor, which never fades.", examples=[False])
    access: int = Field(examples=[3])  # how often it was recalled before
    created: datetime = Field(description="When it was created.", examples=["2026-11-16T10:30:00Z"])
    updated: datetime = Field(description="When it was last changed.", examples=["2026-11-16T10:30:00Z"])
    occurred: datetime = Field(description="When it happened.", examples=["2026-11-16T10:30:00Z"])
    provenance: dict[str, Any] = Field(
        description="Its origin: contract, conversation, file and line.", examples=[{}]
    )
    metadata: dict[str, Any] = Field(
        description="Free metadata, stored unchanged.", examples=[{}]
    )  # empty when it is long: `show` has all of it
    contradicts: list[str] = Field(default=[], description="Older memories that contradict it.")  # ids
    contradicted_by: list[str] = Field(default=[], description="Newer memories that contradict it.")
    superseded_by: list[str] = Field(default=[], description="Ids of the memories that replaced it.")
    links: list[LinkedView] = Field(default=[], description="Linked memories.")
    before: list[TurnView] = []
    after: list[TurnView] = Field(default=[], description="Messages after it.")

    @property
    def origin(self) -> str:
        """Where it is from, in a word."""
        return origin_of(self.kind, self.provenance)

    @property
    def archived(self) -> bool:
        """Whether it is found by those alone who ask for what is archived too."""
        return self.status == Status.ARCHIVED

    @property
    def certainty(self) -> float | None:
        """How sure it is that this answers; None in a listing, where nothing was compared."""
        return None if self.layer == LISTED else self.score

    @classmethod
    def of(cls, hit: Hit, now: datetime) -> HitView:
        """Return the hit as a view."""
        memory, metadata = hit.memory, dict(hit.memory.metadata)
        return cls.fill(
            hit,
            memory,
            hit.disputes,
            **_today(memory, now),
            access=memory.uses,
            metadata=metadata if len(str(metadata)) <= LONGEST_METADATA else {},
            links=[LinkedView.of(linked.link, linked.memory) for linked in hit.links],
            before=[TurnView.fill(turn) for turn in hit.before],
            after=[TurnView.fill(turn) for turn in hit.after],
        )


class VersionView(View):
    """What a memory said before."""

    number: int
    content: str = Field(description="The text.")
    kind: str = Field(description="Its kind.")
    topic: str = Field(description="Topic, in a word or two.")
    tags: list[str] = Field(description="Tags.")
    importance: float = Field(description="Importance, from 0 to 1.")
    occurred: datetime = Field(description="When it happened.")
    tier: str = Field(description="Storage tier: hot, warm, cold or permanent.")
    metadata: dict[str, Any] = Field(default={}, description="Free metadata, stored unchanged.")
    amended: datetime
    amended_by: str


class ReceiptView(View):
    """Proof of an erasure: what was removed from each place, and what a second look found there."""

    ids: list[str] = Field(description="Ids of memories.", examples=[["01m7gv42a3fzcy3gb19vmek4q7"]])
    removed: dict[str, int] = Field(examples=[{"memories": 1, "vectors": 1, "text": 1, "links": 1}])
    remaining: dict[str, int] = Field(examples=[{"memories": 0, "vectors": 0, "text": 0, "links": 0}])
    empty: bool = Field(examples=[True])

    @classmethod
    def of(cls, receipt: Receipt) -> ReceiptView:
        """Return the receipt as a view."""
        return cls.fill(receipt, empty=not any(receipt.remaining.values()))


class FindingView(View):
    """One thing that was looked at."""

    name: str
    healthy: bool
    detail: str
    advice: str = ""


class JobView(View):
    """One job."""

    id: str = Field(description="Its id.", examples=["reindex_01jxq3k5v6w7x8y9z0a1b2c3d4"])
    name: str = Field(description="Its name.", examples=["reindex"])
    state: str = Field(description="Its status.", examples=["running"])
    attempts: int = Field(examples=[1])
    most_attempts: int = Field(examples=[5])
    created: datetime = Field(description="When it was created.", examples=["2026-11-02T08:15:00Z"])
    due: datetime = Field(description="When it will run.", examples=["2026-11-02T08:15:00Z"])
    finished: datetime | None = None
    error: str | None = None
    result: dict[str, Any] | None = None
    progress: float | None = Field(default=None, description="Progress, from 0 to 1.", examples=[0.4202])
    done: int | None = Field(default=None, description="How many are done.", examples=[640])
    total: int | None = Field(default=None, description="Total number.", examples=[1523])

    @classmethod
    def of(cls, job: Job, progress: Progress | None = None) -> JobView:
        """Return the job as a view, with its progress."""
        return cls.fill(
            job,
            progress=None if progress is None else round(progress.share, 4),
            done=None if progress is None else progress.done,
            total=None if progress is None else progress.total,
        )


def etag_of(memory: Memory, shown: Output) -> str:
    """Return the time of the last update, which an amendment may expect, and a checksum of everything shown."""
    return f"{moment_of(memory)}-{sha256(shown.model_dump_json().encode()).hexdigest()[:8]}"


CURSOR_VERSION = 1
LONGEST_CURSOR = 1_000  # characters of a cursor
LONGEST_ID = 200
_TIMED = (Order.NEWEST, Order.OLDEST, Order.DUE, Order.CHANGED)


def next_cursor(memories: Sequence[Memory], order: Order, *, limit: int) -> str | None:
    """Return the cursor of the next page; None after the last one."""
    if len(memories) < limit or not memories:
        return None
    return encode_cursor(order.value, PagePosition.of(memories[-1], order))


def page_start(order: Order, *, cursor: str | None, after: str | None = None) -> str | PagePosition | None:
    """Return where `find` starts; `after` is an id or a cursor. Raises InvalidInput."""
    if cursor is not None and after is not None:
        raise InvalidInput("`cursor` and `after` were both given.", advice="Give one of them.")
    if cursor is not None:
        return position_of(cursor, order)
    if after is not None and _read(after) is not None:
        return position_of(after, order)
    return after


def position_of(cursor: str, order: Order) -> PagePosition:
    """Return the position of a cursor in that order. Raises InvalidInput."""
    value, last = decode_cursor(order.value, cursor)
    if order in _TIMED:
        return PagePosition(_moment(value), last)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise unreadable_cursor()
    if order is Order.USED and not (isinstance(value, int) and 0 <= value <= LARGEST_NUMBER):
        raise unreadable_cursor()
    return PagePosition(float(value) if order is Order.IMPORTANT else value, last)


def encode_cursor(listing: str, spot: PagePosition) -> str:
    """Return a cursor of the named listing."""
    value = spot.value.astimezone(UTC).isoformat() if isinstance(spot.value, datetime) else spot.value
    text = json.dumps([CURSOR_VERSION, listing, value, spot.id], ensure_ascii=True, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(listing: str, cursor: str) -> tuple[Any, str]:
    """Return the JSON value and the id of a cursor. Raises InvalidInput for an invalid cursor, or one of another listing."""
    fields = _read(cursor)
    if fields is None or fields[0] != CURSOR_VERSION:
        raise unreadable_cursor()
    if fields[1] != listing:
        raise InvalidInput(
            "The cursor is of a listing in another order.",
            advice="Begin again without a cursor, or ask in the order that it was given for.",
        )
    return fields[2], fields[3]


def unreadable_cursor() -> InvalidInput:
    return InvalidInput(
        "The cursor can't be read.", advice="Hand back `next` of the page before as it is, or begin without."
    )


def _read(cursor: str) -> tuple[int, str, Any, str] | None:
    if len(cursor) > LONGEST_CURSOR or not cursor.isascii():
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        fields = json.loads(text)
    except (binascii.Error, ValueError, RecursionError):
        return None
    if not isinstance(fields, list) or len(fields) != 4:
        return None
    version, listing, value, last = fields
    if type(version) is not int or not isinstance(listing, str) or not isinstance(last, str):
        return None
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        return None
    if len(last) > LONGEST_ID or "\x00" in last or any("\ud800" <= sign <= "\udfff" for sign in last):
        return None
    return version, listing, value, last


def _moment(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    raise unreadable_cursor()
