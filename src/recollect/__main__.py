"""`recollect` and `python -m recollect`: hands the composition root to the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from recollect.interfaces.cli.main import run

if TYPE_CHECKING:
    from recollect.interfaces.cli.launcher import Finding, Leftover, Start
    from recollect.interfaces.running import Running
    from recollect.settings import LoadedSettings


class AppLauncher:
    """Imports the engine only when a command needs it."""

    def open(self, loaded: LoadedSettings) -> AbstractAsyncContextManager[Running]:
        """The engine on the store of the settings."""
        from recollect.app import open_app

        return open_app(loaded)

    def leftover(self, loaded: LoadedSettings) -> Leftover:
        """What is in the local file."""
        from recollect.app import left_in_file

        return left_in_file(loaded)

    async def diagnose(self, loaded: LoadedSettings) -> Sequence[Finding]:
        """What is wrong with a database that can't be opened."""
        from recollect.app import diagnose_store

        return await diagnose_store(loaded)

    async def salvage(self, loaded: LoadedSettings) -> Sequence[str]:
        """What can be read of it, in a new one."""
        from recollect.app import salvage_store

        return await salvage_store(loaded)

    async def serve_stdio(self, loaded: LoadedSettings) -> None:
        """MCP on standard input and output, until the client goes."""
        from recollect.doors import run_stdio

        await run_stdio(loaded)

    async def serve_http(self, loaded: LoadedSettings, *, start: Start) -> None:
        """Everything on one port, until told to stop."""
        from recollect.doors import run_http

        await run_http(loaded, start=start)


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:], AppLauncher()))


if __name__ == "__main__":
    main()
