"""Makes or restores a backup, and dies at one of its steps: at the so many-th change of a file, or of the server's store.

Tells how many steps there were when it lives on.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from mindhold.app.application import open_app
from mindhold.app.restore import replace_all
from mindhold.backup.create import BACKUP
from mindhold.settings.loader import load_settings

CHANGES = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.utime")
_WRITES = os.O_WRONLY | os.O_RDWR


class Deaths:
    """Counts, and kills this process at its number."""

    def __init__(self, fatal: int, home: Path) -> None:
        self._fatal = fatal
        self._home = str(home)
        self._numbers = count(1)
        self.told = 0

    def __call__(self) -> None:
        self.told = next(self._numbers)
        if self.told == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, given: tuple[Any, ...]) -> None:
        opens = event == "open" and isinstance(given[2], int) and bool(given[2] & _WRITES)
        if (opens or event in CHANGES) and str(given[0]).startswith(self._home):
            self()


def watch_servers(deaths: Deaths) -> None:
    """Renamings, which no hook of Python's sees."""
    from pymongo.asynchronous.collection import AsyncCollection

    from mindhold.stores.mongo import schema
    from mindhold.stores.postgres import store

    def before(owner: Any, name: str) -> None:
        known = getattr(owner, name)

        def told(*given: Any, **named: Any) -> Any:
            deaths()
            return known(*given, **named)

        setattr(owner, name, told)

    before(AsyncCollection, "rename")
    before(AsyncCollection, "drop")
    before(schema, "begin_swap")
    before(schema, "finish_swap")
    before(store, "_rename")
    before(store, "_drop")


async def main(what: str, settings: dict[str, Any], fatal: int) -> None:
    loaded = load_settings(settings, environ={})
    deaths = Deaths(fatal, loaded.settings.home)
    if what == "backup":
        async with open_app(loaded) as app:
            sys.addaudithook(deaths.audit)
            await app.run(BACKUP, BACKUP.takes(name="made"))
            told = deaths.told
    else:
        if loaded.settings.store.mode == "local":
            sys.addaudithook(deaths.audit)
        else:
            watch_servers(deaths)
        await replace_all(loaded, None, told=lambda *_: None)
        told = deaths.told
    sys.stdout.write(json.dumps({"steps": told}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])))
