"""`mindhold` and `python -m mindhold`: hands the composition root to the command line.

What Claude Code runs at every turn goes its own short way, past everything that takes time to load.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from mindhold.interfaces.cli.launcher import Finding, Leftover, Start
    from mindhold.interfaces.running import Answering, Told
    from mindhold.operations.replacing import DropOldResult, ReplaceResult
    from mindhold.settings import LoadedSettings

HELP = frozenset(("-h", "--help"))


class AppLauncher:
    """Imports the engine only when a command needs it."""

    def open(self, loaded: LoadedSettings) -> AbstractAsyncContextManager[Answering]:
        """The engine on the store of the settings, or the server that they name."""
        if loaded.settings.remote.url:
            from mindhold.remote import open_remote

            return open_remote(loaded)
        from mindhold.app import open_app

        return open_app(loaded)

    def leftover(self, loaded: LoadedSettings) -> Leftover:
        """What is in the local file."""
        from mindhold.app import left_in_file

        return left_in_file(loaded)

    async def diagnose(self, loaded: LoadedSettings) -> Sequence[Finding]:
        """What is wrong with a database that can't be opened."""
        from mindhold.damage import diagnose_store

        return await diagnose_store(loaded)

    async def salvage(self, loaded: LoadedSettings) -> Sequence[str]:
        """What can be read of it, in a new one."""
        from mindhold.damage import salvage_store

        return await salvage_store(loaded)

    async def restore(self, loaded: LoadedSettings, file: str | None, *, told: Told) -> ReplaceResult:
        """A backup in the place of everything that is there."""
        from mindhold.restoring import replace_all

        return await replace_all(loaded, file, told=told)

    async def drop_old(self, loaded: LoadedSettings, name: str | None) -> DropOldResult:
        """What restores have put aside."""
        from mindhold.restoring import drop_old

        return await drop_old(loaded, name)

    async def serve_stdio(self, loaded: LoadedSettings) -> None:
        """MCP on standard input and output, until the client goes."""
        from mindhold.doors import run_stdio

        await run_stdio(loaded)

    async def serve_http(self, loaded: LoadedSettings, *, start: Start) -> None:
        """Everything on one port, until told to stop."""
        from mindhold.doors import run_http

        await run_http(loaded, start=start)

    def hook(self, name: str, argv: Sequence[str], *, home: str | None) -> int:
        """What Claude Code runs."""
        return _run(name, ["--home", str(home), *argv] if home else argv)


def main() -> None:
    """The console script."""
    argv = sys.argv[1:]
    if argv and argv[0] in ("hook", "statusline") and HELP.isdisjoint(argv):
        _quick(argv[0], argv[1:])
    elif argv and argv[0] == "hook-worker":
        sys.exit(_work(argv[1:]))
    elif argv and argv[0] == "history-worker":
        sys.exit(_index(argv[1:]))
    else:
        from mindhold.interfaces.cli.main import run

        if argv and argv[0] == "maintain":
            from mindhold.bare.detached import step_back

            step_back()
        sys.exit(run(argv, AppLauncher()))


def _quick(name: str, argv: Sequence[str]) -> None:
    """Ends the process at once: there is nothing to tidy up, and a stream that was closed must not fail it."""
    import os

    try:
        _run(name, argv)
    finally:
        os._exit(0)


def _run(name: str, argv: Sequence[str]) -> int:
    if name == "hook":
        from mindhold.interfaces.hooks.door import run
    else:
        from mindhold.interfaces.hooks.statusline import run
    return run(argv)


def _work(argv: Sequence[str]) -> int:
    """The worker that a hook starts; the number is a descriptor that holds its lease."""
    from mindhold.bare.detached import detach
    from mindhold.worker import run

    home = detach()
    return run(home, int(argv[0]) if argv and argv[0].isdecimal() else None)


def _index(argv: Sequence[str]) -> int:
    """What indexes conversations in the background; the number is a descriptor that holds its lease."""
    from mindhold.bare.detached import detach
    from mindhold.indexer import run

    home = detach()
    return run(home, int(argv[0]) if argv and argv[0].isdecimal() else None)


if __name__ == "__main__":
    main()
