"""Jobs, cursors and entries are the home store's; health is every store's that has something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mindhold.model.entry import Entry
from mindhold.model.errors import SettingsError, StoreError
from mindhold.model.job import Job, JobState
from mindhold.ports.store import Finding, Receipt, StoreFacts
from mindhold.stores.routed.routing import Routing


class HomePart(Routing):
    """The Jobs, Cursors and Entries protocols."""

    async def lease(
        self, owner: str, *, now: datetime, duration: timedelta, names: Sequence[str] = ()
    ) -> Job | None:
        return await (await self._home()).lease(owner, now=now, duration=duration, names=names)

    async def renew(self, job_id: str, owner: str, *, until: datetime) -> bool:
        return await (await self._home()).renew(job_id, owner, until=until)

    async def finish(self, job: Job, owner: str) -> bool:
        return await (await self._home()).finish(job, owner)

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[Job]:
        return await (await self._home()).jobs(states=states, limit=limit)

    async def job(self, job_id: str) -> Job:
        return await (await self._home()).job(job_id)

    async def replace_job(self, job: Job, *, expected: JobState) -> bool:
        return await (await self._home()).replace_job(job, expected=expected)

    async def drop_jobs(self, *, before: datetime) -> int:
        return await (await self._home()).drop_jobs(before=before)

    async def tally_jobs(self) -> dict[str, int]:
        return await (await self._home()).tally_jobs()

    async def cursor(self, name: str) -> str | None:
        return await (await self._home()).cursor(name)

    async def set_cursor(self, name: str, value: str | None) -> None:
        await (await self._home()).set_cursor(name, value)

    async def swap_cursor(self, name: str, *, old: str | None, new: str | None) -> bool:
        return await (await self._home()).swap_cursor(name, old=old, new=new)

    async def put_entry(self, entry: Entry) -> None:
        await (await self._home()).put_entry(entry)

    async def entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        return await (await self._home()).entry(drawer, key, now=now)

    async def take_entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        return await (await self._home()).take_entry(drawer, key, now=now)

    async def entries(self, drawer: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        return await (await self._home()).entries(drawer, now=now, limit=limit)

    async def drop_entry(self, drawer: str, key: str) -> bool:
        return await (await self._home()).drop_entry(drawer, key)

    async def drop_expired(self, now: datetime) -> int:
        return await (await self._home()).drop_expired(now)


class UpkeepPart(Routing):
    """The Upkeep protocol. What is told of another store than the home store bears its mode."""

    async def facts(self) -> StoreFacts:
        return await (await self._home()).facts()

    async def check(self) -> list[Finding]:
        findings = await (await self._home()).check()
        for mode in (await self._routes()).used[1:]:
            try:
                found = await (await self._houses.house(mode)).check()
            except (StoreError, SettingsError) as error:
                findings.append(Finding(mode, False, error.message, error.advice))
                continue
            findings += [replace(finding, name=f"{mode}: {finding.name}") for finding in found]
        return findings

    async def repair(self) -> list[str]:
        done = await (await self._home()).repair()
        for mode in (await self._routes()).used[1:]:
            try:
                mended = await (await self._houses.house(mode)).repair()
            except (StoreError, SettingsError) as error:
                mended = [f"left as it is: {error.message}"]
            done += [f"{mode}: {step}" for step in mended]
        return done

    async def optimise(self) -> int:
        return sum(
            [await (await self._houses.house(mode)).optimise() for mode in (await self._routes()).used]
        )

    async def scrub(self, phrases: Sequence[str] = ()) -> Receipt:
        receipt = await (await self._home()).scrub(phrases)
        removed, remaining = dict(receipt.removed), dict(receipt.remaining)
        for mode in (await self._routes()).used[1:]:
            also = await (await self._houses.house(mode)).scrub(phrases)
            removed |= {f"{mode}: {place}": count for place, count in also.removed.items()}
            remaining |= {f"{mode}: {place}": count for place, count in also.remaining.items()}
        return Receipt(receipt.ids, removed, remaining)
