"""A process with a Mindhold of its own: does what it is told, line by line, and says what is acknowledged."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from dwellings import opened_at

from mindhold.app.application import App
from mindhold.model.errors import MindholdError
from mindhold.operation_index import operation


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def run(app: App, name: str, /, **given: Any) -> Any:
    chosen = operation(name)
    return await app.run(chosen, chosen.takes(**given))


async def migrate(app: App, project: str, to: str, drop_source: bool = False) -> None:
    """Tells each step before it goes on."""
    chosen = operation("migrate_project")
    given = chosen.takes(project=project, to=to, drop_source=drop_source)
    done = await app.run(
        chosen, given, progress=lambda step, count, _total: say({"step": step, "count": count})
    )
    say({"done": done.model_dump(mode="json")})


async def write(app: App, project: str, name: str) -> None:
    """Until stdin ends: remembers, amends, forgets, links; each is told as soon as it is acknowledged."""
    loop = asyncio.get_running_loop()
    stopped = loop.run_in_executor(None, sys.stdin.readline)
    number, before = 0, None
    while not stopped.done():
        number += 1
        text = f"Parcel {name}-{number} weighs {number * 37} grams and stands in hall {number % 9}."
        made = (await run(app, "remember", content=text, scope=project)).id
        say({"stored": made, "content": text})
        if number % 3 == 0:
            await run(app, "amend", id=made, content=f"{text} It was weighed again.")
            say({"amended": made, "content": f"{text} It was weighed again."})
        if number % 4 == 0 and before is not None:
            await run(app, "link", origin=made, target=before, relation="caused_by")
            say({"linked": [made, before]})
        if number % 5 == 0:
            await run(app, "forget", ids=[made])
            say({"forgotten": made})
        elif number % 7 == 0:
            await run(app, "forget", ids=[made], hard=True)
            say({"erased": made})
        else:
            before = made
    say({"wrote": number})


async def main(told: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    async with opened_at(Path(told["folder"]), told["addresses"], home=told["home"]) as app:
        say({"ready": True})
        line = await loop.run_in_executor(None, sys.stdin.readline)
        command = json.loads(line)
        try:
            await {"migrate": migrate, "write": write}[command.pop("do")](app, **command)
        except MindholdError as error:
            say({"error": error.code, "message": str(error)})


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
