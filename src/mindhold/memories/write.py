"""The write path: limit, clean, redact, drop noise, hash, find duplicates, scan, store in one step, link."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidatorFunctionWrapHandler, WrapValidator

from mindhold.conversations.sessions import ALONE, clean_conversation_name, keep_working_memory, note_activity
from mindhold.engine import Engine
from mindhold.memories.draft import (
    ATOMIC_KINDS,
    LONG_NOTICE,
    SHORTER_ADVICE,
    Draft,
    PreparedDraft,
    Remembered,
    WriteOutcome,
    is_long,
    prepare,
    unapplied,
)
from mindhold.memories.duplicates import (
    RelatedMemories,
    find_related,
    find_related_by_meaning,
    inherit_from,
    relate_job,
    superseding,
)
from mindhold.memories.evaluation import evaluate_job
from mindhold.memories.idempotency import Repeating, kept_answer, repeated
from mindhold.memories.links import connect
from mindhold.memories.validation import LARGEST_NUMBER, checked_caller_metadata, checked_scope_name
from mindhold.memories.views import LinkView, MemoryView
from mindhold.model.errors import (
    Conflict,
    InvalidInput,
    MemoryNotFound,
    MindholdError,
    Refused,
    ScopeNotFound,
)
from mindhold.model.lifecycle import SESSION_ONLY, is_working
from mindhold.model.memory import Kind, Link, Memory, Provenance, Relation, Status, Tier
from mindhold.model.scope import Scope
from mindhold.operations import Context, Input, Output, created_ids, full_ids, operation
from mindhold.ports.embedder import Matrix
from mindhold.ports.store import Change, Connect, Enqueue, Put
from mindhold.projects.placement import open_project

BATCH = 128
AHEAD = 2  # batches under way at once, so that the embedder never waits
RELATED_AT_ONCE = 8  # more drafts than this are related by a job, so that bulk runs at the embedder's speed


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A draft that will be written."""

    number: int
    draft: Draft
    parts: list[PreparedDraft]


async def remember(engine: Engine, draft: Draft) -> Remembered:
    """Store one. Raises InvalidInput, ContentTooLarge, ScopeNotFound, MemoryNotFound and the store's errors."""
    [answer] = await remember_many(engine, [draft])
    if answer.error is not None:
        raise answer.error
    return answer


async def remember_many(engine: Engine, drafts: Sequence[Draft]) -> list[Remembered]:
    """One answer a draft, in order; a draft that can't be stored has its error in its answer.

    While some batches are being embedded, the one before them is written and the one after them prepared.
    """
    scopes = {scope.name: scope for scope in await engine.store.scopes()}
    return await _passed(_Intake(engine, scopes, len(drafts)), drafts)


async def preview(engine: Engine, drafts: Sequence[Draft], *, making: Collection[str]) -> list[Remembered]:
    """What remember_many would answer now; nothing is written. `making` are scopes that would be made before."""
    scopes = {scope.name: scope for scope in await engine.store.scopes()}
    new = {name: Scope(name, created=engine.clock()) for name in making}
    return await _passed(_Preview(engine, new | scopes, len(drafts)), drafts)


async def _passed(intake: _Intake, drafts: Sequence[Draft]) -> list[Remembered]:
    numbered = list(enumerate(drafts))
    flying: deque[tuple[list[_Admitted], asyncio.Task[Matrix | None]]] = deque()
    try:
        for start in range(0, len(numbered), BATCH):
            admitted = await intake.admit(numbered[start : start + BATCH])
            texts = [part.memory.content for item in admitted for part in item.parts]
            flying.append((admitted, asyncio.create_task(intake.embed(texts))))
            await asyncio.sleep(0)  # the embedding begins before this thread turns to other work
            while len(flying) > AHEAD:
                landed, embedding = flying.popleft()
                await intake.write(landed, await embedding)
        while flying:
            landed, embedding = flying.popleft()
            await intake.write(landed, await embedding)
    finally:
        for _, embedding in flying:
            embedding.cancel()
        await asyncio.gather(*(embedding for _, embedding in flying), return_exceptions=True)
    for number, answer in list(intake.answers.items()):
        if answer.outcome is WriteOutcome.DUPLICATE and answer.memory is not None:
            intake.answers[number] = await intake.repeated(drafts[number], answer.memory)
    return [intake.answers[number] for number in range(len(drafts))]


