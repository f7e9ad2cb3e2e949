"""Operations that change memories: remember, amend, forget, erase, link."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from recollect.engine.amend import Amendment, amend
from recollect.engine.checks import LARGEST_NUMBER
from recollect.engine.draft import Draft, Outcome, Remembered
from recollect.engine.forget import erase, forget, unforget
from recollect.engine.intake import remember, remember_many
from recollect.engine.links import connect, disconnect
from recollect.engine.reach import find_scope
from recollect.model.errors import InvalidInput, RecollectError
from recollect.model.link import Relation
from recollect.model.memory import Kind, Provenance, Status, Tier
from recollect.model.query import Filter
from recollect.operations.catalogue import Call, Effect, Input, Operation, Output, full_id, full_ids
from recollect.operations.views import LinkView, MemoryView, ReceiptView

MOST_AT_ONCE = 10_000


class RememberInput(Input):
    """What to remember."""

    content: str
    kind: Kind = Kind.NOTE
    scope: str | None = None
    topic: str = ""
    tags: list[str] = []
    keywords: list[str] = []
    importance: float | None = Field(default=None, ge=0, le=1)
    confidence: float = Field(default=1.0, ge=0, le=1)
    occurred: datetime | None = None
    anchor: bool = False
    permanent: bool = False
    source: str = ""
    dialect: str = ""
    conversation: str | None = None
    position: int | None = Field(default=None, ge=0, le=LARGEST_NUMBER)
    file: str | None = None
    line: int | None = Field(default=None, ge=0, le=LARGEST_NUMBER)
    metadata: dict[str, Any] = {}
    linked_to: list[str] = []
    keep_noise: bool = False


class RememberResult(Output):
    """What became of it."""

    outcome: Literal["stored", "duplicate", "noise", "failed"]
    created: bool
    id: str | None = None
    memory: MemoryView | None = None
    parts: list[str] = []
    superseded: list[str] = []
    links: list[LinkView] = []
    redacted: dict[str, int] = {}
    quarantined: bool = False
    suspicious: list[str] = []
    embedded: bool = False
    notice: str = ""
    error: str | None = None
    error_code: str | None = None


class RememberManyInput(Input):
    """Several at once."""

    items: list[RememberInput] = Field(max_length=MOST_AT_ONCE)


class RememberManyResult(Output):
    """One answer an item, in order."""

    results: list[RememberResult]
    created: int


class AmendInput(Input):
    """What to change; what isn't given stays."""

    id: str
    content: str | None = None
    kind: Kind | None = None
    topic: str | None = None
    tags: list[str] | None = None
    keywords: list[str] | None = None
    importance: float | None = Field(default=None, ge=0, le=1)
    anchor: bool | None = None
    permanent: bool | None = None
    occurred: datetime | None = None
    metadata: dict[str, Any] | None = None


class AmendResult(Output):
    """The memory as it is now."""

    memory: MemoryView


class ForgetInput(Input):
    """What to forget: ids, or everything with a tag, a topic or in a scope."""

    ids: list[str] = []
    tags: list[str] = []
    topic: str | None = None
    scope: str | None = None
    force: bool = False
    hard: bool = False


class ForgetResult(Output):
    """What was forgotten; the receipt when it was for good."""

    forgotten: list[str]
    count: int
    hard: bool
    receipt: ReceiptView | None = None


class UnforgetInput(Input):
    """Which to bring back."""

    ids: list[str] = Field(min_length=1)


class UnforgetResult(Output):
    """What is back."""

    memories: list[MemoryView]


class LinkInput(Input):
    """Two ends and what the first is to the second."""

    origin: str
    target: str
    relation: Relation = Relation.RELATED


class LinkResult(Output):
    """The link, and whether it is new."""

    link: LinkView
    created: bool


class UnlinkInput(Input):
    """Two ends; every relation unless one is named."""

    origin: str
    target: str
    relation: Relation | None = None


class UnlinkResult(Output):
    """What was removed."""

    removed: list[LinkView]


async def _remember(call: Call, given: RememberInput) -> RememberResult:
    return _answer(call, await remember(call.engine, await _draft(call, given)))


async def _remember_many(call: Call, given: RememberManyInput) -> RememberManyResult:
    drafts: dict[int, Draft] = {}
    answers: dict[int, Remembered] = {}
    for number, item in enumerate(given.items):
        try:
            drafts[number] = await _draft(call, item)
        except RecollectError as error:
            answers[number] = Remembered(Outcome.FAILED, error=error)
    stored = await remember_many(call.engine, list(drafts.values()))
    answers.update(zip(drafts, stored, strict=True))
    results = [_answer(call, answers[number]) for number in range(len(given.items))]
    return RememberManyResult(results=results, created=sum(result.created for result in results))


async def _amend(call: Call, given: AmendInput) -> AmendResult:
    tier = None if given.permanent is None else (Tier.PERMANENT if given.permanent else Tier.WARM)
    amendment = Amendment(
        content=given.content,
        kind=given.kind,
        topic=given.topic,
        tags=None if given.tags is None else tuple(given.tags),
        keywords=None if given.keywords is None else tuple(given.keywords),
        importance=given.importance,
        anchor=given.anchor,
        tier=tier,
        occurred=given.occurred,
        metadata=given.metadata,
    )
    memory = await amend(call.engine, await full_id(call, given.id), amendment, agent=call.agent)
    return AmendResult(memory=MemoryView.of(memory))


