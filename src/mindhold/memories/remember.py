"""The operations `remember` and `remember_many`: callers' items become requests, and `write_many` stores them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidatorFunctionWrapHandler, WrapValidator

from mindhold.conversations.sessions import ALONE, clean_conversation_name, keep_working_memory, note_activity
from mindhold.memories.idempotency import Repeating, kept_answer, repeated
from mindhold.memories.prepare import (
    ATOMIC_KINDS,
    LONG_NOTICE,
    SHORTER_ADVICE,
    checked_caller_metadata,
    checked_scope_name,
    is_long,
)
from mindhold.memories.views import LinkView, MemoryView
from mindhold.memories.write import RememberInput, WriteOutcome, WriteResult, write_many
from mindhold.model.errors import InvalidInput, MindholdError, ScopeNotFound
from mindhold.model.lifecycle import SESSION_ONLY, is_working
from mindhold.model.memory import Relation
from mindhold.operations import Context, Input, Output, created_ids, full_ids, operation
from mindhold.projects.placement import open_project

MOST_AT_ONCE = 10_000
RESOLVES = "resolves"  # resolved_by, seen from the fix
NEW = "new"  # in place of the id that a dry run doesn't have
SMALL_TALK_NOTICE = "It looks like small talk; nothing was stored."


class Unreadable(RememberInput):
    """An item that an interface could not read: it fails, and keeps no other back."""

    content: str = ""
    _error: InvalidInput = PrivateAttr()

    @classmethod
    def because(cls, error: InvalidInput) -> Unreadable:
        """Return the item that fails with this error."""
        item = cls()
        item._error = error
        return item

    @property
    def error(self) -> InvalidInput:
        """Why it can't be read."""
        return self._error