class _Intake:
    """One call's way through the pipeline."""

    def __init__(self, engine: Engine, scopes: dict[str, Scope], drafts: int) -> None:
        self.answers: dict[int, Remembered] = {}
        self._engine = engine
        self._scopes = scopes
        self._seen: dict[tuple[str, str, str], Memory] = {}
        self._relate_now = drafts <= RELATED_AT_ONCE

    async def admit(self, numbered: Sequence[tuple[int, Draft]]) -> list[_Admitted]:
        """Prepare; answer noise, duplicates and errors at once; the rest will be embedded and written."""
        ready: list[_Admitted] = []
        for number, draft in numbered:
            try:
                self._check_scope(draft)
                parts = prepare(self._engine, draft)
                await self._check_ends(draft)
            except MindholdError as error:
                self.answers[number] = Remembered(WriteOutcome.FAILED, error=error)
                continue
            if parts:
                ready.append(_Admitted(number, draft, parts))
            else:
                self.answers[number] = Remembered(WriteOutcome.NOISE)
        return await self._without_duplicates(ready)

    async def embed(self, texts: Sequence[str]) -> Matrix | None:
        """A row a text, if there is a model."""
        return await self._engine.vector_source.embed(texts)

    async def write(self, admitted: Sequence[_Admitted], matrix: Matrix | None) -> None:
        """Text, index, vectors and links in one transaction; drafts one by one if another process was faster."""
        if not admitted:
            return
        puts = self._puts(admitted, matrix)
        kin = await self._kin(admitted, puts)
        changes = [change for item in admitted for change in self._changes(item, puts, kin)]
        try:
            await self._engine.store.apply([*changes, Enqueue(evaluate_job(self._engine))])
        except (Conflict, MemoryNotFound):
            for item in admitted:
                await self._write_alone(item, puts, kin)
        for item in admitted:
            self.answers.setdefault(item.number, self._stored(item, puts, kin))
        await self._relate_later(
            [item for item in admitted if self.answers[item.number].outcome is WriteOutcome.STORED]
        )

    async def repeated(self, draft: Draft, known: Memory) -> Remembered:
        """The answer for what is there already: its links are drawn, the rest of it stays as it is."""
        try:
            links = [await self._linked(known, end) for end in draft.linked_to if end != known.id]
        except MindholdError as error:
            return Remembered(WriteOutcome.FAILED, error=error)
        return Remembered(
            WriteOutcome.DUPLICATE, memory=known, links=tuple(links), unapplied=unapplied(draft, known)
        )

    async def _linked(self, known: Memory, end: str) -> Link:
        link, _ = await connect(self._engine, known.id, end, relation=Relation.RELATED, agent=known.agent)
        return link

    def _check_scope(self, draft: Draft) -> None:
        name = draft.scope or self._engine.settings.scope
        if name not in self._scopes:
            raise ScopeNotFound(name)
        if not self._scopes[name].active:
            raise Refused(
                f"The scope {name!r} is deactivated.",
                advice=f"`mindhold scopes activate {name}` opens it again.",
            )

    async def _check_ends(self, draft: Draft) -> None:
        if not draft.linked_to:
            return
        agent = draft.agent or self._engine.settings.agent
        found = await self._engine.store.get_many(draft.linked_to, viewer=agent)
        for memory_id in draft.linked_to:
            if memory_id not in found or found[memory_id].status is Status.FORGOTTEN:
                raise MemoryNotFound(memory_id)

    async def _without_duplicates(self, ready: Sequence[_Admitted]) -> list[_Admitted]:
        hashes: dict[tuple[str, str], list[str]] = defaultdict(list)
        for item in ready:
            first = item.parts[0].memory
            hashes[first.scope, first.agent].append(first.content_hash)
        for (scope, agent), wanted in hashes.items():
            known = await self._engine.store.by_hash(wanted, scope=scope, agent=agent)
            self._seen.update({(scope, agent, digest): memory for digest, memory in known.items()})
        fresh: list[_Admitted] = []
        for item in ready:
            first = item.parts[0].memory
            key = (first.scope, first.agent, first.content_hash)
            if key in self._seen:
                self.answers[item.number] = Remembered(WriteOutcome.DUPLICATE, memory=self._seen[key])
            else:
                self._seen[key] = first
                fresh.append(item)
        return fresh

    def _puts(self, admitted: Sequence[_Admitted], matrix: Matrix | None) -> dict[str, Put]:
        vectors = iter(matrix) if matrix is not None else None
        return {
            part.memory.id: _put(
                part, next(vectors) if vectors is not None else None, self._engine.vector_source.model
            )
            for item in admitted
            for part in item.parts
        }

    async def _kin(self, admitted: Sequence[_Admitted], puts: dict[str, Put]) -> dict[str, RelatedMemories]:
        whole = [item.parts[0] for item in admitted if len(item.parts) == 1]
        active = [part for part in whole if part.memory.status is Status.ACTIVE]
        if self._relate_now:
            return await find_related_by_meaning(self._engine, [puts[part.memory.id] for part in active])
        kin: dict[str, RelatedMemories] = {}
        groups: dict[tuple[str, str], list[PreparedDraft]] = defaultdict(list)
        for part in active:
            groups[part.memory.scope, part.memory.agent].append(part)
        for (scope, agent), parts in groups.items():
            same = await self._engine.store.by_gist(
                [p.gist for p in parts if p.gist], scope=scope, agent=agent
            )
            for part in parts:
                others = [(other, 1.0) for other in same.get(part.gist, ())]
                if others:
                    kin[part.memory.id] = RelatedMemories(
                        superseded=find_related(part.memory, others, self._engine.settings.intake).superseded
                    )
        return kin

    def _changes(
        self, item: _Admitted, puts: dict[str, Put], kin: dict[str, RelatedMemories]
    ) -> list[Change]:
        now = self._engine.clock()
        first = item.parts[0].memory
        changes: list[Change] = []
        for part in item.parts:
            put = _with_heirloom(puts[part.memory.id], kin)
            changes.append(put)
            superseded = kin.get(part.memory.id, RelatedMemories()).superseded
            changes.extend(superseding(put.memory, superseded, now=put.memory.updated))
        changes.extend(Connect(link) for link in self._links(item, kin))
        changes.extend(
            Connect(Link(part.memory.id, first.id, Relation.PART_OF, now, automatic=True))
            for part in item.parts[1:]
        )
        return changes

    def _links(self, item: _Admitted, kin: dict[str, RelatedMemories]) -> list[Link]:
        now = self._engine.clock()
        first = item.parts[0].memory
        chosen = [Link(first.id, target, Relation.RELATED, now) for target in item.draft.linked_to]
        automatic = [
            link
            for link in kin.get(first.id, RelatedMemories()).links(first.id, now=now)
            if link.relation is not Relation.RELATED or link.target not in item.draft.linked_to
        ]
        return chosen + automatic

    async def _relate_later(self, stored: Sequence[_Admitted]) -> None:
        ids = [part.memory.id for item in stored for part in item.parts]
        if ids and not self._relate_now and self._engine.vector_source.model is not None:
            await self._engine.store.apply([Enqueue(relate_job(self._engine, ids))])

    async def _write_alone(
        self, item: _Admitted, puts: dict[str, Put], kin: dict[str, RelatedMemories]
    ) -> None:
        """One draft by itself, since another process stored the same, or took away what it was kin to."""
        first = item.parts[0].memory
        try:
            changes = self._changes(item, puts, kin)
            await self._engine.store.apply([*changes, Enqueue(evaluate_job(self._engine))])
        except Conflict as error:
            known = await self._engine.store.by_hash(
                [first.content_hash], scope=first.scope, agent=first.agent
            )
            existing = known.get(first.content_hash)
            self.answers[item.number] = (
                Remembered(WriteOutcome.DUPLICATE, memory=existing)
                if existing
                else Remembered(WriteOutcome.FAILED, error=error)
            )
        except MemoryNotFound as error:
            if first.id not in kin:
                self.answers[item.number] = Remembered(WriteOutcome.FAILED, error=error)
                return
            del kin[first.id]
            await self._write_alone(item, puts, kin)

    def _stored(self, item: _Admitted, puts: dict[str, Put], kin: dict[str, RelatedMemories]) -> Remembered:
        first = item.parts[0]
        put = _with_heirloom(puts[first.memory.id], kin)
        return Remembered(
            WriteOutcome.STORED,
            memory=put.memory,
            parts=tuple(part.memory.id for part in item.parts) if len(item.parts) > 1 else (),
            superseded=tuple(old.id for old in kin.get(first.memory.id, RelatedMemories()).superseded),
            links=tuple(self._links(item, kin)),
            redacted=first.redacted,
            suspicious=tuple(dict.fromkeys(reason for part in item.parts for reason in part.suspicious)),
            embedded=put.vector is not None,
        )


