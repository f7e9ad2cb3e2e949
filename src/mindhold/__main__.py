"""The `mindhold` command and `python -m mindhold`. Hooks take a short path that loads very little."""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from mindhold.backup.restore import DropOldResult, ReplaceResult
    from mindhold.interfaces.cli.session import CheckFinding, LocalRecords, StartObserver
    from mindhold.interfaces.runtime import OperationRunner, ProgressCallback
    from mindhold.settings.loader import LoadedSettings


HELP = frozenset(("-h", "--help"))


class AppLauncher:
    """Imports the engine only when a command needs it."""

    def open(self, loaded: LoadedSettings) -> AbstractAsyncContextManager[OperationRunner]:
        """The engine on the store of the settings, or the server that they name."""
        if loaded.settings.remote.url:
            from mindhold.app.remote import open_remote

            return open_remote(loaded)
        from mindhold.app.application import open_app

        return open_app(loaded)

    def leftover(self, loaded: LoadedSettings) -> LocalRecords:
        """What is in the local file."""
        from mindhold.app.application import file_contents

        return file_contents(loaded)

    async def diagnose(self, loaded: LoadedSettings) -> Sequence[CheckFinding]:
        """What is wrong with a database that can't be opened."""
        from mindhold.app.stores import diagnose_store

        return await diagnose_store(loaded)

    async def salvage(self, loaded: LoadedSettings) -> Sequence[str]:
        """What can be read of it, in a new one."""
        from mindhold.app.stores import salvage_store

        return await salvage_store(loaded)

    async def restore(
        self, loaded: LoadedSettings, file: str | None, *, told: ProgressCallback
    ) -> ReplaceResult:
        """A backup in the place of everything that is there."""
        from mindhold.app.restore import replace_all

        return await replace_all(loaded, file, told=told)

    async def drop_old(self, loaded: LoadedSettings, name: str | None) -> DropOldResult:
        """What restores have put aside."""
        from mindhold.app.restore import drop_old

        return await drop_old(loaded, name)

    async def serve_stdio(self, loaded: LoadedSettings) -> None:
        """MCP on standard input and output, until the client goes."""
        gc.disable()  # imports make objects that stay: until they are done, collecting only costs time
        from mindhold.app.server import run_stdio

        await run_stdio(loaded)

    async def serve_http(self, loaded: LoadedSettings, *, start: StartObserver) -> None:
        """Everything on one port, until told to stop."""
        from mindhold.app.server import run_http

        await run_http(loaded, start=start)

    def hook(self, name: str, argv: Sequence[str], *, home: str | None) -> int:
        """What Claude Code runs."""
        return _run(name, ["--home", str(home), *argv] if home else argv)


def main() -> None:
    """The console script."""
    argv = sys.argv[1:]
    if argv and argv[0] in ("hook", "statusline") and HELP.isdisjoint(argv):
        _quick(argv[0], argv[1:])
    elif not argv and _was_event():
        _end_at_once()
    elif argv and argv[0] == "hook-worker":
        sys.exit(_work(argv[1:]))
    elif argv and argv[0] == "history-worker":
        sys.exit(_index(argv[1:]))
    else:
        from mindhold.interfaces.cli.main import run

        if argv and argv[0] == "maintain":
            from mindhold.hooks.worker import lower_priority

            lower_priority()
        sys.exit(run(argv, AppLauncher()))


def _quick(name: str, argv: Sequence[str]) -> None:
    """Ends the process at once: there is nothing to tidy up, and a stream that was closed must not fail it."""
    try:
        _run(name, argv)
    finally:
        _end_at_once()


def _end_at_once() -> None:
    import os

    os._exit(0)


def _was_event() -> bool:
    """Handle an event of Claude Code that comes without the arguments of `mindhold hook`; whether there was one."""
    from mindhold.interfaces.hooks.event import run_without_arguments

    return run_without_arguments()


def _run(name: str, argv: Sequence[str]) -> int:
    if name == "hook":
        from mindhold.interfaces.hooks.event import run
    else:
        from mindhold.interfaces.hooks.statusline import run
    return run(argv)


def _work(argv: Sequence[str]) -> int:
    """The worker that a hook starts; the number is a descriptor that holds its lease."""
    from mindhold.app.worker import run
    from mindhold.hooks.worker import detach

    home = detach()
    return run(home, int(argv[0]) if argv and argv[0].isdecimal() else None)


def _index(argv: Sequence[str]) -> int:
    """What indexes conversations in the background; the number is a descriptor that holds its lease."""
    from mindhold.app.history_index import run_indexer
    from mindhold.hooks.worker import detach

    home = detach()
    return run_indexer(home, int(argv[0]) if argv and argv[0].isdecimal() else None)


if __name__ == "__main__":
    main()
