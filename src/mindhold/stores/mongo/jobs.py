"""The durable queue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from pymongo import ReturnDocument

from mindhold.model.errors import JobNotFound
from mindhold.model.job import Job, JobState
from mindhold.stores.mongo.connection import Part
from mindhold.stores.mongo.rows import Document
from mindhold.stores.mongo.steps import JOBS, Step
from mindhold.stores.values import (
    from_mapping_json,
    from_micros,
    from_optional_micros,
    mapping_json,
    to_micros,
    to_optional_micros,
)

_SILENT = "Its runner went silent at each attempt."


class JobsPart(Part):
    """The Jobs protocol. Holding a job is one operation on one document: of many runners one has it."""

    async def lease(
        self, owner: str, *, now: datetime, duration: timedelta, names: Sequence[str] = ()
    ) -> Job | None:
        moment, until = to_micros(now), to_micros(now + duration)
        silent = {"state": "running", "lease_until": {"$lte": moment}}
        due: Document = {"$or": [{"state": "waiting", "due": {"$lte": moment}}, silent]}
        if names:
            due["name"] = {"$in": list(names)}
        held = {
            "$set": {"state": "running", "lease_owner": owner, "lease_until": until},
            "$inc": {"attempts": 1},
        }
        given_up = {
            "state": "dead",
            "finished": moment,
            "lease_owner": None,
            "lease_until": None,
            "error": {"$ifNull": ["$error", _SILENT]},
        }

        async def work() -> Document | None:
            jobs = self._database.jobs
            if await jobs.find_one(due, {"_id": 1}) is None:  # runners ask often and mostly in vain
                return None
            exhausted = {**silent, "$expr": {"$gte": ["$attempts", "$most_attempts"]}}
            await jobs.update_many(exhausted, [{"$set": given_up}])
            return await jobs.find_one_and_update(
                due, held, sort=[("due", 1), ("_id", 1)], return_document=ReturnDocument.AFTER
            )

        found = await self._database.ask(work)
        return None if found is None else job_of(found)

    async def renew(self, job_id: str, owner: str, *, until: datetime) -> bool:
        held = {"_id": job_id, "state": "running", "lease_owner": owner}
        longer = {"$set": {"lease_until": to_micros(until)}}
        renewed = await self._database.ask(lambda: self._database.jobs.update_one(held, longer))
        return renewed.matched_count > 0

    async def finish(self, job: Job, owner: str) -> bool:
        held = {"_id": job.id, "state": "running", "lease_owner": owner}

        async def work(step: Step) -> bool:
            return bool(await step.find(JOBS, held, {"_id": 1})) and await _replace(step, job, held)

        if job.state is JobState.WAITING and job.key is not None:
            return await self._database.write(work)
        ended = {"$set": _without_lease(job)}
        return (
            await self._database.ask(lambda: self._database.jobs.update_one(held, ended))
        ).matched_count > 0

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[Job]:
        if limit <= 0:
            return []
        where = {"state": {"$in": [state.value for state in states]}} if states else {}
        newest = [("created", -1), ("_id", -1)]
        found = await self._database.read(
            lambda: self._database.jobs.find(where).sort(newest).limit(limit).to_list()
        )
        return [job_of(document) for document in found]

    async def job(self, job_id: str) -> Job:
        found = await self._database.read(lambda: self._database.jobs.find_one({"_id": job_id}))
        if found is None:
            raise _missing(job_id)
        return job_of(found)

    async def replace_job(self, job: Job, *, expected: JobState) -> bool:
        async def work(step: Step) -> bool:
            found = await step.find(JOBS, {"_id": job.id}, {"state": 1})
            if not found:
                raise _missing(job.id)
            if found[0]["state"] != expected.value:
                return False
            return await _replace(step, job, {"_id": job.id, "state": expected.value})

        return await self._database.write(work)

    async def drop_jobs(self, *, before: datetime) -> int:
        # What was done long ago; dead ones wait for a person.
        old = {"state": "done", "finished": {"$lt": to_micros(before)}}
        return (await self._database.ask(lambda: self._database.jobs.delete_many(old))).deleted_count

    async def tally_jobs(self) -> dict[str, int]:
        async def work() -> dict[str, int]:
            cursor = await self._database.jobs.aggregate(
                [{"$group": {"_id": "$state", "count": {"$sum": 1}}}]
            )
            return {group["_id"]: group["count"] async for group in cursor}

        return await self._database.read(work)


async def _replace(step: Step, job: Job, expected: Document) -> bool:
    document = _without_lease(job)
    if job.state is JobState.WAITING and job.key is not None:
        same = {"key": job.key, "state": "waiting", "_id": {"$ne": job.id}}
        if await step.find(JOBS, same, {"_id": 1}, limit=1):
            document["key"] = None  # the key is the other's now; neither piece of work is lost
    step.change(JOBS, expected, {"$set": document})
    return True


def _without_lease(job: Job) -> Document:
    """What replaces a job: a lease is of one that runs."""
    document = job_document(job)
    del document["_id"]
    if job.state is not JobState.RUNNING:
        document["lease_owner"] = document["lease_until"] = None
    return document


def job_document(job: Job) -> Document:
    """Payload and result are JSON, for no query looks into them."""
    return {
        "_id": job.id,
        "name": job.name,
        "created": to_micros(job.created),
        "due": to_micros(job.due),
        "payload": mapping_json(job.payload),
        "state": job.state.value,
        "attempts": job.attempts,
        "most_attempts": job.most_attempts,
        "lease_owner": job.lease_owner,
        "lease_until": to_optional_micros(job.lease_until),
        "finished": to_optional_micros(job.finished),
        "error": job.error,
        "result": None if job.result is None else mapping_json(job.result),
        "key": job.key,
    }


def job_of(document: Document) -> Job:
    return Job(
        id=document["_id"],
        name=document["name"],
        created=from_micros(document["created"]),
        due=from_micros(document["due"]),
        payload=from_mapping_json(document["payload"]),
        state=JobState(document["state"]),
        attempts=document["attempts"],
        most_attempts=document["most_attempts"],
        lease_owner=document["lease_owner"],
        lease_until=from_optional_micros(document["lease_until"]),
        finished=from_optional_micros(document["finished"]),
        error=document["error"],
        result=None if document["result"] is None else json.loads(document["result"]),
        key=document["key"],
    )


def _missing(job_id: str) -> JobNotFound:
    return JobNotFound(
        f"There is no job {job_id!r}.", advice="`mindhold jobs` shows the ones that there are."
    )
