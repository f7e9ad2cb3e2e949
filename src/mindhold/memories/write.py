"""The write path: every memory is stored by `write_many`, whoever asks for it.

    RememberInput                  remember · remember_many · save_messages · capture · reflect · import of messages
      → check scope and links      _Pipeline.admit, a batch at a time
      → limit → scan for injection → clean → redact → noise → hash → split → index        prepare.py, pure
      → duplicate?                 the result names the memory that is stored already
      → embed                      _Pipeline.store, while the next batch is admitted
      → related memories           superseded, resolved and linked ones (duplicates.py)
      → text, index, vector, links and queued jobs in one transaction; one by one after a conflict
      → WriteResult

There are two policies. By default a text merges with what is stored: a duplicate is not stored again, and a newer
statement supersedes an older one. With `Verbatim`, for messages, each text is stored as it was said, beside its like.
Records that are written together with other changes (summaries, the profile, amendments) are made by the same `prepare`.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import Field

from mindhold.engine import Engine
from mindhold.memories.duplicates import (
    RelatedMemories,
    find_related,
    find_related_by_meaning,
    inherit_from,
    relate_job,
    superseding,
)
from mindhold.memories.embedding import EMBED
from mindhold.memories.evaluation import evaluate_job
from mindhold.memories.links import connect
from mindhold.memories.prepare import (
    FINGERPRINT,
    LARGEST_NUMBER,
    PreparedRecord,
    as_said,
    fingerprint_of,
    name_hash,
    prepare,
    unapplied,
)
from mindhold.model.errors import Conflict, KeyReused, MemoryNotFound, MindholdError, Refused, ScopeNotFound
from mindhold.model.job import Job
from mindhold.model.memory import Kind, Link, Memory, Relation, Status
from mindhold.model.scope import Scope
from mindhold.operations import Input
from mindhold.ports.embedder import Matrix
from mindhold.ports.store import Change, Connect, Enqueue, Put
from mindhold.text.redaction import RedactionFinding

BATCH = 128
AHEAD = 2  # batches that run at once, so that the embedder never waits
BREATH = 4  # texts that are prepared before other tasks get their turn
FEW = 16  # messages in a batch while questions are asked, followed by a pause as long: questions come first
LATELY = 1.0  # seconds
LATER = timedelta(seconds=30)  # delay of the job that makes vectors which weren't needed at once
RELATED_AT_ONCE = (
    8  # with more requests than this, a job relates them, so that bulk writes run at the embedder's speed
)


class RememberInput(Input):
    """What to remember. `session_only` is working memory: it ends with its conversation, or within a day without one.

    The same `idempotency_key` again within a day is answered as before, and nothing is stored; a `dry_run` stores nothing
    at all and tells what it would do.
    """

    content: str = Field(description="The text.", examples=["Staging listens on port 5433."])
    kind: Kind = Field(default=Kind.NOTE, description="Its kind.", examples=["fact"])
    scope: str | None = Field(
        default=None, description="The scope; the server's default scope if absent.", examples=["shop"]
    )
    create_scope: bool = Field(
        default=False, description="Create the scope if it does not exist."
    )  # make the scope when there is none of that name
    topic: str = Field(default="", description="Topic, in a word or two.", examples=["staging"])
    tags: list[str] = Field(default=[], description="Tags.")
    keywords: list[str] = Field(default=[], description="Keywords for search.")
    importance: float | None = Field(default=None, ge=0, le=1, description="Importance, from 0 to 1.")
    confidence: float = Field(default=1.0, ge=0, le=1, description="Confidence, from 0 to 1.")
    occurred: datetime | None = Field(default=None, description="When it happened.")
    anchor: bool = Field(default=False, description="Whether it is an anchor, which never fades.")
    permanent: bool = Field(default=False, description="Whether it is kept permanently.")
    source: str = Field(default="", description="Its source.")
    dialect: str = Field(default="", description="The contract through which it was stored.")
    conversation: str | None = Field(
        default=None, description="The conversation that it belongs to."
    )  # the call's own when not given
    session_only: bool = Field(default=False, description="Keep it only until the conversation ends.")
    position: int | None = Field(
        default=None, ge=0, le=LARGEST_NUMBER, description="Position in the conversation."
    )
    file: str | None = Field(default=None, description="Its file.")
    line: int | None = Field(
        default=None,
        ge=0,
        le=LARGEST_NUMBER,
        description="Line number.",
    )
    metadata: dict[str, Any] = Field(default={}, description="Free metadata, stored unchanged.")
    linked_to: list[str] = Field(default=[], description="Ids of memories to link it to.")
    keep_noise: bool = Field(default=False, description="Store it even if it looks like small talk.")
    idempotency_key: str | None = Field(
        default=None, description="An idempotency key: the same call again gets the first answer."
    )
    dry_run: bool = Field(default=False, description="Only report what would be done.")


class WriteOutcome(StrEnum):
    """What was done with a request."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    NOISE = "noise"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What was done with one request. `memory` now holds the text; of a long text it is the first part."""

    outcome: WriteOutcome
    memory: Memory | None = None
    parts: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    redacted: tuple[RedactionFinding, ...] = ()
    suspicious: tuple[str, ...] = ()
    embedded: bool = False
    unapplied: tuple[str, ...] = ()  # fields of the request that differ from the stored duplicate
    proposed: bool = False  # by a dry run: the memory isn't stored
    error: MindholdError | None = None

    def stored_memory(self) -> Memory:
        """Return the memory that holds the text; not for noise. Raises the error of a failed request."""
        if self.error is not None:
            raise self.error
        assert self.memory is not None
        return self.memory


