"""A process that does with a store what it is told, line by line: a JSON command in, a JSON answer out."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from mindhold.model.errors import MindholdError
from mindhold.model.query import Filter, Search
from mindhold.ports.store import Put
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import MODEL, START, Builder, unit

Answer = dict[str, Any]


def say(answer: Answer) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


class Child:
    """One store in one process; ids carry the child's name."""

    def __init__(self, path: Path, name: str) -> None:
        self.store = SqliteStore(path, clock=lambda: START)
        self.build = Builder(prefix=f"{name}-")
        self.name = name

    def put(self, size: int = 0) -> Put:
        number = self.build.new_id().replace("-", "")
        return self.build.put(
            f"common {number} " + "filler " * size, vector=unit(int(number[-4:]), 1, 5), tags=(number,)
        )

    async def open(self) -> Answer:
        await self.store.open()
        return {}

    async def write(self, times: int, size: int = 0) -> Answer:
        """One by one; between them it reads and searches."""
        written = []
        for _ in range(times):
            put = self.put(size)
            await self.store.apply([put])
            found = await self.store.search(
                Search(Filter(), lexemes=(put.lexemes[1],), vector=put.vector, model=MODEL)
            )
            assert put.memory.id in found.ids
            written.append(put.memory.id)
        return {"ids": written, "lexemes": [put.lexemes[1]]}

    async def see(self, memory_id: str, lexeme: str) -> Answer:
        """By id, by text and by vector."""
        found = await self.store.search(Search(Filter(), lexemes=(lexeme,)))
        (near,) = await self.store.nearest([unit(1, 1)], model=MODEL, where=Filter(), limit=10_000)
        return {
            "id": memory_id in await self.store.get_many([memory_id], viewer="default"),
            "text": memory_id in found.ids,
            "vector": memory_id in {neighbour.id for neighbour in near},
        }

    async def count(self) -> Answer:
        total = await self.store.count(Filter())
        found = await self.store.search(Search(Filter(), vector=unit(1, 1), model=MODEL))
        return {"total": total, "embedded": found.embedded}

    async def write_until_killed(self) -> Answer:
        """Three records in each step; each is told as soon as it is acknowledged."""
        while True:
            puts = [self.put(size=50) for _ in range(3)]
            await self.store.apply(puts)
            say({"ids": [put.memory.id for put in puts]})

    async def lease(self, minutes: int) -> Answer:
        now = datetime.fromisoformat("2026-02-01T00:00:00+00:00") + timedelta(minutes=minutes)
        job = await self.store.lease(self.name, now=now, duration=timedelta(minutes=5))
        return {"job": job.id if job else None}

    async def lease_all(self) -> Answer:
        taken = []
        while (job := (await self.lease(0))["job"]) is not None:
            taken.append(job)
        return {"jobs": taken}

    async def fill_up(self, limit: int) -> Answer:
        """Write until the system refuses, then on with the limit lifted."""
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        written: list[str] = []
        try:
            while True:
                puts = [self.put(size=400) for _ in range(2)]
                await self.store.apply(puts)
                written += [put.memory.id for put in puts]
        except MindholdError as error:
            code = error.code
        reading = await self.store.count(Filter())
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        after = (await self.write(1))["ids"]
        return {"code": code, "reading": reading, "before": written, "after": after}


async def main(path: str, name: str) -> None:
    child = Child(Path(path), name)
    loop = asyncio.get_running_loop()
    say({"ready": True})
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command: Answer = json.loads(line)
        work: Callable[..., Awaitable[Answer]] = getattr(child, command.pop("do"))
        try:
            say(await work(**command))
        except MindholdError as error:
            say({"error": error.code, "message": str(error)})
    await child.store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