class _Preview(_Intake):
    """The same way, but for the last step."""

    def __init__(self, engine: Engine, scopes: dict[str, Scope], drafts: int) -> None:
        super().__init__(engine, scopes, drafts)
        self._proposed: set[str] = set()
        self._relate_now = True  # what a job would find out later is told now

    async def write(self, admitted: Sequence[_Admitted], matrix: Matrix | None) -> None:
        puts = self._puts(admitted, matrix)
        kin = await self._kin(admitted, puts)
        for item in admitted:
            told = replace(self._stored(item, puts, kin), proposed=True)
            self.answers[item.number] = told
            self._proposed.update(part.memory.id for part in item.parts)

    async def repeated(self, draft: Draft, known: Memory) -> Remembered:
        told = await super().repeated(draft, known)
        return replace(told, proposed=known.id in self._proposed)

    async def _linked(self, known: Memory, end: str) -> Link:
        return Link(known.id, end, Relation.RELATED, self._engine.clock())


def _with_heirloom(put: Put, kin: dict[str, RelatedMemories]) -> Put:
    own = kin.get(put.memory.id, RelatedMemories())
    return replace(put, memory=inherit_from(put.memory, own.superseded)) if own.superseded else put


def _put(part: PreparedDraft, vector: Matrix | None, model: str | None) -> Put:
    memory = part.memory if vector is None else replace(part.memory, embedded_by=model)
    return Put(memory, part.lexemes, labels=part.labels, gist=part.gist, vector=vector)