@dataclass(frozen=True, slots=True)
class Verbatim:
    """The policy for messages: each text is stored as it was said; none is merged, superseded or related.

    Texts with `names`, one each, are stored once per name: the same text again is a duplicate, another text under the same
    name is an error. `positions` returns the positions of new texts in their conversations. Without `embed` a job makes the
    vectors later. `along` returns changes that are written in the same transaction.
    """

    names: Sequence[str] = ()
    positions: Callable[[Sequence[Memory]], Awaitable[list[int]]] | None = None
    embed: bool = True
    along: Callable[[Sequence[Memory]], list[Change]] | None = None


async def write(
    engine: Engine, request: RememberInput, *, agent: str | None = None, verbatim: Verbatim | None = None
) -> WriteResult:
    """Store one request. Raises InvalidInput, ContentTooLarge, ScopeNotFound, MemoryNotFound and the store's errors."""
    [result] = await write_many(engine, [request], agent=agent, verbatim=verbatim)
    if result.error is not None:
        raise result.error
    return result


async def write_many(
    engine: Engine,
    requests: Sequence[RememberInput],
    *,
    agent: str | None = None,
    verbatim: Verbatim | None = None,
    dry_run: bool = False,
    new_scopes: Collection[str] = (),
) -> list[WriteResult]:
    """Store each request; return one result each, in order. A request that can't be stored has its error in its result.

    Requests have to be resolved: ids are complete, metadata may have reserved names. The next batch is prepared while others
    are embedded and written; messages make room for questions that are asked meanwhile. A dry run writes nothing, and treats
    `new_scopes` as existing. Raises the store's errors; what was written before stays.
    """
    pipeline = _Pipeline(engine, requests, agent or engine.settings.agent, verbatim, dry_run=dry_run)
    if verbatim is None:  # callers that log messages have opened the project for writing
        pipeline.scopes = {name: Scope(name, created=engine.clock()) for name in new_scopes}
        pipeline.scopes |= {scope.name: scope for scope in await engine.store.scopes()}
    under_way: deque[asyncio.Task[None]] = deque()
    try:
        start = 0
        while start < len(requests):
            began = time.monotonic()
            yields = verbatim is not None and engine.vector_source.asked_within(LATELY)
            end = min(start + (FEW if yields else BATCH), len(requests))
            items = await pipeline.admit(range(start, end))
            before = under_way[-1] if under_way else None
            under_way.append(asyncio.create_task(pipeline.store(items, before)))
            await asyncio.sleep(0)  # so that the embedding starts before this thread turns to other work
            while len(under_way) > (0 if yields else AHEAD):
                await under_way.popleft()
            if yields and len(requests) > FEW:
                await asyncio.sleep(time.monotonic() - began)
            start = end
        while under_way:
            await under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    return [await pipeline.finish(number) for number in range(len(requests))]


