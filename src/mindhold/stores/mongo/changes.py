"""The write path: applies changes in order, one operation for each record; waiting changes are written together."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pymongo.errors import BulkWriteError

from mindhold.model.errors import MemoryNotFound, ScopeNotFound, StoreBusy, StoreError
from mindhold.model.memory import Link, Status, Version
from mindhold.ports.store import (
    Change,
    Connect,
    Disconnect,
    Enqueue,
    Inherit,
    Keep,
    Mark,
    Put,
    Rate,
    Revise,
    Tend,
)
from mindhold.stores.base import amended_meanwhile, changed_meanwhile, check_vector, job_exists, same_content
from mindhold.stores.columns import number, to_micros, to_optional_micros
from mindhold.stores.mongo.connection import PATIENT, MongoDatabase
from mindhold.stores.mongo.rows import (
    COLUMNS,
    COUNTED,
    LIVE,
    Document,
    metadata_of,
    references,
    revised,
    row_number,
    whole,
)
from mindhold.stores.mongo.transactions import JOBS, LINKS, MEMORIES, METADATA, VERSIONS, MongoStep

# The fields that decisions about changes depend on.
_KNOWN = dict.fromkeys(
    "row scope agent status live content_hash updated last_used stirred usefulness review importance merged_from "
    "metadata".split(),
    1,
)
_SAMENESS = frozenset({"content_hash", "scope", "agent", "live"})  # together unique among live records


async def apply(step: MongoStep, changes: Sequence[Change]) -> None:
    """Apply changes within the step."""
    writing = _Writing(step)
    await writing.look(changes)
    for change in changes:
        writing.do(change)
    await writing.check()
    writing.finish()


def link_key(origin: str, target: str, relation: str) -> str:
    return json.dumps([origin, target, relation], ensure_ascii=False)


class _Record:
    """A record while changes are applied: its current fields, and which of them are new."""

    def __init__(self, known: Document | None) -> None:
        self.known: Document = dict(known or {})
        self.fresh = known is None
        # Its unique key before the changes.
        self.held = _sameness(known) if known is not None and known["live"] else None
        self.exists = known is not None
        self.changed: Document = {}
        self.more_uses = 0
        # The changes apply only if nothing happened to the record after this time.
        self.since: int | None = None

    @property
    def renamed(self) -> bool:
        """Whether its unique key may have changed."""
        return not self.changed.keys().isdisjoint(_SAMENESS)

    def set(self, fields: Document) -> None:
        self.known |= fields
        self.changed |= fields
        self.since = None

    def tend(self, fields: Document, since: int | None) -> None:
        """Set fields unless something happened since. The server checks again, because uses are counted at any moment."""
        moments = [self.known.get(name) for name in ("updated", "last_used", "stirred")]
        if since is not None and any(moment is not None and moment > since for moment in moments):
            return
        unconditional = bool(self.changed) and self.since is None
        earlier = self.since
        self.set(fields)
        if since is not None and not unconditional:
            self.since = since if earlier is None else min(since, earlier)


class _Writing:
    """One call of apply()."""

    def __init__(self, step: MongoStep) -> None:
        self._step = step
        self._records: dict[str, _Record] = {}
        self._scopes: set[str] = set()
        self._versions: dict[str, Document] = {}
        self._links: dict[str, Document | None] = {}
        self._jobs: dict[str, Document] = {}
        self._job_ids: set[str] = set()
        self._waiting: set[str] = set()

    async def look(self, changes: Sequence[Change]) -> None:
        """Read everything that the changes depend on, each collection once."""
        ids = dict.fromkeys(memory_id for change in changes for memory_id in _ids(change))
        documents = await self._by_id(MEMORIES, ids, _KNOWN)
        self._records = {memory_id: _Record(documents.get(memory_id)) for memory_id in ids}
        scope_names = {change.memory.scope for change in changes if isinstance(change, Put | Revise)}
        if scope_names:
            scope_filter = {"type": "scope", "scope_name": {"$in": list(scope_names)}}
            scopes = await self._step.find(METADATA, scope_filter, {"scope_name": 1})
            self._scopes = {scope["scope_name"] for scope in scopes}
        version_keys = {_version_key(change.version) for change in changes if isinstance(change, Keep)}
        self._versions = await self._by_id(VERSIONS, version_keys, {"content": 1, "amended": 1})
        jobs = [change.job for change in changes if isinstance(change, Enqueue)]
        if jobs:
            same: list[Document] = [{"_id": {"$in": [job.id for job in jobs]}}]
            keys = [job.key for job in jobs if job.key is not None]
            same += [{"key": {"$in": keys}, "state": "waiting"}] if keys else []
            existing_jobs = await self._step.find(JOBS, {"$or": same}, {"key": 1, "state": 1})
            self._job_ids = {job["_id"] for job in existing_jobs}
            self._waiting = {
                job["key"] for job in existing_jobs if job["state"] == "waiting" and job.get("key")
            }

    def do(self, change: Change) -> None:
        match change:
            case Put():
                self._put(change)
            case Revise(memory):
                self._check_scope(memory.scope)
                self._existing(memory.id).set(revised(memory))
            case Mark():
                self._mark(change)
            case Inherit():
                self._inherit(change)
            case Tend():
                self._tend(change)
            case Rate():
                self._rate(change)
            case Connect(link):
                self._connect(link)
            case Disconnect(origin, target, relation):
                self._links[link_key(origin, target, relation.value)] = None
            case Keep(version):
                self._keep(version)
            case Enqueue(job):
                self._enqueue(COLUMNS.job.document(job))
            case _:
                raise TypeError(f"{type(change).__name__} is no change")

    def _put(self, put: Put) -> None:
        memory = put.memory
        record = self._records[memory.id]
        if put.expected is not None and record.known.get("updated") != to_micros(put.expected):
            raise changed_meanwhile(memory.id)
        check_vector(put)
        self._check_scope(memory.scope)
        fields = whole(put)
        if record.exists:  # counts stay
            for name in COUNTED:
                del fields[name]
        record.set(fields)
        record.exists = True

    def _mark(self, mark: Mark) -> None:
        record = self._existing(mark.memory_id)
        if mark.only_from is not None and record.known["status"] != mark.only_from.value:
            return
        fields = {
            "status": mark.status.value,
            "live": mark.status.value in LIVE,
            "previous_status": None if mark.previous is None else mark.previous.value,
            "updated": to_micros(mark.updated),
        }
        if mark.status.value != record.known["status"] and mark.status in (Status.ACTIVE, Status.ARCHIVED):
            fields["review"] = to_micros(mark.updated)  # from now on upkeep handles it again
        record.set(fields)

    def _inherit(self, inherit: Inherit) -> None:
        record = self._existing(inherit.memory_id)
        fields = record.known
        record.set(
            {
                "supersedes": inherit.supersedes,
                "importance": max(fields["importance"], number(inherit.importance)),
                "refers": references(
                    inherit.supersedes, fields["merged_from"], metadata_of(fields["metadata"])
                ),
            }
        )
        if "uses" in record.changed:
            record.set({"uses": record.known["uses"] + inherit.uses})
        else:
            record.more_uses += inherit.uses

    def _tend(self, tend: Tend) -> None:
        record = self._records[tend.memory_id]
        if not record.exists:
            return
        tended = COLUMNS.tended.document(tend)
        fields = {name: value for name, value in tended.items() if value is not None}
        if fields:
            record.tend(fields, to_optional_micros(tend.unless_since))

    def _rate(self, rate: Rate) -> None:
        record = self._records[rate.memory_id]
        if not record.exists:
            return
        fields, moment = record.known, to_micros(rate.when)
        review, stirred = fields.get("review"), fields.get("stirred")
        record.set(
            {
                "usefulness": max(-1.0, min(1.0, fields.get("usefulness", 0.0) + number(rate.by))),
                "stirred": moment if stirred is None else max(stirred, moment),
                "review": moment if review is None else min(review, moment),
            }
        )

    def _connect(self, link: Link) -> None:
        self._existing(link.origin)
        self._existing(link.target)
        self._links[link_key(link.origin, link.target, link.relation.value)] = COLUMNS.link.document(link)

    def _keep(self, version: Version) -> None:
        self._existing(version.memory_id)
        key, amended = _version_key(version), to_micros(version.amended)
        stored = self._versions.get(key)
        if stored is None:
            self._versions[key] = COLUMNS.version.document(version)
        elif (stored["content"], stored["amended"]) != (version.content, amended):
            raise amended_meanwhile(version.memory_id)

    def _enqueue(self, job: Document) -> None:
        waiting = job["state"] == "waiting" and job["key"] is not None
        if waiting and job["key"] in self._waiting:
            return
        if job["_id"] in self._job_ids:
            raise job_exists()
        self._job_ids.add(job["_id"])
        self._jobs[job["_id"]] = job
        if waiting:
            self._waiting.add(job["key"])

    async def check(self) -> None:
        """Refuse all changes if two records would have the same content."""
        holders: dict[tuple[str, str, str], str] = {}
        for memory_id, record in self._records.items():
            if record.renamed and record.known["live"]:
                key = _sameness(record.known)
                if key in holders:
                    raise same_content(holders[key], record.known["scope"])
                holders[key] = memory_id
        if not holders:
            return
        where = {"content_hash": {"$in": [key[0] for key in holders]}, "live": True}
        for document in await self._step.find(MEMORIES, where, _KNOWN):
            present = self._records.get(document["_id"])
            if _sameness(document) in holders and (present is None or not present.renamed):
                raise same_content(document["_id"], document["scope"])

    def finish(self) -> None:
        """Make the operations, in an order in which two records never have the same content at any moment."""
        for memory_id, record in self._ordered():
            if record.fresh:
                fields = {**record.changed, "uses": record.changed["uses"] + record.more_uses}
                self._step.insert(MEMORIES, memory_id, fields | {"row": row_number(self._step.next_row())})
                self._step.added += 1
            else:
                more = {"$inc": {"uses": record.more_uses}} if record.more_uses else {}
                self._step.change_record(
                    memory_id, {"$set": record.changed, **more}, unless_since=record.since
                )
        for key, version in self._versions.items():
            if "memory" in version:
                self._step.insert(VERSIONS, key, version)
        for key, link in self._links.items():
            if link is None:
                self._step.remove(LINKS, {"_id": key})
            else:
                self._step.put(LINKS, key, link)
        for job in self._jobs.values():
            self._step.insert(JOBS, job["_id"], {name: job[name] for name in job if name != "_id"})

    def _ordered(self) -> list[tuple[str, _Record]]:
        """Changed records, those that give up a content before those that take it, new ones last. Raises Conflict."""
        changed = {key: record for key, record in self._records.items() if record.changed}
        holders = {record.held: key for key, record in changed.items() if record.held is not None}
        ordered: dict[str, _Record] = {}
        for memory_id, record in changed.items():
            if record.fresh:
                continue
            chain: list[str] = []
            waiting: str | None = memory_id
            while waiting is not None and waiting not in ordered:
                if waiting in chain:
                    raise same_content(waiting, changed[waiting].known["scope"])
                chain.append(waiting)
                fields = changed[waiting].known
                before = holders.get(_sameness(fields)) if fields["live"] else None
                waiting = None if before == waiting else before
            ordered |= {key: changed[key] for key in reversed(chain)}
        return [*ordered.items(), *((key, record) for key, record in changed.items() if record.fresh)]

    def _check_scope(self, name: str) -> None:
        if name not in self._scopes:
            raise ScopeNotFound(name)

    def _existing(self, memory_id: str) -> _Record:
        record = self._records[memory_id]
        if not record.exists:
            raise MemoryNotFound(memory_id)
        return record

    async def _by_id(self, collection: str, ids: Iterable[str], fields: Document) -> dict[str, Document]:
        wanted_ids = list(ids)
        if not wanted_ids:
            return {}
        documents = await self._step.find(collection, {"_id": {"$in": wanted_ids}}, fields)
        return {document["_id"]: document for document in documents}


def _ids(change: Change) -> tuple[str, ...]:
    if isinstance(change, Put | Revise):
        return (change.memory.id,)
    if isinstance(change, Mark | Inherit | Tend | Rate):
        return (change.memory_id,)
    if isinstance(change, Connect):
        return (change.link.origin, change.link.target)
    return (change.version.memory_id,) if isinstance(change, Keep) else ()


def _sameness(known: Document) -> tuple[str, str, str]:
    return known["content_hash"], known["scope"], known["agent"]


def _version_key(version: Version) -> str:
    return json.dumps([version.memory_id, version.number], ensure_ascii=False)


_MOST_TOGETHER = 64
_MOST_CHANGES = 1_000
_MANY = 200  # changes in one step that may take longer than a usual call


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    changes: Sequence[Change]
    answer: asyncio.Future[None]


class ChangeQueue:
    """The write queue of one store."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._waiting: deque[_Waiting] = deque()
        self._turn = asyncio.Lock()
        self._making: set[asyncio.Task[None]] = set()

    async def apply(self, changes: Sequence[Change]) -> None:
        """Implements RecordChanges.apply()."""
        waiting = _Waiting(changes, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        # In its own task, so that a caller who gives up doesn't cancel the changes of others.
        making = asyncio.create_task(self._make_waiting())
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        try:
            await asyncio.wait({waiting.answer}, timeout=_patience(changes) * self._database.timeout)
            if not waiting.answer.done() and self._left(waiting):
                raise StoreBusy("Other changes take too long.", advice="Try again.")
            await asyncio.wait({waiting.answer})  # it is being applied, which takes bounded time
        except asyncio.CancelledError:
            if not self._left(waiting):  # so that a caller who gives up knows that nothing is under way
                await asyncio.wait({waiting.answer})
            _forget(waiting)
            raise
        waiting.answer.result()

    def _left(self, waiting: _Waiting) -> bool:
        """Remove waiting changes. Returns whether they had not started; then they never will."""
        if waiting not in self._waiting:
            return False
        self._waiting.remove(waiting)
        return True

    async def _make_waiting(self) -> None:
        async with self._turn:
            batch = self._next()
            try:
                await self._make_batch(batch)
            except BaseException:  # this task was cancelled: nobody may wait for ever
                for request in batch:
                    _tell(request, StoreError("The change was given up.", advice="Try again."))
                raise

    async def _make_batch(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        error = await self._made([change for request in batch for change in request.changes])
        if error is None or len(batch) == 1 or _is_for_all(error):
            for request in batch:
                _tell(request, error)
            return
        for request in batch:
            _tell(request, await self._made(request.changes))

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < _MOST_TOGETHER:
            if batch and size + len(self._waiting[0].changes) > _MOST_CHANGES:
                break
            batch.append(self._waiting.popleft())
            size += len(batch[-1].changes)
        return batch

    async def _made(self, changes: Sequence[Change]) -> Exception | None:
        """Apply changes. Returns the error if that fails."""
        try:
            await self._database.write(lambda step: apply(step, changes), patience=_patience(changes))
        except Exception as error:  # noqa: BLE001 - each caller is told his own, of whatever kind
            return error
        return None


def _patience(changes: Sequence[Change]) -> int:
    return PATIENT if len(changes) > _MANY else 1


def _is_for_all(error: Exception) -> bool:
    """Whether the error is the server's and not one caller's: then trying each alone would only wait for it again."""
    return isinstance(error, StoreError) and not isinstance(error.__cause__, BulkWriteError)


def _tell(waiting: _Waiting, error: Exception | None) -> None:
    if waiting.answer.done():
        return
    if error is None:
        waiting.answer.set_result(None)
    else:
        waiting.answer.set_exception(error)


def _forget(waiting: _Waiting) -> None:
    """Retrieve the error, so that asyncio doesn't warn if nobody waits for it."""
    if waiting.answer.done() and not waiting.answer.cancelled():
        waiting.answer.exception()
    else:
        waiting.answer.cancel()
