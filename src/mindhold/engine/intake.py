"""The write path: limit, clean, redact, gate noise, hash, near-duplicate, scan, store in one step, link."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mindhold.engine.core import Engine
from mindhold.engine.draft import Draft, Outcome, Prepared, Remembered, prepare, unapplied
from mindhold.engine.evaluate import evaluate_job
from mindhold.engine.kinship import Kin, heir, kin_of, superseding
from mindhold.engine.links import connect
from mindhold.engine.relate import kin_by_meaning, relate_job
from mindhold.model.errors import Conflict, MemoryNotFound, MindholdError, Refused, ScopeNotFound
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Memory, Status
from mindhold.model.scope import Scope
from mindhold.ports.embedder import Matrix
from mindhold.ports.store import Change, Connect, Enqueue, Put

BATCH = 128
AHEAD = 2  # batches under way at once, so that the embedder never waits
RELATED_AT_ONCE = 8  # more drafts than this are related by a job, so that bulk runs at the embedder's speed


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A draft that will be written."""

    number: int
    draft: Draft
    parts: list[Prepared]


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
        if answer.outcome is Outcome.DUPLICATE and answer.memory is not None:
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
                self.answers[number] = Remembered(Outcome.FAILED, error=error)
                continue
            if parts:
                ready.append(_Admitted(number, draft, parts))
            else:
                self.answers[number] = Remembered(Outcome.NOISE)
        return await self._without_duplicates(ready)

    async def embed(self, texts: Sequence[str]) -> Matrix | None:
        """A row a text, if there is a model."""
        return await self._engine.meaning.embed(texts)

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
            [item for item in admitted if self.answers[item.number].outcome is Outcome.STORED]
        )

    async def repeated(self, draft: Draft, known: Memory) -> Remembered:
        """The answer for what is there already: its links are drawn, the rest of it stays as it is."""
        try:
            links = [await self._linked(known, end) for end in draft.linked_to if end != known.id]
        except MindholdError as error:
            return Remembered(Outcome.FAILED, error=error)
        return Remembered(
            Outcome.DUPLICATE, memory=known, links=tuple(links), unapplied=unapplied(draft, known)
        )

    async def _linked(self, known: Memory, end: str) -> Link:
        link, _ = await connect(self._engine, known.id, end, relation=Relation.RELATED, agent=known.agent)
        return link

    def _check_scope(self, draft: Draft) -> None:
        name = draft.scope or self._engine.policy.scope
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
        agent = draft.agent or self._engine.policy.agent
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
                self.answers[item.number] = Remembered(Outcome.DUPLICATE, memory=self._seen[key])
            else:
                self._seen[key] = first
                fresh.append(item)
        return fresh

    def _puts(self, admitted: Sequence[_Admitted], matrix: Matrix | None) -> dict[str, Put]:
        vectors = iter(matrix) if matrix is not None else None
        return {
            part.memory.id: _put(
                part, next(vectors) if vectors is not None else None, self._engine.meaning.model
            )
            for item in admitted
            for part in item.parts
        }

    async def _kin(self, admitted: Sequence[_Admitted], puts: dict[str, Put]) -> dict[str, Kin]:
        whole = [item.parts[0] for item in admitted if len(item.parts) == 1]
        active = [part for part in whole if part.memory.status is Status.ACTIVE]
        if self._relate_now:
            return await kin_by_meaning(self._engine, [puts[part.memory.id] for part in active])
        kin: dict[str, Kin] = {}
        groups: dict[tuple[str, str], list[Prepared]] = defaultdict(list)
        for part in active:
            groups[part.memory.scope, part.memory.agent].append(part)
        for (scope, agent), parts in groups.items():
            same = await self._engine.store.by_gist(
                [p.gist for p in parts if p.gist], scope=scope, agent=agent
            )
            for part in parts:
                others = [(other, 1.0) for other in same.get(part.gist, ())]
                if others:
                    kin[part.memory.id] = Kin(
                        superseded=kin_of(part.memory, others, self._engine.policy).superseded
                    )
        return kin

    def _changes(self, item: _Admitted, puts: dict[str, Put], kin: dict[str, Kin]) -> list[Change]:
        now = self._engine.clock()
        first = item.parts[0].memory
        changes: list[Change] = []
        for part in item.parts:
            put = _with_heirloom(puts[part.memory.id], kin)
            changes.append(put)
            superseded = kin.get(part.memory.id, Kin()).superseded
            changes.extend(superseding(put.memory, superseded, now=put.memory.updated))
        changes.extend(Connect(link) for link in self._links(item, kin))
        changes.extend(
            Connect(Link(part.memory.id, first.id, Relation.PART_OF, now, automatic=True))
            for part in item.parts[1:]
        )
        return changes

    def _links(self, item: _Admitted, kin: dict[str, Kin]) -> list[Link]:
        now = self._engine.clock()
        first = item.parts[0].memory
        chosen = [Link(first.id, target, Relation.RELATED, now) for target in item.draft.linked_to]
        automatic = [
            link
            for link in kin.get(first.id, Kin()).links(first.id, now=now)
            if link.relation is not Relation.RELATED or link.target not in item.draft.linked_to
        ]
        return chosen + automatic

    async def _relate_later(self, stored: Sequence[_Admitted]) -> None:
        ids = [part.memory.id for item in stored for part in item.parts]
        if ids and not self._relate_now and self._engine.meaning.model is not None:
            await self._engine.store.apply([Enqueue(relate_job(self._engine, ids))])

    async def _write_alone(self, item: _Admitted, puts: dict[str, Put], kin: dict[str, Kin]) -> None:
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
                Remembered(Outcome.DUPLICATE, memory=existing)
                if existing
                else Remembered(Outcome.FAILED, error=error)
            )
        except MemoryNotFound as error:
            if first.id not in kin:
                self.answers[item.number] = Remembered(Outcome.FAILED, error=error)
                return
            del kin[first.id]
            await self._write_alone(item, puts, kin)

    def _stored(self, item: _Admitted, puts: dict[str, Put], kin: dict[str, Kin]) -> Remembered:
        first = item.parts[0]
        put = _with_heirloom(puts[first.memory.id], kin)
        return Remembered(
            Outcome.STORED,
            memory=put.memory,
            parts=tuple(part.memory.id for part in item.parts) if len(item.parts) > 1 else (),
            superseded=tuple(old.id for old in kin.get(first.memory.id, Kin()).superseded),
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


def _with_heirloom(put: Put, kin: dict[str, Kin]) -> Put:
    own = kin.get(put.memory.id, Kin())
    return replace(put, memory=heir(put.memory, own.superseded)) if own.superseded else put


def _put(part: Prepared, vector: Matrix | None, model: str | None) -> Put:
    memory = part.memory if vector is None else replace(part.memory, embedded_by=model)
    return Put(memory, part.lexemes, labels=part.labels, gist=part.gist, vector=vector)