SMALL_TALK_NOTICE = "It looks like small talk; nothing was stored."


class RememberInput(Input):
    """What to remember. `session_only` is working memory: it ends with its conversation, or within a day without one.

    The same `idempotency_key` again within a day is answered as before, and nothing is stored; a `dry_run` stores nothing
    at all and tells what it would do.
    """

    content: str = Field(description="The text, as it was said.", examples=["Staging listens on port 5433."])
    kind: Kind = Field(default=Kind.NOTE, description="What kind of thing it is.", examples=["fact"])
    scope: str | None = Field(
        default=None, description="The scope that is meant; without one, the server's own.", examples=["shop"]
    )
    create_scope: bool = Field(
        default=False, description="Make the scope where there is none of that name."
    )  # make the scope when there is none of that name
    topic: str = Field(default="", description="What it is about, in a word or two.", examples=["staging"])
    tags: list[str] = Field(default=[], description="Words that it is sorted by.")
    keywords: list[str] = Field(default=[], description="Words under which it should be found.")
    importance: float | None = Field(
        default=None, ge=0, le=1, description="How much it matters, from 0 to 1."
    )
    confidence: float = Field(default=1.0, ge=0, le=1, description="How sure it is, from 0 to 1.")
    occurred: datetime | None = Field(default=None, description="When it happened.")
    anchor: bool = Field(default=False, description="Whether it never fades.")
    permanent: bool = Field(default=False, description="Whether it is kept whatever happens.")
    source: str = Field(default="", description="Where it comes from.")
    dialect: str = Field(default="", description="The contract that it came by.")
    conversation: str | None = Field(
        default=None, description="The conversation that it belongs to."
    )  # the call's own when not given
    session_only: bool = Field(default=False, description="Only for this conversation; it goes with it.")
    position: int | None = Field(
        default=None, ge=0, le=LARGEST_NUMBER, description="Its place in its conversation."
    )
    file: str | None = Field(default=None, description="The file that it came from.")
    line: int | None = Field(
        default=None,
        ge=0,
        le=LARGEST_NUMBER,
        description="The line in its file, or among those that were sent.",
    )
    metadata: dict[str, Any] = Field(
        default={}, description="Whatever else belongs to it, kept as it is given."
    )
    linked_to: list[str] = Field(default=[], description="Ids of memories that it is linked with.")
    keep_noise: bool = Field(default=False, description="Store it even if it looks like small talk.")
    idempotency_key: str | None = Field(
        default=None, description="A key of your own: the same call again gets the first answer."
    )
    dry_run: bool = Field(default=False, description="Only say what would be done.")


