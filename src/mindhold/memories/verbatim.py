"""Stores text exactly as it was said: it is not merged with other memories and replaces none."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from mindhold.engine import Engine
from mindhold.memories.draft import PART_OF, Draft, PreparedDraft, content_hash, prepare
from mindhold.memories.embedding import EMBED
from mindhold.model.errors import Conflict, KeyReused, MindholdError
from mindhold.model.job import Job
from mindhold.model.memory import PART_KEY, Link, Memory, Relation
from mindhold.ports.embedder import Matrix
from mindhold.ports.store import Change, Connect, Enqueue, Put

PARTS = "parts"  # metadata of the first part of a long text: how many there are
GAP = "gap"  # and of a later one: what stood between it and the one before, unless that was a PARAGRAPH
PARAGRAPH = "\n\n"
TOLD = "told"  # and of what has a name: a fingerprint of all that was told with it
BATCH = 128
AHEAD = 2  # batches under way at once, so that the embedder never waits
BREATH = 4  # drafts that are prepared before others have their turn
FEW = 16  # of a batch while questions are asked, and then a pause as long: those come first
LATELY = 1.0  # seconds
LATER = timedelta(seconds=30)  # when vectors are made that were not wanted at once: then there is time

Placing = Callable[[Sequence[Memory]], Awaitable[list[int]]]  # positions of memories in their conversations
Along = Callable[[Sequence[Memory]], list[Change]]  # what is written in the same step as these memories


def _nothing(_: Sequence[Memory]) -> list[Change]:
    return []


@dataclass(frozen=True, slots=True)
class VerbatimResult:
    """What was written; `memory` is the first part of a long text."""

    memory: Memory
    parts: int
    embedded: bool
    suspicious: tuple[str, ...]
    repeated: bool = False  # it was there already
    redacted: tuple[str, ...] = ()  # kinds of what was replaced in it


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A draft that will be written."""

    number: int
    parts: list[PreparedDraft]
    digest: str  # that the first part is known by
    told: str = ""  # the fingerprint of what has a name
    position: int | None = None  # None: where the draft has it

    @property
    def first(self) -> Memory:
        return self.parts[0].memory


async def keep_verbatim(engine: Engine, draft: Draft, *, along: Along = _nothing) -> VerbatimResult:
    """Store a draft, whatever else says the same.

    Raises InvalidInput, ContentTooLarge, ScopeNotFound and the store's errors.
    """
    [kept] = await keep_many(engine, [draft], along=along)
    if isinstance(kept, MindholdError):
        raise kept
    return kept


async def keep_many(
    engine: Engine,
    drafts: Sequence[Draft],
    *,
    names: Sequence[str] = (),
    placing: Placing | None = None,
    embed: bool = True,
    along: Along = _nothing,
) -> list[VerbatimResult | MindholdError]:
    """One answer a draft, in order; one that can't be stored has its error. What isn't embedded now is so by a job.

    Drafts that have `names`, one each, are stored once under theirs: of one that is there already nothing is written,
    and another text under the same name is an error. `placing` is asked for the positions of those that are new.
    While some batches are being embedded or written, the next one is prepared; while questions are asked there is room for
    those instead. Raises ScopeNotFound and the store's errors; what was written before one stays.
    """
    keeping = _Keeping(engine, drafts, names, placing, embed=embed, along=along)
    under_way: deque[asyncio.Task[None]] = deque()
    try:
        start = 0
        while start < len(drafts):
            begun, yields = time.monotonic(), engine.vector_source.asked_within(LATELY)
            end = min(start + (FEW if yields else BATCH), len(drafts))
            admitted = await keeping.admit(range(start, end))
            before = under_way[-1] if under_way else None
            under_way.append(asyncio.create_task(keeping.store(admitted, before)))
            await asyncio.sleep(0)  # the embedding begins before this thread turns to other work
            while len(under_way) > (0 if yields else AHEAD):
                await under_way.popleft()
            if yields and len(drafts) > FEW:
                await asyncio.sleep(time.monotonic() - begun)
            start = end
        while under_way:
            await under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    return [keeping.answers[number] for number in range(len(drafts))]


