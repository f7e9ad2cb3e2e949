"""An export as a download: written to a file of its own first, so that it is whole, and gone afterwards.

What a server that was killed left of one is removed by those after it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mindhold.dialects.rest.shape import Resource
from mindhold.interfaces.http.door import Door
from mindhold.interfaces.http.rest.reading import AGENT, header, query_of
from mindhold.interfaces.http.stopping import STOPPING_KEY, Stopped, Stopping
from mindhold.interfaces.running import CALLER_KEY, Running, ask
from mindhold.operations.catalogue import Call, Output
from mindhold.operations.keeping import ExportInput, ExportResult

NDJSON = "application/x-ndjson"
PIECE = 262_144
FILE = ".download-{}.jsonl"
LEFT = (FILE.format("*"), f".{FILE.format('*')}.*.partial")
LEFT_AFTER = 600.0  # seconds that nothing was written to a file: nobody is at it any more
SWEEP_EVERY = 60.0  # seconds


async def serve(door: Door, resource: Resource, request: Request) -> Response:
    """Lines of JSON, which `mindhold import` reads again. Raises MindholdError."""
    given = resource.given(request.path_params, query_of(request))
    assert isinstance(given, ExportInput)
    running = await door.opening.running()
    if request.method == "HEAD":
        return await _looked_at(running, resource, request, given)
    path = door.settings.export_dir / FILE.format(secrets.token_hex(16))
    writing = running.run(
        resource.serves,
        given.model_copy(update={"path": str(path)}),
        caller=request.scope[CALLER_KEY],
        agent=header(request, AGENT),
    )
    try:
        await _unless_stopped(writing, request.scope[STOPPING_KEY])
    except (asyncio.CancelledError, Stopped):
        _remove(path)
        raise
    return _Download(path)


async def sweep_always(folder: Path) -> None:
    """Remove what killed servers left there, until cancelled."""
    while True:
        await asyncio.to_thread(sweep, folder, before=time.time() - LEFT_AFTER)
        await asyncio.sleep(SWEEP_EVERY)


def sweep(folder: Path, *, before: float) -> None:
    """Remove downloads that were last written to before that moment of the epoch."""
    with suppress(OSError):  # there may be no such folder
        for path in [path for pattern in LEFT for path in folder.glob(pattern)]:
            with suppress(OSError):
                if path.stat().st_mtime < before:
                    path.unlink()


async def _looked_at(running: Running, resource: Resource, request: Request, given: ExportInput) -> Response:
    """What a download would begin with, after the same questions; nothing is written for it. Raises MindholdError."""
    caller = request.scope[CALLER_KEY]

    async def nothing(_call: Call, _given: ExportInput) -> Output:
        return ExportResult(path="", memories=0, links=0, versions=0, scopes=0)

    await running.run(
        replace(resource.serves, run=nothing), given, caller=caller, agent=header(request, AGENT)
    )
    if given.scope:
        await ask(running, "show_scope", caller=caller, name=given.scope)
    answer = Response(media_type=NDJSON, headers=_headers())
    del answer.headers["content-length"]  # nobody knows yet how much it would be
    return answer


async def _unless_stopped(writing: Awaitable[Output], stopping: Stopping) -> None:
    """Raises Stopped, MindholdError."""
    written = asyncio.ensure_future(writing)
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({written, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not written.done():
            raise Stopped(
                "The server stops before the export is written.", advice="Ask again when it is back."
            )
        written.result()
    finally:
        stopped.cancel()
        written.cancel()
        await asyncio.wait({written})


def _headers() -> dict[str, str]:
    name = f"mindhold-{datetime.now(UTC):%Y%m%d-%H%M%S}.jsonl"
    return {"Content-Disposition": f'attachment; filename="{name}"'}


class _Download(Response):
    """A file that is removed once it was sent, also to a client who leaves before."""

    def __init__(self, path: Path) -> None:
        super().__init__(media_type=NDJSON, headers=_headers())
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._path.open("rb") as file:
                _remove(self._path)  # what has no name can't be left behind; not so on Windows
                self.headers["content-length"] = str(_size(file))
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await _sent(file, send, gone=asyncio.ensure_future(_left(receive)))
        finally:
            _remove(self._path)


def _size(file: BinaryIO) -> int:
    size = file.seek(0, 2)
    file.seek(0)
    return size


async def _sent(file: BinaryIO, send: Send, *, gone: asyncio.Future[None]) -> None:
    try:
        while not gone.done() and (piece := await asyncio.to_thread(file.read, PIECE)):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        gone.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
