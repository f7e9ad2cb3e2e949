"""Operations that change memories: remember, amend, link."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from recollect.engine.amend import Amendment, amend, supersede
from recollect.engine.checks import LARGEST_NUMBER
from recollect.engine.conversations import SESSION_ONLY, called, note_activity
from recollect.engine.draft import Draft, Outcome, Remembered
from recollect.engine.intake import remember, remember_many
from recollect.engine.links import connect, disconnect
from recollect.engine.projects import open_project
from recollect.model.errors import InvalidInput, RecollectError
from recollect.model.link import Relation
from recollect.model.memory import Kind, Provenance, Tier
from recollect.operations.catalogue import Call, Effect, Input, Operation, Output, full_id, full_ids
from recollect.operations.views import LinkView, MemoryView

MOST_AT_ONCE = 10_000
ALONE = "alone:"  # how the name begins of what is no conversation, but needs an end
OURS = "recollect."  # how the names of metadata begin that mean something to the engine


class RememberInput(Input):
    """What to remember. `session_only` is working memory: it ends with its conversation, or within a day without one."""

    content: str
    kind: Kind = Kind.NOTE
    scope: str | None = None
    create_scope: bool = False  # make the scope when there is none of that name
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
    conversation: str | None = None  # the call's own when not given
    session_only: bool = False
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
    """What to change; what isn't given stays. With `supersedes` a new memory takes the old one's place."""

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
    supersedes: bool = False


class AmendResult(Output):
    """The memory as it is now; `previous_id` is the one that it superseded."""

    id: str
    previous_id: str | None = None
    memory: MemoryView


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
    draft = await _draft(call, given)
    answer = await remember(call.engine, draft)
    await _note(call, [(draft, answer)])
    return _answer(call, answer)


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
    await _note(call, zip(drafts.values(), stored, strict=True))
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
        metadata=None if given.metadata is None else _callers(given.metadata),
    )
    memory_id = await full_id(call, given.id)
    if amendment == Amendment():
        raise InvalidInput("Nothing was given to change.", advice="Give the content, or another field.")
    if given.supersedes:
        new, old = await supersede(call.engine, memory_id, amendment, agent=call.agent)
        return AmendResult(id=new.id, previous_id=old.id, memory=MemoryView.of(new))
    memory = await amend(call.engine, memory_id, amendment, agent=call.agent)
    return AmendResult(id=memory.id, memory=MemoryView.of(memory))


async def _link(call: Call, given: LinkInput) -> LinkResult:
    origin, target = await full_id(call, given.origin), await full_id(call, given.target)
    link, created = await connect(call.engine, origin, target, relation=given.relation, agent=call.agent)
    return LinkResult(link=LinkView.of(link), created=created)


async def _unlink(call: Call, given: UnlinkInput) -> UnlinkResult:
    origin, target = await full_id(call, given.origin), await full_id(call, given.target)
    removed = await disconnect(call.engine, origin, target, relation=given.relation, agent=call.agent)
    return UnlinkResult(removed=[LinkView.of(link) for link in removed])


async def _note(call: Call, done: Iterable[tuple[Draft, Remembered]]) -> None:
    """Which conversations stored something. The turns of a log are none of it: they are the conversation."""
    stored: dict[tuple[str, bool], list[str]] = {}
    for draft, answer in done:
        told, memory = draft.provenance, answer.memory
        named = told.conversation and not told.conversation.startswith(ALONE)
        if (
            answer.outcome is Outcome.STORED
            and memory
            and told.conversation
            and named
            and told.position is None
        ):
            ids = stored.setdefault((told.conversation, bool(answer.parts)), [])
            ids.extend(answer.parts or (memory.id,))
    for (conversation, document), ids in stored.items():
        await note_activity(
            call.engine,
            conversation,
            "remember",
            ids,
            agent=call.agent,
            exactly=document,  # its parts don't bear the conversation's name
        )


async def _draft(call: Call, given: RememberInput) -> Draft:
    if given.session_only and (given.anchor or given.permanent):
        raise InvalidInput("What ends with its conversation can't be kept for good.", advice="Choose one.")
    metadata = _callers(given.metadata)
    conversation = given.conversation or call.conversation
    if given.session_only and conversation is None:
        conversation = f"{ALONE}{call.engine.new_id()}"  # nobody will end it: a day does
    return Draft(
        content=given.content,
        kind=given.kind,
        scope=await _scope(call, given),
        agent=call.agent,
        topic=given.topic,
        tags=tuple(given.tags),
        keywords=tuple(given.keywords),
        importance=given.importance,
        confidence=given.confidence,
        occurred=given.occurred,
        anchor=given.anchor,
        tier=_tier(given),
        provenance=Provenance(
            dialect=given.dialect,
            source=given.source,
            conversation=conversation,
            position=given.position,
            file=given.file,
            line=given.line,
        ),
        metadata={**metadata, SESSION_ONLY: called(call.engine, conversation or "")}
        if given.session_only
        else metadata,
        linked_to=tuple(await full_ids(call, given.linked_to)) if given.linked_to else (),
        keep_noise=given.keep_noise,
    )


async def _scope(call: Call, given: RememberInput) -> str | None:
    if given.scope is None or not given.create_scope:
        return given.scope
    return (await open_project(call.engine, given.scope, create=True)).name


def _callers(metadata: dict[str, Any]) -> dict[str, Any]:
    """What the caller gave along. Raises InvalidInput for a name that would be taken for one of ours."""
    for name in metadata:
        if name.startswith(OURS):
            raise InvalidInput(
                f"The metadata has {name[:100]!r}: names that begin with {OURS!r} are Recollect's own.",
                advice="Choose another name.",
            )
    return metadata


def _tier(given: RememberInput) -> Tier:
    if given.session_only:
        return Tier.HOT
    return Tier.PERMANENT if given.permanent else Tier.WARM


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
LINK = Operation("link", "Say how two memories relate.", LinkInput, LinkResult, _link, Effect.WRITES)
UNLINK = Operation(
    "unlink", "Remove links between two memories.", UnlinkInput, UnlinkResult, _unlink, Effect.WRITES
)