@dataclass(slots=True)
class _Item:
    """A request that will be written."""

    number: int
    request: RememberInput
    parts: list[PreparedRecord]
    digest: str  # the hash that identifies the first part
    fingerprint: str = ""  # of a named message
    position: int | None = None  # None: the position of the request
    puts: list[Put] = field(default_factory=list)
    related: RelatedMemories = field(default_factory=RelatedMemories)

    @property
    def first(self) -> Memory:
        return self.parts[0].memory

    def records(self) -> list[Put]:
        """Return the records to write; a memory that supersedes others inherits their importance and uses."""
        if not self.related.superseded:
            return self.puts
        [put] = self.puts  # parts of a long text supersede nothing
        return [replace(put, memory=inherit_from(put.memory, self.related.superseded))]

    def links(self) -> list[Link]:
        """Return the links that the request names, and those to related memories."""
        first, targets = self.puts[0].memory, self.request.linked_to
        automatic = [
            link
            for link in self.related.links(first.id, now=first.created)
            if link.relation is not Relation.RELATED or link.target not in targets
        ]
        return [Link(first.id, target, Relation.RELATED, first.created) for target in targets] + automatic

    def changes(self) -> list[Change]:
        """Return all changes that store it, except the jobs of its batch."""
        records = self.records()
        first = records[0].memory
        return [
            *records,
            *superseding(first, self.related.superseded, now=first.updated),
            *map(Connect, self.links()),
            *(
                Connect(Link(part.memory.id, first.id, Relation.PART_OF, first.created, automatic=True))
                for part in records[1:]
            ),
        ]

    def result(self, *, proposed: bool) -> WriteResult:
        """Return the result after it was written."""
        put = self.records()[0]
        return WriteResult(
            WriteOutcome.STORED,
            memory=put.memory,
            parts=tuple(part.memory.id for part in self.puts) if len(self.puts) > 1 else (),
            superseded=tuple(memory.id for memory in self.related.superseded),
            links=tuple(self.links()),
            redacted=self.parts[0].redacted,
            suspicious=tuple(dict.fromkeys(reason for part in self.parts for reason in part.suspicious)),
            embedded=put.vector is not None,
            proposed=proposed,
        )