class _Keeping:
    """One call of keep_many()."""

    def __init__(
        self,
        engine: Engine,
        drafts: Sequence[Draft],
        names: Sequence[str],
        placing: Placing | None,
        *,
        embed: bool,
        along: Along,
    ) -> None:
        self.answers: dict[int, VerbatimResult | MindholdError] = {}
        self._engine = engine
        self._drafts = drafts
        self._names = names
        self._placing = placing
        self._embed = embed
        self._along = along

    async def admit(self, numbers: Iterable[int]) -> list[_Admitted]:
        """Prepare; answer errors and what is there already at once; the rest will be embedded and written."""
        ready: list[_Admitted] = []
        for number in numbers:
            if number % BREATH == BREATH - 1:
                await asyncio.sleep(0)
            try:
                parts = prepare(self._engine, self._drafts[number])
            except MindholdError as error:
                self.answers[number] = error
                continue
            name = self._names[number] if self._names else parts[0].memory.id
            told = _fingerprint(self._drafts[number], parts) if self._names else ""
            ready.append(_Admitted(number, parts, _digest(name), told))
        fresh = await self._unknown(ready) if self._names else ready
        if self._placing is None:
            return fresh
        positions = await self._placing([item.first for item in fresh])
        return [replace(item, position=place) for item, place in zip(fresh, positions, strict=True)]

    async def store(self, admitted: Sequence[_Admitted], before: asyncio.Task[None] | None) -> None:
        """Embed, and write when those before are written."""
        texts = [part.memory.content for item in admitted for part in item.parts]
        matrix = await self._engine.vector_source.embed(texts) if texts and self._embed else None
        if before is not None:
            await before
        if admitted:
            await self._write(admitted, matrix)

    async def _write(self, admitted: Sequence[_Admitted], matrix: Matrix | None) -> None:
        """Text, index, vectors and links in one transaction; drafts one by one if another process was faster."""
        vectors = iter(matrix) if matrix is not None else None
        model = None if matrix is None else self._engine.vector_source.model
        puts: list[list[Put]] = []
        for item in admitted:
            memories = _standing_alone(item, model)
            puts.append(
                [
                    Put(memory, part.lexemes, part.labels, vector=next(vectors) if vectors else None)
                    for memory, part in zip(memories, item.parts, strict=True)
                ]
            )
        links = [link for item in admitted for link in _links(item)]
        later = [] if matrix is not None else await self._embedding_job()
        later += self._along([own[0].memory for own in puts])
        try:
            await self._engine.store.apply([*(put for some in puts for put in some), *links, *later])
        except Conflict:
            for item, own in zip(admitted, puts, strict=True):
                await self._write_alone(item, [*own, *_links(item), *later])
        for item, own in zip(admitted, puts, strict=True):
            kept = VerbatimResult(
                own[0].memory, len(own), matrix is not None, _reasons(item), redacted=_replaced(item)
            )
            self.answers.setdefault(item.number, kept)

    async def _write_alone(self, item: _Admitted, changes: Sequence[Change]) -> None:
        try:
            await self._engine.store.apply(changes)
        except Conflict as error:
            if await self._unknown([item]):
                self.answers[item.number] = error

    async def _unknown(self, ready: Sequence[_Admitted]) -> list[_Admitted]:
        """Those that aren't there under their names; the others are answered."""
        digests: dict[tuple[str, str], list[str]] = defaultdict(list)
        for item in ready:
            digests[item.first.scope, item.first.agent].append(item.digest)
        known: dict[tuple[str, str, str], Memory] = {}
        for (scope, agent), wanted in digests.items():
            found = await self._engine.store.by_hash(wanted, scope=scope, agent=agent)
            known |= {(scope, agent, digest): memory for digest, memory in found.items()}
        fresh: list[_Admitted] = []
        for item in ready:
            there = known.get((item.first.scope, item.first.agent, item.digest))
            if there is None:
                fresh.append(item)
            else:
                self.answers[item.number] = _repeated(item, there)
        return fresh

    async def _embedding_job(self) -> list[Change]:
        """At most one such job waits at a time."""
        meaning = self._engine.vector_source
        if meaning.model is None or await meaning.refusal() is not None:
            return []
        now = self._engine.clock()
        due = now if self._embed else now + LATER
        return [Enqueue(Job(id=self._engine.new_id(), name=EMBED, created=now, due=due, key=EMBED))]


def _standing_alone(item: _Admitted, model: str | None) -> Iterator[Memory]:
    """Hashed by name or by id, so that the same words may be there twice; no gist goes with it, so that bulk finds no twin."""
    for number, part in enumerate(item.parts):
        memory = part.memory
        metadata, provenance = memory.metadata, memory.provenance
        if len(item.parts) > 1:
            metadata = {**metadata, **(_part(number, part.gap) if number else {PARTS: len(item.parts)})}
        if item.told and not number:
            metadata = {**metadata, TOLD: item.told}
        if item.position is not None:
            provenance = replace(provenance, position=item.position)
        yield replace(
            memory,
            content_hash=_digest(memory.id) if number else item.digest,
            metadata=metadata,
            provenance=provenance,
            embedded_by=model,
        )


def _part(number: int, gap: str) -> Mapping[str, Any]:
    """Enough to give the whole text back as it was."""
    return {PART_KEY: number} if gap == PARAGRAPH else {PART_KEY: number, GAP: gap}


def _digest(name: str) -> str:
    return PART_OF + content_hash(name)


def _repeated(item: _Admitted, there: Memory) -> VerbatimResult | MindholdError:
    """What is there, if all that was told with it is the same."""
    if item.told != there.metadata.get(TOLD):
        return KeyReused(
            "Under this idempotency key something else was stored in this place.",
            advice="Use a new key for new content; repeat an import unchanged to go on with it.",
        )
    embedded = there.embedded_by is not None
    return VerbatimResult(
        there, len(item.parts), embedded, _reasons(item), repeated=True, redacted=_replaced(item)
    )


def _fingerprint(draft: Draft, parts: Sequence[PreparedDraft]) -> str:
    """Of all that is stored of a draft, as it is stored: nothing that was taken out can be guessed from it."""
    first = parts[0].memory
    stored = (
        [(part.gap, part.memory.content) for part in parts],
        (first.kind, first.topic, first.tags, first.keywords, first.importance, first.metadata),
        (first.provenance.dialect, first.provenance.conversation, first.provenance.source),
        None if draft.occurred is None else first.occurred.isoformat(),  # else it is now
    )
    written = json.dumps(stored, sort_keys=True, default=str)
    return hashlib.blake2b(written.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _links(item: _Admitted) -> list[Change]:
    first = item.first
    return [
        Connect(Link(part.memory.id, first.id, Relation.PART_OF, first.created, automatic=True))
        for part in item.parts[1:]
    ]


def _reasons(item: _Admitted) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for part in item.parts for reason in part.suspicious))


def _replaced(item: _Admitted) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.kind for part in item.parts for finding in part.redacted))
