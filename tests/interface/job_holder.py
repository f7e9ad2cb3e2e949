"""A server that takes a job and is never done with it: told where the memories live, it says the job's id and waits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from mindhold.app.application import open_app
from mindhold.engine import Engine
from mindhold.jobs.runner import Runner
from mindhold.model.job import Job


async def hold(_engine: Engine, job: Job) -> Mapping[str, Any]:
    sys.stdout.write(f"{job.id}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()
    return {}


async def main(name: str) -> None:
    async with open_app() as app:
        await Runner(app.engine, {name: hold}, owner="holder").run_next()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