class _Pipeline:
    """One call of write_many()."""

    def __init__(
        self,
        engine: Engine,
        requests: Sequence[RememberInput],
        agent: str,
        verbatim: Verbatim | None,
        *,
        dry_run: bool,
    ) -> None:
        self.scopes: dict[str, Scope] | None = None  # None: the scopes are known to exist
        self._engine = engine
        self._requests = requests
        self._agent = agent
        self._verbatim = verbatim
        self._dry_run = dry_run
        self._results: dict[int, WriteResult] = {}
        self._known: dict[tuple[str, str], Memory] = {}  # by scope and hash; includes what this call stores
        self._new: set[str] = set()  # ids of this call's memories
        self._relates_now = verbatim is None and (dry_run or len(requests) <= RELATED_AT_ONCE)

    async def admit(self, numbers: Iterable[int]) -> list[_Item]:
        """Check and prepare requests; return those to store. Noise, duplicates and errors get their results at once."""
        items: list[_Item] = []
        for number in numbers:
            if number % BREATH == BREATH - 1:
                await asyncio.sleep(0)
            request = self._requests[number]
            try:
                self._check_scope(request)
                parts = prepare(self._engine, request, agent=self._agent)
                await self._check_ends(request)
            except MindholdError as error:
                self._results[number] = WriteResult(WriteOutcome.FAILED, error=error)
                continue
            if parts:
                items.append(self._item(number, request, parts))
            else:
                self._results[number] = WriteResult(WriteOutcome.NOISE)
        if self._verbatim is None or self._verbatim.names:
            items = await self._without_duplicates(items)
        if self._verbatim is not None and self._verbatim.positions is not None:
            positions = await self._verbatim.positions([item.first for item in items])
            for item, position in zip(items, positions, strict=True):
                item.position = position
        return items

    async def store(self, items: Sequence[_Item], before: asyncio.Task[None] | None) -> None:
        """Embed the batch, then write it in one transaction after the previous batch; one by one after a conflict."""
        texts = [part.memory.content for item in items for part in item.parts]
        embeds = texts and (self._verbatim is None or self._verbatim.embed)
        matrix = await self._engine.vector_source.embed(texts) if embeds else None
        if before is not None:
            await before
        if not items:
            return
        self._make_puts(items, matrix)
        if self._verbatim is None:
            await self._relate(items)
        if not self._dry_run:
            jobs = await self._jobs(items, embedded=matrix is not None)
            try:
                await self._engine.store.apply([change for item in items for change in item.changes()] + jobs)
            except (Conflict, MemoryNotFound):
                for item in items:
                    await self._store_alone(item, embedded=matrix is not None)
        for item in items:
            self._results.setdefault(item.number, item.result(proposed=self._dry_run))
        await self._relate_later(items)

    async def finish(self, number: int) -> WriteResult:
        """Return the result. A duplicate gets the links that its request names; otherwise it stays as it is."""
        result, request = self._results[number], self._requests[number]
        if (
            result.outcome is not WriteOutcome.DUPLICATE
            or result.memory is None
            or self._verbatim is not None
        ):
            return result
        memory, links = result.memory, []
        try:
            for target in request.linked_to:
                if target != memory.id and self._dry_run:
                    links.append(Link(memory.id, target, Relation.RELATED, self._engine.clock()))
                elif target != memory.id:
                    link, _ = await connect(
                        self._engine, memory.id, target, relation=Relation.RELATED, agent=memory.agent
                    )
                    links.append(link)
        except MindholdError as error:
            return WriteResult(WriteOutcome.FAILED, error=error)
        proposed = self._dry_run and memory.id in self._new
        return replace(result, links=tuple(links), unapplied=unapplied(request, memory), proposed=proposed)

    def _check_scope(self, request: RememberInput) -> None:
        if self.scopes is None:
            return
        name = request.scope or self._engine.settings.scope
        if name not in self.scopes:
            raise ScopeNotFound(name)
        if not self.scopes[name].active:
            raise Refused(
                f"The scope {name!r} is deactivated.",
                advice=f"`mindhold scopes activate {name}` opens it again.",
            )

    async def _check_ends(self, request: RememberInput) -> None:
        if not request.linked_to:
            return
        ends = await self._engine.store.get_many(request.linked_to, viewer=self._agent)
        for memory_id in request.linked_to:
            if memory_id not in ends or ends[memory_id].status is Status.FORGOTTEN:
                raise MemoryNotFound(memory_id)

    def _item(self, number: int, request: RememberInput, parts: list[PreparedRecord]) -> _Item:
        if self._verbatim is None:
            return _Item(number, request, parts, parts[0].memory.content_hash)
        if not self._verbatim.names:
            return _Item(number, request, parts, name_hash(parts[0].memory.id))
        return _Item(
            number, request, parts, name_hash(self._verbatim.names[number]), fingerprint_of(request, parts)
        )

    async def _without_duplicates(self, items: Sequence[_Item]) -> list[_Item]:
        await self._look_up(items)
        fresh: list[_Item] = []
        for item in items:
            duplicate = self._known.get((item.first.scope, item.digest))
            if duplicate is None:
                self._known[item.first.scope, item.digest] = item.first
                self._new.add(item.first.id)
                fresh.append(item)
            else:
                self._results[item.number] = _duplicate(item, duplicate)
        return fresh

    async def _look_up(self, items: Iterable[_Item]) -> None:
        """Find out which items are stored already."""
        digests: dict[str, list[str]] = defaultdict(list)
        for item in items:
            digests[item.first.scope].append(item.digest)
        for scope, hashes in digests.items():
            stored = await self._engine.store.by_hash(hashes, scope=scope, agent=self._agent)
            self._known.update({(scope, digest): memory for digest, memory in stored.items()})

    def _make_puts(self, items: Iterable[_Item], matrix: Matrix | None) -> None:
        model = self._engine.vector_source.model
        vectors: Iterator[Matrix | None] = iter(matrix if matrix is not None else ())
        for item in items:
            if self._verbatim is None:
                item.puts = [part.put(next(vectors, None), model) for part in item.parts]
            else:
                changes = as_said(item.parts, item.digest, item.fingerprint, item.position)
                item.puts = [
                    replace(part.put(next(vectors, None), model, **fields), gist="")
                    for part, fields in zip(item.parts, changes, strict=True)
                ]

    async def _relate(self, items: Sequence[_Item]) -> None:
        """Find what each memory does to stored ones. In bulk only those with the same gist are superseded now; a job does
        the rest.
        """
        whole = [item for item in items if len(item.parts) == 1 and item.first.status is Status.ACTIVE]
        if self._relates_now:
            related = await find_related_by_meaning(self._engine, [item.puts[0] for item in whole])
            for item in whole:
                item.related = related.get(item.first.id, RelatedMemories())
            return
        by_scope: dict[str, list[_Item]] = defaultdict(list)
        for item in whole:
            by_scope[item.first.scope].append(item)
        for scope, members in by_scope.items():
            gists = [item.parts[0].gist for item in members if item.parts[0].gist]
            same = await self._engine.store.by_gist(gists, scope=scope, agent=self._agent)
            for item in members:
                others = [(other, 1.0) for other in same.get(item.parts[0].gist, ())]
                if others:
                    related_now = find_related(item.first, others, self._engine.settings.intake)
                    item.related = RelatedMemories(superseded=related_now.superseded)

    async def _relate_later(self, items: Sequence[_Item]) -> None:
        if self._relates_now or self._verbatim is not None or self._engine.vector_source.model is None:
            return
        stored = [item for item in items if self._results[item.number].outcome is WriteOutcome.STORED]
        ids = [part.memory.id for item in stored for part in item.parts]
        if ids:
            await self._engine.store.apply([Enqueue(relate_job(self._engine, ids))])

    async def _jobs(self, items: Sequence[_Item], *, embedded: bool) -> list[Change]:
        """Return the jobs and the additional changes of the same transaction."""
        if self._verbatim is None:
            return [Enqueue(evaluate_job(self._engine))]
        along = self._verbatim.along
        changes = along([item.puts[0].memory for item in items]) if along is not None else []
        meaning = self._engine.vector_source
        if embedded or meaning.model is None or await meaning.refusal() is not None:
            return changes
        now = self._engine.clock()
        due = now if self._verbatim.embed else now + LATER
        # Because of its key at most one such job waits at a time.
        return [*changes, Enqueue(Job(id=self._engine.new_id(), name=EMBED, created=now, due=due, key=EMBED))]

    async def _store_alone(self, item: _Item, *, embedded: bool) -> None:
        """Store one item after a conflict: another process stored the same, or removed a related memory."""
        while True:
            try:
                jobs = await self._jobs([item], embedded=embedded)
                await self._engine.store.apply([*item.changes(), *jobs])
                return
            except Conflict as error:
                self._known.pop((item.first.scope, item.digest), None)
                await self._look_up([item])
                duplicate = self._known.get((item.first.scope, item.digest))
                failed = WriteResult(WriteOutcome.FAILED, error=error)
                self._results[item.number] = failed if duplicate is None else _duplicate(item, duplicate)
                return
            except MemoryNotFound as error:
                if item.related == RelatedMemories():
                    self._results[item.number] = WriteResult(WriteOutcome.FAILED, error=error)
                    return
                item.related = RelatedMemories()


def _duplicate(item: _Item, known: Memory) -> WriteResult:
    """Return the stored memory as a duplicate; an error if another text was stored under the same name."""
    if item.fingerprint and item.fingerprint != known.metadata.get(FINGERPRINT):
        error = KeyReused(
            "Under this idempotency key something else was stored in this place.",
            advice="Use a new key for new content; repeat an import unchanged to go on with it.",
        )
        return WriteResult(WriteOutcome.FAILED, error=error)
    return WriteResult(WriteOutcome.DUPLICATE, memory=known)
