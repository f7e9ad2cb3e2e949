"""A process that writes to MongoDB and is killed at the worst moment: when the change is made, and nothing of it done."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from pymongo import monitoring

from mindhold.model.memory import Status
from mindhold.ports.store import Connect, Mark
from mindhold.stores.mongo.store import MongoStore
from mindhold.testing.builders import START, Builder, unit


class Killer(monitoring.CommandListener):
    """Ends this process as the power goes, as soon as the server has the journal."""

    def __init__(self) -> None:
        self._asked: set[int] = set()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name == "update" and "pending" in str(event.command.get("updates", "")):
            pending = [
                one["u"].get("$set", {}) for one in event.command["updates"] if isinstance(one["u"], dict)
            ]
            if any("pending" in fields for fields in pending):
                self._asked.add(event.request_id)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        if event.request_id in self._asked:
            os.kill(os.getpid(), signal.SIGKILL)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


async def main(url: str, database: str, old: str, bulk: int) -> None:
    monitoring.register(Killer())
    store = MongoStore(url, database=database, clock=lambda: START, lease_seconds=1.0)
    await store.open()
    build = Builder(prefix="child")
    puts = [build.put(f"child number{n} " + "filler " * 2_000, vector=unit(n, 1)) for n in range(bulk)]
    retired = Mark(old, Status.SUPERSEDED, previous=Status.ACTIVE, updated=START)
    await store.apply([retired, *puts, Connect(build.link(puts[0].memory, puts[1].memory))])
    sys.exit("it should have been killed by now")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