def _item(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    return Unreadable.because(value) if isinstance(value, InvalidInput) else check(value)


class RememberManyInput(Input):
    """Several at once. Scope, conversation and dialect are for those that have none of their own."""

    items: list[Annotated[RememberInput, WrapValidator(_item)]] = Field(
        max_length=MOST_AT_ONCE,
        description="The memories to store, each with the fields of a single one.",
        examples=[[{"content": "Staging listens on port 5433."}, {"content": "Parcels leave on Mondays."}]],
    )
    scope: str | None = Field(
        default=None, description="The scope; the server's default scope if absent.", examples=["shop"]
    )
    create_scope: bool = Field(default=False, description="Create the scope if it does not exist.")
    conversation: str | None = Field(default=None, description="The conversation that it belongs to.")
    dialect: str = Field(default="", description="The contract through which it was stored.")
    idempotency_key: str | None = None  # of all of them together: one that failed is sent with another
    dry_run: bool = Field(default=False, description="Only report what would be done.")


class RememberResult(Output):
    """What became of it; or, as `would_store` and without an id, what a dry run would do."""

    outcome: Literal["stored", "duplicate", "noise", "failed", "would_store"] = Field(
        description="What was done with it.", examples=["stored"]
    )
    created: bool = Field(description="Whether something was created.", examples=[True])
    id: str | None = Field(default=None, description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    memory: MemoryView | None = Field(default=None, examples=[{}])
    parts: list[str] = []
    superseded: list[str] = Field(default=[], description="Ids of the memories that it replaced.")
    links: list[LinkView] = Field(default=[], description="Linked memories.", examples=[[{}]])
    linked: list[str] = Field(
        default=[], description="Ids of the linked memories.", examples=[["01m7gv9k5d2w8r6t1p0n4b3xya"]]
    )
    redacted: dict[str, int] = Field(
        default={},
        description="How many secrets and personal data were replaced, by kind.",
    )
    quarantined: bool = Field(
        default=False,
        description="Whether it reads like instructions: then it is stored but only shown by its id.",
    )
    suspicious: list[str] = Field(default=[], description="Why it is suspicious.")
    embedded: bool = Field(
        default=False,
        description="Whether it has a vector already.",
        examples=[True],
    )
    repeated: bool = Field(
        default=False, description="Whether it existed already under the same key."
    )  # the first answer to this idempotency key
    notice: str = Field(default="", description="A notice about this answer; usually empty.")
    error: str | None = None
    error_code: str | None = None

    @property
    def ties(self) -> list[dict[str, str]]:
        """The linked memories, and the relation to each. Links start at the new memory, except from an error to its fix."""
        relations = (
            {Relation.RESOLVED_BY.value: RESOLVES}.get(link.relation, link.relation) for link in self.links
        )
        return [
            {"id": other, "relation": relation}
            for other, relation in zip(self.linked, relations, strict=True)
        ]


class RememberManyResult(Output):
    """One answer an item, in order."""

    results: list[RememberResult] = Field(description="The result for each item, in order.")
    created: int = Field(description="How many were created.", examples=[1])
    failed: int = Field(default=0, description="How many failed.", examples=[0])
    dry_run: bool = Field(default=False, description="Only report what would be done.")


async def _remember(context: Context, request: RememberInput) -> RememberResult:
    """Store one memory."""
    [result], [error] = await _remember_all(context, [request])
    if error is not None:
        raise error
    return result


REMEMBER = operation(
    "remember",
    _remember,
    writes=True,
    needs_vectors=True,
    default_scope=True,
    stored_ids=lambda result: created_ids([result]),
)


async def _remember_many(context: Context, request: RememberManyInput) -> RememberManyResult:
    """Store several memories, with an answer for each."""
    items = [_with_defaults(item, request) for item in request.items]
    key = None if request.dry_run else request.idempotency_key
    whole = Repeating(context, {0: (key, _words(request))} if key else {})
    async with whole:
        if 0 in whole.errors:
            raise whole.errors[0]
        if 0 in whole.known:
            results = await repeated(context, whole.known[0], RememberResult)
        else:
            results, errors = await _remember_all(context, items)
            if not all(errors):  # if nothing was stored, the whole call may be repeated
                await whole.settle(0, kept_answer(results))
    return RememberManyResult(
        results=results,
        created=sum(result.created and not result.repeated for result in results),
        failed=sum(result.outcome == "failed" for result in results),
        dry_run=request.dry_run,
    )


REMEMBER_MANY = operation(
    "remember_many",
    _remember_many,
    writes=True,
    needs_vectors=True,
    default_scope=True,
    stored_ids=lambda result: created_ids(result.results),
)


def _with_defaults(item: RememberInput, request: RememberManyInput) -> RememberInput:
    defaults: dict[str, Any] = {}
    if item.scope is None and request.scope is not None:
        defaults["scope"] = request.scope
    if request.create_scope:
        defaults["create_scope"] = True
    if item.conversation is None and request.conversation is not None:
        defaults["conversation"] = request.conversation
    if not item.dialect and request.dialect:
        defaults["dialect"] = request.dialect
    if request.dry_run:
        defaults["dry_run"] = True
    return item.model_copy(update=defaults) if defaults else item


def _words(request: Input) -> str:
    """Return the content that an idempotency key identifies."""
    return request.model_dump_json(exclude={"idempotency_key", "dry_run"})


async def _remember_all(
    context: Context, items: list[RememberInput]
) -> tuple[list[RememberResult], list[MindholdError | None]]:
    """Return a result for each item, and the errors of those that failed."""
    keyed = {
        number: (item.idempotency_key, _words(item))
        for number, item in enumerate(items)
        if item.idempotency_key is not None
    }
    dry = frozenset(number for number, item in enumerate(items) if item.dry_run)
    results: dict[int, RememberResult] = {}
    errors: dict[int, MindholdError] = {}
    async with Repeating(context, keyed, dry=dry) as repeating:
        errors |= repeating.errors
        for number, before in repeating.known.items():
            [results[number]] = await repeated(context, before, RememberResult)
        settled = results.keys() | errors.keys() | repeating.copies.keys()
        fresh = {number: item for number, item in enumerate(items) if number not in settled}
        for dry_run in (False, True):
            resolver = _Resolver(context, dry_run=dry_run)
            requests, failed = await resolver.resolve(
                {number: item for number, item in fresh.items() if item.dry_run is dry_run}
            )
            errors |= failed
            if not requests:
                continue
            stored = await write_many(
                context.engine,
                list(requests.values()),
                agent=context.agent,
                dry_run=dry_run,
                new_scopes=resolver.new_scopes,
            )
            if not dry_run:
                await _note_stored(context, zip(requests.values(), stored, strict=True))
            for number, result in zip(requests, stored, strict=True):
                if result.error is not None:
                    errors[number] = result.error
                    continue
                results[number] = _remember_result(context, items[number], result)
                await repeating.settle(number, kept_answer([results[number]]))
        for number, first in repeating.copies.items():
            if first in errors:
                errors[number] = errors[first]
            else:
                results[number] = results[first].model_copy(update={"repeated": True})
    for number, error in errors.items():
        failure = WriteResult(WriteOutcome.FAILED, error=error)
        results[number] = _remember_result(context, items[number], failure)
    numbers = range(len(items))
    return [results[number] for number in numbers], [errors.get(number) for number in numbers]


class _Resolver:
    """Turns callers' items into requests for write_many().

    Each scope is opened once; in a dry run, new ones are only noted in `new_scopes`.
    """

    def __init__(self, context: Context, *, dry_run: bool) -> None:
        self.new_scopes: set[str] = set()
        self._context = context
        self._dry_run = dry_run
        self._scopes: dict[str, str] = {}

    async def resolve(
        self, items: Mapping[int, RememberInput]
    ) -> tuple[dict[int, RememberInput], dict[int, MindholdError]]:
        """Return the requests by number, and the errors of items that can't be resolved."""
        requests: dict[int, RememberInput] = {}
        errors: dict[int, MindholdError] = {}
        for number, item in items.items():
            try:
                requests[number] = await self._resolved(item)
            except MindholdError as error:
                errors[number] = error
        return requests, errors

    async def _resolved(self, item: RememberInput) -> RememberInput:
        """Resolve one item. Raises InvalidInput, ScopeNotFound, Refused, MemoryNotFound."""
        if isinstance(item, Unreadable):
            raise item.error
        if item.session_only and (item.anchor or item.permanent):
            raise InvalidInput(
                "What ends with its conversation can't be kept for good.", advice="Choose one."
            )
        engine = self._context.engine
        metadata = checked_caller_metadata(item.metadata)
        conversation = item.conversation or self._context.conversation
        if item.session_only:
            conversation = conversation or f"{ALONE}{engine.new_id()}"  # it expires after a day
            metadata = {**metadata, SESSION_ONLY: clean_conversation_name(engine, conversation)}
        changes: dict[str, Any] = {}
        if conversation != item.conversation:
            changes["conversation"] = conversation
        if metadata is not item.metadata:
            changes["metadata"] = metadata
        if item.scope is not None and item.create_scope:
            changes["scope"] = await self._opened(item.scope)
        if item.linked_to:
            changes["linked_to"] = await full_ids(self._context, item.linked_to)
        return item.model_copy(update=changes) if changes else item

    async def _opened(self, name: str) -> str:
        if name not in self._scopes:
            engine = self._context.engine
            try:
                self._scopes[name] = (await open_project(engine, name, create=not self._dry_run)).name
            except ScopeNotFound:
                if not self._dry_run:
                    raise
                self._scopes[name] = checked_scope_name(engine, name)
                self.new_scopes.add(self._scopes[name])
        return self._scopes[name]


async def _note_stored(context: Context, results: Iterable[tuple[RememberInput, WriteResult]]) -> None:
    """Note which conversations stored something; messages of a log aren't noted, they are the conversation itself."""
    stored: dict[tuple[str, bool], list[str]] = {}
    for request, result in results:
        memory = result.memory
        ends = SESSION_ONLY in request.metadata  # working memory is always noted, so that it ends
        if result.outcome is WriteOutcome.DUPLICATE and memory and is_working(memory) and not ends:
            await keep_working_memory(context.engine, memory)
        if (
            result.outcome is WriteOutcome.STORED
            and memory
            and request.conversation
            and (ends or request.position is None)
        ):
            ids = stored.setdefault((request.conversation, bool(result.parts)), [])
            ids.extend(result.parts or (memory.id,))
    for (conversation, document), ids in stored.items():
        # The parts of a long text don't carry the conversation's name.
        await note_activity(context.engine, conversation, ids, agent=context.agent, exactly=document)


def _notice(result: WriteResult, *, unembedded: str) -> str:
    """Return what the caller should know about the result; `unembedded` is why it has no vector."""
    if result.outcome is WriteOutcome.NOISE:
        return SMALL_TALK_NOTICE
    if result.outcome is not WriteOutcome.STORED:
        fields = ", ".join(result.unapplied)
        return f"It was there already; amend changes its {fields}." if fields else ""
    notices = [unembedded if not result.embedded else ""]
    if result.memory and result.memory.kind in ATOMIC_KINDS and result.parts:
        notices.append(f"It is kept whole, in {len(result.parts)} linked parts: {SHORTER_ADVICE}")
    elif result.memory and is_long(result.memory):
        notices.append(LONG_NOTICE)
    return " ".join(filter(None, notices))


def _remember_result(context: Context, request: RememberInput, result: WriteResult) -> RememberResult:
    memory = result.memory
    stored = result.outcome is WriteOutcome.STORED
    would = stored and request.dry_run
    links = [LinkView.of(link) for link in result.links]
    if result.proposed and memory:  # it has no id yet
        ends = ({"origin": NEW} if link.origin == memory.id else {"target": NEW} for link in links)
        links = [link.model_copy(update=end) for link, end in zip(links, ends, strict=True)]
        memory = replace(memory, id=NEW)
    return RememberResult(
        outcome="would_store" if would else result.outcome.value,
        created=stored and not would,
        id=memory.id if memory and not result.proposed else None,
        memory=MemoryView.of(memory, context.engine.clock()) if memory else None,
        parts=[] if would else list(result.parts),
        superseded=list(result.superseded),
        links=links,
        linked=[
            link.origin if link.relation is Relation.RESOLVED_BY else link.target for link in result.links
        ],
        redacted={finding.kind: finding.count for finding in result.redacted},
        quarantined=bool(result.suspicious),
        suspicious=list(result.suspicious),
        embedded=result.embedded,
        notice=_notice(result, unembedded=context.engine.vector_source.reason),
        error=str(result.error) if result.error else None,
        error_code=result.error.code if result.error else None,
    )