class DraftBuilder:
    """One call's drafts. A scope is opened once; in a dry run it is not made, but noted in `making`."""

    def __init__(self, context: Context, *, dry: bool = False) -> None:
        self.making: set[str] = set()
        self._call = context
        self._dry = dry
        self._scopes: dict[str, str] = {}

    async def draft(self, given: RememberInput) -> Draft:
        """Raises InvalidInput, ScopeNotFound, Refused, MemoryNotFound."""
        if given.session_only and (given.anchor or given.permanent):
            raise InvalidInput(
                "What ends with its conversation can't be kept for good.", advice="Choose one."
            )
        engine = self._call.engine
        metadata = checked_caller_metadata(given.metadata)
        conversation = given.conversation or self._call.conversation
        if given.session_only and conversation is None:
            conversation = f"{ALONE}{engine.new_id()}"  # nobody will end it: a day does
        if given.session_only:
            metadata = {**metadata, SESSION_ONLY: clean_conversation_name(engine, conversation or "")}
        return Draft(
            content=given.content,
            kind=given.kind,
            scope=await self._scope(given),
            agent=self._call.agent,
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
            metadata=metadata,
            linked_to=tuple(await full_ids(self._call, given.linked_to)) if given.linked_to else (),
            keep_noise=given.keep_noise,
        )

    async def _scope(self, given: RememberInput) -> str | None:
        if given.scope is None or not given.create_scope:
            return given.scope
        if given.scope not in self._scopes:
            self._scopes[given.scope] = await self._opened(given.scope)
        return self._scopes[given.scope]

    async def _opened(self, name: str) -> str:
        engine = self._call.engine
        try:
            return (await open_project(engine, name, create=not self._dry)).name
        except ScopeNotFound:
            if not self._dry:
                raise
        fresh = checked_scope_name(engine, name)
        self.making.add(fresh)
        return fresh


