"""The durable job queue, entries that may expire, and named cursors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from mindhold.model.job import Entry, Job, JobState
from mindhold.stores.base import SILENT_RUNNER, job_missing, without_lease
from mindhold.stores.columns import to_micros
from mindhold.stores.mongo.connection import MongoPart
from mindhold.stores.mongo.rows import COLUMNS, Document
from mindhold.stores.mongo.transactions import JOBS, MongoStep


class MongoJobs(MongoPart):
    """Implements Jobs. Leasing is one operation on one document, so only one of many runners gets a job."""

    async def lease(
        self, owner: str, *, now: datetime, duration: timedelta, names: Sequence[str] = ()
    ) -> Job | None:
        moment, until = to_micros(now), to_micros(now + duration)
        silent = {"state": "running", "lease_until": {"$lte": moment}}
        due: Document = {"$or": [{"state": "waiting", "due": {"$lte": moment}}, silent]}
        if names:
            due["name"] = {"$in": list(names)}
        change = {
            "$set": {"state": "running", "lease_owner": owner, "lease_until": until},
            "$inc": {"attempts": 1},
        }
        given_up = {
            "state": "dead",
            "finished": moment,
            "lease_owner": None,
            "lease_until": None,
            "error": {"$ifNull": ["$error", SILENT_RUNNER]},
        }

        async def work() -> Document | None:
            jobs = self._database.jobs
            if await jobs.find_one(due, {"_id": 1}) is None:  # runners ask often and mostly in vain
                return None
            exhausted = {**silent, "$expr": {"$gte": ["$attempts", "$most_attempts"]}}
            await jobs.update_many(exhausted, [{"$set": given_up}])
            return await jobs.find_one_and_update(
                due, change, sort=[("due", 1), ("_id", 1)], return_document=ReturnDocument.AFTER
            )

        document = await self._database.ask(work)
        return None if document is None else COLUMNS.job.record_of(document)

    async def renew(self, job_id: str, owner: str, *, until: datetime) -> bool:
        own_lease = {"_id": job_id, "state": "running", "lease_owner": owner}
        longer = {"$set": {"lease_until": to_micros(until)}}
        renewed = await self._database.ask(lambda: self._database.jobs.update_one(own_lease, longer))
        return renewed.matched_count > 0

    async def finish(self, job: Job, owner: str) -> bool:
        own_lease = {"_id": job.id, "state": "running", "lease_owner": owner}

        async def work(step: MongoStep) -> bool:
            return bool(await step.find(JOBS, own_lease, {"_id": 1})) and await _replace(step, job, own_lease)

        if job.state is JobState.WAITING and job.key is not None:
            return await self._database.write(work)
        replacement = {"$set": _replacement(job)}
        result = await self._database.ask(lambda: self._database.jobs.update_one(own_lease, replacement))
        return result.matched_count > 0

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[Job]:
        if limit <= 0:
            return []
        where = {"state": {"$in": [state.value for state in states]}} if states else {}
        newest = [("created", -1), ("_id", -1)]
        documents = await self._database.read(
            lambda: self._database.jobs.find(where).sort(newest).limit(limit).to_list()
        )
        return [COLUMNS.job.record_of(document) for document in documents]

    async def job(self, job_id: str) -> Job:
        document = await self._database.read(lambda: self._database.jobs.find_one({"_id": job_id}))
        if document is None:
            raise job_missing(job_id)
        return COLUMNS.job.record_of(document)

    async def replace_job(self, job: Job, *, expected: JobState) -> bool:
        async def work(step: MongoStep) -> bool:
            documents = await step.find(JOBS, {"_id": job.id}, {"state": 1})
            if not documents:
                raise job_missing(job.id)
            if documents[0]["state"] != expected.value:
                return False
            return await _replace(step, job, {"_id": job.id, "state": expected.value})

        return await self._database.write(work)

    async def drop_jobs(self, *, before: datetime) -> int:
        # Jobs that were done long ago; dead ones wait for a person.
        old = {"state": "done", "finished": {"$lt": to_micros(before)}}
        return (await self._database.ask(lambda: self._database.jobs.delete_many(old))).deleted_count

    async def tally_jobs(self) -> dict[str, int]:
        async def work() -> dict[str, int]:
            cursor = await self._database.jobs.aggregate(
                [{"$group": {"_id": "$state", "count": {"$sum": 1}}}]
            )
            return {group["_id"]: group["count"] async for group in cursor}

        return await self._database.read(work)


async def _replace(step: MongoStep, job: Job, expected: Document) -> bool:
    document = _replacement(job)
    if job.state is JobState.WAITING and job.key is not None:
        same = {"key": job.key, "state": "waiting", "_id": {"$ne": job.id}}
        if await step.find(JOBS, same, {"_id": 1}, limit=1):
            document["key"] = None  # the other job has the key now, so that no work is lost
    step.change(JOBS, expected, {"$set": document})
    return True


def _replacement(job: Job) -> Document:
    """The fields that replace a job: only a running job has a lease."""
    document = COLUMNS.job.document(without_lease(job))
    del document["_id"]
    return document


class MongoEntries(MongoPart):
    """Implements Entries. Values are JSON, because no query looks into them."""

    async def put_entry(self, entry: Entry) -> None:
        fields = COLUMNS.entry.document(entry)
        key = {name: fields.pop(name) for name in ("drawer", "key")}
        await self._database.ask(
            lambda: self._database.entries.update_one(key, {"$set": fields}, upsert=True)
        )

    async def entry(self, namespace: str, key: str, *, now: datetime) -> Entry | None:
        where = {"drawer": namespace, "key": key, **_alive(now)}
        document = await self._database.ask(lambda: self._database.entries.find_one(where))
        return None if document is None else COLUMNS.entry.record_of(document)

    async def take_entry(self, namespace: str, key: str, *, now: datetime) -> Entry | None:
        where = {"drawer": namespace, "key": key, **_alive(now)}
        document = await self._database.ask(lambda: self._database.entries.find_one_and_delete(where))
        return None if document is None else COLUMNS.entry.record_of(document)

    async def entries(self, namespace: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        if limit <= 0:
            return []
        newest = [("created", -1), ("_id", -1)]
        where = {"drawer": namespace, **_alive(now)}
        documents = await self._database.ask(
            lambda: self._database.entries.find(where).sort(newest).limit(limit).to_list()
        )
        return [COLUMNS.entry.record_of(document) for document in documents]

    async def drop_entry(self, namespace: str, key: str) -> bool:
        where = {"drawer": namespace, "key": key}
        dropped = await self._database.ask(lambda: self._database.entries.delete_one(where))
        return dropped.deleted_count > 0

    async def drop_expired(self, now: datetime) -> int:
        where = {"expires": {"$lte": to_micros(now)}}
        dropped = await self._database.ask(lambda: self._database.entries.delete_many(where))
        return dropped.deleted_count


def _alive(now: datetime) -> Document:
    return {"$or": [{"expires": None}, {"expires": {"$gt": to_micros(now)}}]}


class MongoCursors(MongoPart):
    """Implements Cursors, with one document for each."""

    async def cursor(self, name: str) -> str | None:
        document = await self._database.ask(lambda: self._database.cursors.find_one({"_id": name}))
        return None if document is None else str(document["value"])

    async def set_cursor(self, name: str, value: str | None) -> None:
        cursors = self._database.cursors
        if value is None:
            await self._database.ask(lambda: cursors.delete_one({"_id": name}))
        else:
            await self._database.ask(
                lambda: cursors.update_one({"_id": name}, {"$set": {"value": value}}, upsert=True)
            )

    async def swap_cursor(self, name: str, *, old: str | None, new: str | None) -> bool:
        cursors = self._database.cursors

        async def work() -> bool:
            if old is None and new is None:
                return await cursors.find_one({"_id": name}) is None
            if old is None:
                try:
                    await cursors.insert_one({"_id": name, "value": new})
                except DuplicateKeyError:
                    return False
                return True
            expected = {"_id": name, "value": old}
            if new is None:
                return (await cursors.delete_one(expected)).deleted_count > 0
            return (await cursors.update_one(expected, {"$set": {"value": new}})).matched_count > 0

        return await self._database.ask(work)
