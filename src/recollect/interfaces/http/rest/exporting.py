"""An export as a download: written to a file of its own first, so that it is whole, and gone afterwards."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from recollect.dialects.rest.shape import Resource
from recollect.interfaces.http.door import Door
from recollect.interfaces.http.rest.reading import AGENT, header, query_of
from recollect.interfaces.running import CALLER_KEY

NDJSON = "application/x-ndjson"
PIECE = 262_144


async def serve(door: Door, resource: Resource, request: Request) -> Response:
    """Lines of JSON, which `recollect import` reads again. Raises RecollectError."""
    path = door.settings.export_dir / f".download-{secrets.token_hex(16)}.jsonl"
    given = resource.given(request.path_params, query_of(request))
    agent = header(request, AGENT)
    running = await door.opening.running()
    try:
        await running.run(
            resource.serves,
            given.model_copy(update={"path": str(path)}),
            caller=request.scope[CALLER_KEY],
            agent=agent,
        )
    except asyncio.CancelledError:
        _remove(path)
        raise
    return _Download(path)


class _Download(Response):
    """A file that is removed once it was sent, also to a client who leaves before."""

    def __init__(self, path: Path) -> None:
        name = f"recollect-{datetime.now(UTC):%Y%m%d-%H%M%S}.jsonl"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        super().__init__(media_type=NDJSON, headers=headers)
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
