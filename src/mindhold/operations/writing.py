"""Operations that change memories: remember, amend, link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidatorFunctionWrapHandler, WrapValidator

from mindhold.engine.amend import Amendment, amend, supersede
from mindhold.engine.capture.rewriting import rewrite_documents
from mindhold.engine.checks import LARGEST_NUMBER
from mindhold.engine.draft import Draft, Outcome, Remembered
from mindhold.engine.intake import preview, remember_many
from mindhold.engine.links import connect, disconnect
from mindhold.model.errors import InvalidInput, MindholdError
from mindhold.model.link import Relation
from mindhold.model.memory import Kind, Tier
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output, full_id
from mindhold.operations.drafting import LONG, Drafting, callers, is_long, note_stored, notice_of
from mindhold.operations.reading import shown_memory
from mindhold.operations.repeating import Repeating, kept_answer, repeated
from mindhold.operations.views import LinkView, MemoryView

MOST_AT_ONCE = 10_000
RESOLVES = "resolves"  # resolved_by, from the other side
NEW = "new"  # stands for an id that a dry run doesn't give


class RememberInput(Input):
    """What to remember. `session_only` is working memory: it ends with its conversation, or within a day without one.

    The same `idempotency_key` again within a day is answered as before, and nothing is stored; a `dry_run` stores nothing
    at all and tells what it would do.
    """

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
    idempotency_key: str | None = None
    dry_run: bool = False


class Unreadable(RememberInput):
    """An item that a door could not read: it fails, and keeps no other back."""

    content: str = ""
    _error: InvalidInput = PrivateAttr()

    @classmethod
    def because(cls, error: InvalidInput) -> Unreadable:
        """The item that fails with this error."""
        item = cls()
        item._error = error
        return item

    @property
    def error(self) -> InvalidInput:
        """Why."""
        return self._error


def _item(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    return Unreadable.because(value) if isinstance(value, InvalidInput) else check(value)


class RememberResult(Output):
    """What became of it; or, as `would_store` and without an id, what a dry run would do."""

    outcome: Literal["stored", "duplicate", "noise", "failed", "would_store"]
    created: bool
    id: str | None = None
    memory: MemoryView | None = None
    parts: list[str] = []
    superseded: list[str] = []
    links: list[LinkView] = []
    linked: list[str] = []  # with whom
    redacted: dict[str, int] = {}
    quarantined: bool = False
    suspicious: list[str] = []
    embedded: bool = False
    repeated: bool = False  # the first answer to this idempotency key
    notice: str = ""
    error: str | None = None
    error_code: str | None = None

    @property
    def ties(self) -> list[dict[str, str]]:
        """With whom it is linked, and what it is to each: links lead from the new one, but from an error to its fix."""
        said = ({Relation.RESOLVED_BY.value: RESOLVES}.get(one.relation, one.relation) for one in self.links)
        return [{"id": far, "relation": told} for far, told in zip(self.linked, said, strict=True)]


class RememberManyInput(Input):
    """Several at once. Scope, conversation and dialect are for those that have none of their own."""

    items: list[Annotated[RememberInput, WrapValidator(_item)]] = Field(max_length=MOST_AT_ONCE)
    scope: str | None = None
    create_scope: bool = False
    conversation: str | None = None
    dialect: str = ""
    idempotency_key: str | None = None  # of all of them together: one that failed is sent with another
    dry_run: bool = False


class RememberManyResult(Output):
    """One answer an item, in order."""

    results: list[RememberResult]
    created: int
    failed: int = 0
    dry_run: bool = False


class AmendInput(Input):
    """What to change; what isn't given stays. With `supersedes` a new memory takes the old one's place.

    `expected` is the `etag` of the memory as the caller has seen it: one that was changed since is left as it is.
    """

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
    expected: str | None = None


class AmendResult(Output):
    """The memory as it is now; `previous_id` is the one that it superseded."""

    id: str
    previous_id: str | None = None
    memory: MemoryView
    notice: str = ""
    etag: str = ""


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
    [result], [error] = await _several(call, [given])
    if error is not None:
        raise error
    return result


async def _remember_many(call: Call, given: RememberManyInput) -> RememberManyResult:
    items = [_with_defaults(item, given) for item in given.items]
    key = None if given.dry_run else given.idempotency_key
    whole = Repeating(call, {0: (key, _said(given))} if key else {})
    async with whole:
        if 0 in whole.errors:
            raise whole.errors[0]
        if 0 in whole.known:
            results = await repeated(call, whole.known[0], RememberResult)
        else:
            results, errors = await _several(call, items)
            if not all(
                errors
            ):  # what is stored isn't stored again; where nothing was, all of it may be tried anew
                await whole.settle(0, kept_answer(results))
    return RememberManyResult(
        results=results,
        created=sum(result.created and not result.repeated for result in results),
        failed=sum(result.outcome == "failed" for result in results),
        dry_run=given.dry_run,
    )


def _with_defaults(item: RememberInput, given: RememberManyInput) -> RememberInput:
    defaults: dict[str, Any] = {}
    if item.scope is None and given.scope is not None:
        defaults["scope"] = given.scope
    if given.create_scope:
        defaults["create_scope"] = True
    if item.conversation is None and given.conversation is not None:
        defaults["conversation"] = given.conversation
    if not item.dialect and given.dialect:
        defaults["dialect"] = given.dialect
    if given.dry_run:
        defaults["dry_run"] = True
    return item.model_copy(update=defaults) if defaults else item


def _said(given: Input) -> str:
    return given.model_dump_json(exclude={"idempotency_key", "dry_run"})


async def _several(
    call: Call, items: list[RememberInput]
) -> tuple[list[RememberResult], list[MindholdError | None]]:
    """An answer each, and the error of those that failed."""
    keyed = {
        number: (item.idempotency_key, _said(item))
        for number, item in enumerate(items)
        if item.idempotency_key is not None
    }
    dry = frozenset(number for number, item in enumerate(items) if item.dry_run)
    done: dict[int, RememberResult] = {}
    errors: dict[int, MindholdError] = {}
    async with Repeating(call, keyed, dry=dry) as repeating:
        errors |= repeating.errors
        for number, before in repeating.known.items():
            [done[number]] = await repeated(call, before, RememberResult)
        fresh = [number for number in range(len(items)) if number not in done and number not in errors]
        fresh = [number for number in fresh if number not in repeating.copies]
        answers = await _passed(call, {number: items[number] for number in fresh if number not in dry})
        answers |= await _passed(call, {number: items[number] for number in fresh if number in dry}, dry=True)
        for number, answer in answers.items():
            done[number] = _answer(call, items[number], answer)
            if answer.error is not None:
                errors[number] = answer.error
            elif number in repeating.held:
                await repeating.settle(number, kept_answer([done[number]]))
        for number, first in repeating.copies.items():
            if first in errors:
                errors[number] = errors[first]
            else:
                done[number] = done[first].model_copy(update={"repeated": True})
    for number, error in errors.items():
        done[number] = _answer(call, items[number], Remembered(Outcome.FAILED, error=error))
    numbers = range(len(items))
    return [done[number] for number in numbers], [errors.get(number) for number in numbers]


async def _passed(
    call: Call, items: Mapping[int, RememberInput], *, dry: bool = False
) -> dict[int, Remembered]:
    if not items:
        return {}
    drafting = Drafting(call, dry=dry)
    drafts: dict[int, Draft] = {}
    answers: dict[int, Remembered] = {}
    for number, item in items.items():
        try:
            if isinstance(item, Unreadable):
                raise item.error
            drafts[number] = await drafting.draft(item)
        except MindholdError as error:
            answers[number] = Remembered(Outcome.FAILED, error=error)
    wanted = list(drafts.values())
    if dry:
        told = await preview(call.engine, wanted, making=drafting.making)
    else:
        told = await remember_many(call.engine, wanted)
        await note_stored(call, zip(wanted, told, strict=True))
    return answers | dict(zip(drafts, told, strict=True))


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
        metadata=None if given.metadata is None else callers(given.metadata),
    )
    memory_id = await full_id(call, given.id)
    if amendment == Amendment():
        raise InvalidInput("Nothing was given to change.", advice="Give the content, or another field.")
    previous, seen = None, None if given.expected is None else given.expected.partition("-")[0]
    if given.supersedes:
        memory, old = await supersede(call.engine, memory_id, amendment, agent=call.agent, expected=seen)
        previous = old.id
    else:
        memory = await amend(call.engine, memory_id, amendment, agent=call.agent, expected=seen)
    told = (
        LONG if given.content is not None and is_long(memory) else "",
        await rewrite_documents(call.engine, [memory]),
    )
    notice = " ".join(filter(None, told))
    shown = await shown_memory(call, memory)
    return AmendResult(
        id=memory.id, previous_id=previous, memory=shown.memory, notice=notice, etag=shown.etag
    )


async def _link(call: Call, given: LinkInput) -> LinkResult:
    origin, target = await full_id(call, given.origin), await full_id(call, given.target)
    link, created = await connect(call.engine, origin, target, relation=given.relation, agent=call.agent)
    return LinkResult(link=LinkView.of(link), created=created)


async def _unlink(call: Call, given: UnlinkInput) -> UnlinkResult:
    origin, target = await full_id(call, given.origin), await full_id(call, given.target)
    removed = await disconnect(call.engine, origin, target, relation=given.relation, agent=call.agent)
    return UnlinkResult(removed=[LinkView.of(link) for link in removed])


def _answer(call: Call, given: RememberInput, answer: Remembered) -> RememberResult:
    memory = answer.memory
    stored = answer.outcome is Outcome.STORED
    would = stored and given.dry_run
    links = [LinkView.of(link) for link in answer.links]
    if answer.proposed and memory:  # nobody has an id yet
        ends = ({"origin": NEW} if link.origin == memory.id else {"target": NEW} for link in links)
        links = [link.model_copy(update=end) for link, end in zip(links, ends, strict=True)]
        memory = replace(memory, id=NEW)
    return RememberResult(
        outcome="would_store" if would else answer.outcome.value,
        created=stored and not would,
        id=memory.id if memory and not answer.proposed else None,
        memory=MemoryView.of(memory, call.engine.clock()) if memory else None,
        parts=[] if would else list(answer.parts),
        superseded=list(answer.superseded),
        links=links,
        linked=[
            link.origin if link.relation is Relation.RESOLVED_BY else link.target for link in answer.links
        ],
        redacted={finding.kind: finding.count for finding in answer.redacted},
        quarantined=bool(answer.suspicious),
        suspicious=list(answer.suspicious),
        embedded=answer.embedded,
        notice=notice_of(answer, unembedded=call.engine.meaning.reason),
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