async def note_stored(context: Context, done: Iterable[tuple[Draft, Remembered]]) -> None:
    """Which conversations stored something. The turns of a log are none of it: they are the conversation."""
    stored: dict[tuple[str, bool], list[str]] = {}
    for draft, answer in done:
        told, memory = draft.provenance, answer.memory
        ends = SESSION_ONLY in draft.metadata  # whatever it is, somebody must see to its end
        if answer.outcome is WriteOutcome.DUPLICATE and memory and is_working(memory) and not ends:
            await keep_working_memory(context.engine, memory)
        if (
            answer.outcome is WriteOutcome.STORED
            and memory
            and told.conversation
            and (ends or told.position is None)
        ):
            ids = stored.setdefault((told.conversation, bool(answer.parts)), [])
            ids.extend(answer.parts or (memory.id,))
    for (conversation, document), ids in stored.items():
        # The parts of a long text don't bear the conversation's name.
        await note_activity(context.engine, conversation, ids, agent=context.agent, exactly=document)


def notice_of(answer: Remembered, *, unembedded: str) -> str:
    """What the caller should know of it; `unembedded` is why it has no meaning, if it has none."""
    if answer.outcome is WriteOutcome.NOISE:
        return SMALL_TALK_NOTICE
    if answer.outcome is not WriteOutcome.STORED:
        changes = ", ".join(answer.unapplied)
        return f"It was there already; amend changes its {changes}." if changes else ""
    told = [unembedded if not answer.embedded else ""]
    if answer.memory and answer.memory.kind in ATOMIC_KINDS and answer.parts:
        told.append(f"It is kept whole, in {len(answer.parts)} linked parts: {SHORTER_ADVICE}")
    elif answer.memory and is_long(answer.memory):
        told.append(LONG_NOTICE)
    return " ".join(filter(None, told))


def _tier(given: RememberInput) -> Tier:
    if given.session_only:
        return Tier.HOT
    return Tier.PERMANENT if given.permanent else Tier.WARM