async def _forget(call: Call, given: ForgetInput) -> ForgetResult:
    ids = await _named(call, given)
    if not ids:
        return ForgetResult(forgotten=[], count=0, hard=given.hard)
    act = erase if given.hard else forget
    gone = await act(call.engine, ids, agent=call.agent, force=given.force)
    return ForgetResult(
        forgotten=[memory.id for memory in gone.memories],
        count=len(gone.memories),
        hard=given.hard,
        receipt=ReceiptView.of(gone.receipt) if gone.receipt else None,
    )


async def _named(call: Call, given: ForgetInput) -> list[str]:
    by_filter = bool(given.tags or given.topic or given.scope)
    if given.ids and by_filter:
        raise InvalidInput("Name ids, or a tag, topic or scope; not both.")
    if given.ids:
        return await full_ids(call, given.ids)
    if not by_filter:
        raise InvalidInput("Nothing was named to forget.", advice="Give ids, or a tag, topic or scope.")
    if given.scope:
        await find_scope(call.engine, given.scope)
    where = Filter(
        viewer=call.agent,
        tags=tuple(given.tags),
        topic=given.topic,
        scopes=(given.scope,) if given.scope else (),
        statuses=tuple(Status) if given.hard else (Status.ACTIVE,),
    )
    return [memory.id async for batch in call.engine.store.scan(where) for memory in batch]


async def _unforget(call: Call, given: UnforgetInput) -> UnforgetResult:
    back = await unforget(call.engine, await full_ids(call, given.ids), agent=call.agent)
    return UnforgetResult(memories=[MemoryView.of(memory) for memory in back])


async def _link(call: Call, given: LinkInput) -> LinkResult:
    origin, target = await full_id(call, given.origin), await full_id(call, given.target)
    link, created = await connect(call.engine, origin, target, relation=given.relation, agent=call.agent)
    return LinkResult(link=LinkView.of(link), created=created)


async def _unlink(call: Call, given: UnlinkInput) -> UnlinkResult:
    origin, target = await full_id(call, given.origin), await full_id(call, given.target)
    removed = await disconnect(call.engine, origin, target, relation=given.relation, agent=call.agent)
    return UnlinkResult(removed=[LinkView.of(link) for link in removed])


async def _draft(call: Call, given: RememberInput) -> Draft:
    return Draft(
        content=given.content,
        kind=given.kind,
        scope=given.scope,
        agent=call.agent,
        topic=given.topic,
        tags=tuple(given.tags),
        keywords=tuple(given.keywords),
        importance=given.importance,
        confidence=given.confidence,
        occurred=given.occurred,
        anchor=given.anchor,
        tier=Tier.PERMANENT if given.permanent else Tier.WARM,
        provenance=Provenance(
            dialect=given.dialect,
            source=given.source,
            conversation=given.conversation,
            position=given.position,
            file=given.file,
            line=given.line,
        ),
        metadata=given.metadata,
        linked_to=tuple(await full_ids(call, given.linked_to)) if given.linked_to else (),
        keep_noise=given.keep_noise,
    )


def _answer(call: Call, answer: Remembered) -> RememberResult:
    memory = answer.memory
    stored = answer.outcome is Outcome.STORED
    unembedded = stored and not answer.embedded
    return RememberResult(
        outcome=answer.outcome.value,
        created=stored,
        id=memory.id if memory else None,
        memory=MemoryView.of(memory) if memory else None,
        parts=list(answer.parts),
        superseded=list(answer.superseded),
        links=[LinkView.of(link) for link in answer.links],
        redacted={finding.kind: finding.count for finding in answer.redacted},
        quarantined=bool(answer.suspicious),
        suspicious=list(answer.suspicious),
        embedded=answer.embedded,
        notice=call.engine.meaning.reason if unembedded else "",
        error=str(answer.error) if answer.error else None,
        error_code=answer.error.code if answer.error else None,
    )


REMEMBER = Operation("remember", "Store one memory.", RememberInput, RememberResult, _remember, Effect.WRITES)
REMEMBER_MANY = Operation(
    "remember_many",
    "Store several memories, with an answer for each.",
    RememberManyInput,
    RememberManyResult,
    _remember_many,
    Effect.WRITES,
)
AMEND = Operation(
    "amend", "Correct a memory; what it said before is kept.", AmendInput, AmendResult, _amend, Effect.WRITES
)
FORGET = Operation(
    "forget",
    "Hide memories, or remove them for good with proof.",
    ForgetInput,
    ForgetResult,
    _forget,
    Effect.DESTROYS,
)
UNFORGET = Operation(
    "unforget", "Bring forgotten memories back.", UnforgetInput, UnforgetResult, _unforget, Effect.WRITES
)
LINK = Operation("link", "Say how two memories relate.", LinkInput, LinkResult, _link, Effect.WRITES)
UNLINK = Operation(
    "unlink", "Remove links between two memories.", UnlinkInput, UnlinkResult, _unlink, Effect.WRITES
)