MOST_AT_ONCE = 10_000
RESOLVES = "resolves"  # resolved_by, from the other side
NEW = "new"  # stands for an id that a dry run doesn't give


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

    outcome: Literal["stored", "duplicate", "noise", "failed", "would_store"] = Field(
        description="What became of it.", examples=["stored"]
    )
    created: bool = Field(description="When it was made, or how many were.", examples=[True])
    id: str | None = Field(default=None, description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    memory: MemoryView | None = Field(default=None, examples=[{}])
    parts: list[str] = []
    superseded: list[str] = Field(default=[], description="Those that it replaces.")
    links: list[LinkView] = Field(
        default=[], description="What it is linked with, or how many links there are.", examples=[[{}]]
    )
    linked: list[str] = Field(default=[], examples=[["01m7gv9k5d2w8r6t1p0n4b3xya"]])  # with whom
    redacted: dict[str, int] = Field(
        default={},
        description="Secrets and personal data that were replaced: their kinds, or how many texts had some.",
    )
    quarantined: bool = Field(
        default=False,
        description="Whether it reads like instructions to its reader: it is kept, neither listed nor found, and shown by its id alone.",
    )
    suspicious: list[str] = Field(default=[], description="Why it is doubted.")
    embedded: bool = Field(
        default=False,
        description="Whether it can be found by meaning already, or how many can.",
        examples=[True],
    )
    repeated: bool = Field(
        default=False, description="Whether, or how many, were there already under the same key."
    )  # the first answer to this idempotency key
    notice: str = Field(default="", description="What you should know about this answer; mostly empty.")
    error: str | None = None
    error_code: str | None = None

    @property
    def ties(self) -> list[dict[str, str]]:
        """With whom it is linked, and what it is to each: links lead from the new one, but from an error to its fix."""
        said = ({Relation.RESOLVED_BY.value: RESOLVES}.get(one.relation, one.relation) for one in self.links)
        return [{"id": far, "relation": told} for far, told in zip(self.linked, said, strict=True)]


class RememberManyInput(Input):
    """Several at once. Scope, conversation and dialect are for those that have none of their own."""

    items: list[Annotated[RememberInput, WrapValidator(_item)]] = Field(
        max_length=MOST_AT_ONCE,
        description="The memories, each with the fields of a single one.",
        examples=[[{"content": "Staging listens on port 5433."}, {"content": "Parcels leave on Mondays."}]],
    )
    scope: str | None = Field(
        default=None, description="The scope that is meant; without one, the server's own.", examples=["shop"]
    )
    create_scope: bool = Field(default=False, description="Make the scope where there is none of that name.")
    conversation: str | None = Field(default=None, description="The conversation that it belongs to.")
    dialect: str = Field(default="", description="The contract that it came by.")
    idempotency_key: str | None = None  # of all of them together: one that failed is sent with another
    dry_run: bool = Field(default=False, description="Only say what would be done.")


class RememberManyResult(Output):
    """One answer an item, in order."""

    results: list[RememberResult] = Field(description="What was found, the best first.")
    created: int = Field(description="When it was made, or how many were.", examples=[1])
    failed: int = Field(default=0, description="How many could not be done.", examples=[0])
    dry_run: bool = Field(default=False, description="Only say what would be done.")


async def _remember(context: Context, request: RememberInput) -> RememberResult:
    """Store one memory."""
    [result], [error] = await _several(context, [request])
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
    whole = Repeating(context, {0: (key, _said(request))} if key else {})
    async with whole:
        if 0 in whole.errors:
            raise whole.errors[0]
        if 0 in whole.known:
            results = await repeated(context, whole.known[0], RememberResult)
        else:
            results, errors = await _several(context, items)
            if not all(
                errors
            ):  # what is stored isn't stored again; where nothing was, all of it may be tried anew
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
    context: Context, items: list[RememberInput]
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
    async with Repeating(context, keyed, dry=dry) as repeating:
        errors |= repeating.errors
        for number, before in repeating.known.items():
            [done[number]] = await repeated(context, before, RememberResult)
        fresh = [number for number in range(len(items)) if number not in done and number not in errors]
        fresh = [number for number in fresh if number not in repeating.copies]
        answers = await _run_checked(
            context, {number: items[number] for number in fresh if number not in dry}
        )
        answers |= await _run_checked(
            context, {number: items[number] for number in fresh if number in dry}, dry=True
        )
        for number, answer in answers.items():
            done[number] = _answer(context, items[number], answer)
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
        done[number] = _answer(context, items[number], Remembered(WriteOutcome.FAILED, error=error))
    numbers = range(len(items))
    return [done[number] for number in numbers], [errors.get(number) for number in numbers]


async def _run_checked(
    context: Context, items: Mapping[int, RememberInput], *, dry: bool = False
) -> dict[int, Remembered]:
    if not items:
        return {}
    drafting = DraftBuilder(context, dry=dry)
    drafts: dict[int, Draft] = {}
    answers: dict[int, Remembered] = {}
    for number, item in items.items():
        try:
            if isinstance(item, Unreadable):
                raise item.error
            drafts[number] = await drafting.draft(item)
        except MindholdError as error:
            answers[number] = Remembered(WriteOutcome.FAILED, error=error)
    wanted = list(drafts.values())
    if dry:
        told = await preview(context.engine, wanted, making=drafting.making)
    else:
        told = await remember_many(context.engine, wanted)
        await note_stored(context, zip(wanted, told, strict=True))
    return answers | dict(zip(drafts, told, strict=True))


def _answer(context: Context, given: RememberInput, answer: Remembered) -> RememberResult:
    memory = answer.memory
    stored = answer.outcome is WriteOutcome.STORED
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
        memory=MemoryView.of(memory, context.engine.clock()) if memory else None,
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
        notice=notice_of(answer, unembedded=context.engine.vector_source.reason),
        error=str(answer.error) if answer.error else None,
        error_code=answer.error.code if answer.error else None,
    )
