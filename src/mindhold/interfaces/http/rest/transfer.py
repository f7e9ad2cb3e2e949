"""Import of messages as JSON lines while they arrive, and export as a download."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from mindhold.contracts.rest.resource import Resource, resources
from mindhold.conversations.message_import import (
    MOST_TOLD,
    LineError,
    MessageLine,
    SaveMessagesInput,
    SaveMessagesResult,
    line_error,
)
from mindhold.interfaces.http.context import HttpContext, disconnected
from mindhold.interfaces.http.rest.requests import (
    AGENT,
    KEY,
    UnsupportedMedia,
    header,
    is_api_path,
    parse_json,
    path_of,
    query_of,
)
from mindhold.interfaces.http.rest.routes import resource_error_response
from mindhold.interfaces.http.shutdown import STOPPING_KEY, ServerStopped, Shutdown
from mindhold.interfaces.runtime import CALLER_KEY, OpenMindhold, call_operation
from mindhold.memories.transfer import ExportInput, ExportResult
from mindhold.model.errors import InvalidInput, MindholdError
from mindhold.operations import Context, Output, invalid_input

_MARK = b"\xef\xbb\xbf"  # the byte order mark of UTF-8
_NOTHING = b" \t\r"


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line that isn't empty, with its number from 1; `text` is None if it is too long."""

    number: int
    text: bytes | None


class LineSplitter:
    """Splits pieces into lines, holding at most one line. Empty lines and the rest of a long line are skipped but counted."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._number = 0
        self._dropping = False

    @property
    def held(self) -> int:
        """Bytes of the unfinished line."""
        return len(self._begun)

    def feed(self, piece: bytes) -> list[NumberedLine]:
        """The lines that end in this piece."""
        lines: list[NumberedLine] = []
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            lines += self._ended(piece[start:end])
            start = end + 1
        self._keep(piece[start:])
        return lines

    def end(self) -> list[NumberedLine]:
        """The last line, if it isn't empty; it needs no newline."""
        return self._ended(b"")

    def _keep(self, rest: bytes) -> None:
        if not self._dropping:
            self._begun += rest
        if len(self._begun) > self._longest + len(_MARK) + 1:
            self._begun.clear()
            self._dropping = True

    def _ended(self, rest: bytes) -> list[NumberedLine]:
        self._number += 1
        dropped, self._dropping = self._dropping, False
        text = bytes(self._begun) + rest
        self._begun.clear()
        if self._number == 1:
            text = text.removeprefix(_MARK)
        text = text.strip(_NOTHING)
        if dropped or len(text) > self._longest:
            return [NumberedLine(self._number, None)]
        return [NumberedLine(self._number, text)] if text else []


NDJSON = "application/x-ndjson"
KINDS = frozenset({NDJSON, "application/ndjson", "application/jsonl", "application/x-jsonlines"})
MOST_LINES = 500  # in a batch
MOST_BYTES = 1_000_000
LONGEST_WAIT = 1.0  # seconds that a line waits for its batch to fill
LAST_MOMENT = 0.5  # seconds that a stopping server still accepts lines
BREATH = 100  # lines read before other tasks get a turn
TELL_EVERY = 1.0  # seconds between progress lines; a client that sends before it reads must not block us

COUNTS = ("imported", "repeated", "failed", "indexed", "quarantined", "redacted")

Tell = Callable[[SaveMessagesResult], Awaitable[None]]


def is_import(scope: Scope) -> bool:
    """Whether the request is an import, whose body is streamed."""
    if scope["method"] != "POST" or not is_api_path(scope):
        return False
    with suppress(InvalidInput):  # ApiPaths answers invalid paths
        path = path_of(scope)
        return any(pattern.match(path) for pattern in _import_patterns())
    return False


@cache
def _import_patterns() -> list[re.Pattern[str]]:
    return [compile_path(row.path)[0] for row in resources() if row.stream == "import"]


async def serve_import(door: HttpContext, resource: Resource, request: Request) -> Response:
    """Import messages and return the counts, with progress lines if the client accepts them. Raises MindholdError."""
    _check_media(request)
    request_input = resource.given(
        request.path_params, query_of(request), {"messages": []}, idempotency_key=header(request, KEY)
    )
    assert isinstance(request_input, SaveMessagesInput)
    importing = _Import(
        await door.opening.running(),
        resource,
        request_input,
        request,
        longest=door.settings.serve.largest_body,
    )
    await importing.begin()  # before reading the body, to check that the project exists and may be written
    if NDJSON in request.headers.get("accept", ""):
        return _ProgressResponse(importing)
    try:
        await importing.read(request.stream())
    except MindholdError as error:
        return importing.broken(error)
    return importing.answer()


class _Import:
    """The import of one request."""

    def __init__(
        self,
        running: OpenMindhold,
        resource: Resource,
        given: SaveMessagesInput,
        request: Request,
        *,
        longest: int,
    ) -> None:
        self._running = running
        self.resource = resource
        self._given = given
        self.request = request
        self._longest = longest
        self._agent = header(request, AGENT)
        self._began = time.monotonic()
        self._lot: list[MessageLine | None] = []
        self._first = 1  # number of the batch's first line
        self._size = 0
        self._since = 0.0  # time of the batch's first line
        self._until = 0.0  # deadline for more lines once the server stops
        self._stopping: Shutdown = request.scope[STOPPING_KEY]
        self._flying: asyncio.Task[SaveMessagesResult] | None = None
        self._sum: SaveMessagesResult | None = None
        self._errors: list[LineError] = []
        self._failed = 0

    async def begin(self) -> None:
        """Check that messages can be stored. Raises MindholdError."""
        self._sum = await self._save(self._given)

    async def read(self, pieces: AsyncIterator[bytes], tell: Tell | None = None) -> None:
        """Read to the end, or until the client leaves or the server stops. Raises ClientDisconnect, MindholdError."""
        cutter = LineSplitter(self._longest)
        reported = self._began
        try:
            while (piece := await self._next(pieces)) is not None:
                for number, line in enumerate(cutter.feed(piece), 1):
                    await self._add(line)
                    if not number % BREATH:
                        await asyncio.sleep(0)
                if tell is not None and time.monotonic() - reported >= TELL_EVERY:
                    reported = time.monotonic()
                    await tell(self.result())
            for line in cutter.end():
                await self._add(line)
            await self._hand_on()
            await self._land()
        except (ClientDisconnect, ServerStopped) as ended:
            await self._hand_on(embed=isinstance(ended, ClientDisconnect))
            await self._land()
            raise
        finally:
            if self._flying is not None:
                self._flying.cancel()

    async def _next(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        """The next piece, or None at the end. Stores a batch that waited long enough meanwhile. Raises ClientDisconnect, ServerStopped."""
        await self._hand_on_in_time()
        coming = asyncio.create_task(_piece(pieces))
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            while not coming.done() and not stopped.done():
                remaining = self._since + LONGEST_WAIT - time.monotonic() if self._lot else None
                await asyncio.wait({coming, stopped}, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
                await self._hand_on_in_time()
            if stopped.done():
                await self._last(coming)
            return coming.result()
        finally:
            for task in (coming, stopped):
                task.cancel()

    async def _last(self, coming: asyncio.Task[bytes | None]) -> None:
        """When the server stops, wait a moment for a piece that is on its way. Raises ServerStopped."""
        now = time.monotonic()
        self._until = self._until or now + LAST_MOMENT
        if now < self._until:
            await asyncio.wait({coming}, timeout=self._until - now)
        if not coming.done() or now >= self._until:
            raise ServerStopped(
                "The server stops: what came is stored, and it may not be all.",
                advice="Send it all again under the same Idempotency-Key when it is back.",
            )

    async def _hand_on_in_time(self) -> None:
        if self._lot and time.monotonic() - self._since >= LONGEST_WAIT:
            await self._hand_on()

    def result(self) -> SaveMessagesResult:
        """The counts and errors so far."""
        assert self._sum is not None
        return self._sum.model_copy(
            update={
                "failed": self._sum.failed + self._failed,
                "errors": sorted(self._errors, key=lambda error: error.line)[:MOST_TOLD],
                "seconds": round(time.monotonic() - self._began, 3),
            }
        )

    def answer(self) -> Response:
        """The response with the result."""
        body = self.result().model_dump_json()
        return Response(body, status_code=self.resource.status, media_type="application/json")

    def broken(self, error: MindholdError) -> Response:
        """The response for an error, with the counts so far. The client may send everything again under the same key."""
        answer = resource_error_response(
            error, project=self.request.path_params.get("project_id"), expected=False
        )
        body = json.loads(bytes(answer.body)) | counts(self.result())
        return JSONResponse(body, status_code=answer.status_code)

    async def _add(self, line: NumberedLine) -> None:
        if self._lot and (
            line.number - self._first >= MOST_LINES or self._size + len(line.text or b"") > MOST_BYTES
        ):
            await self._hand_on()
        message = self._read(line)
        if message is None:
            return
        if not self._lot:
            self._first, self._since = line.number, time.monotonic()
        self._lot += [None] * (line.number - self._first - len(self._lot))
        self._lot.append(message)
        self._size += len(line.text or b"")

    def _read(self, line: NumberedLine) -> MessageLine | None:
        if line.text is None:
            self._wrong(
                line.number,
                f"The line has more than {self._longest:,} bytes.",
                "CONTENT_TOO_LARGE",
                advice="Split the message, or have serve.largest_body raised.",
            )
            return None
        try:
            return MessageLine.model_validate(parse_json(line.text))
        except InvalidInput as error:
            problem = error.message.replace("The body", "The line").replace("line 1, column", "column")
            self._wrong(line.number, problem, error.code)
        except ValidationError as error:
            place = error.errors(include_url=False, include_input=False)[0]["loc"]
            if place and (wrong := self.resource.wrong.get(str(place[0]))):
                self._wrong(line.number, wrong.error, wrong.code)
            else:
                invalid = invalid_input(error, known=list(MessageLine.model_fields))
                self._wrong(line.number, invalid.message, invalid.code, advice=invalid.advice)
        return None

    def _wrong(self, number: int, error: str, code: str, *, advice: str = "") -> None:
        self._failed += 1
        if len(self._errors) < MOST_TOLD:
            self._errors.append(line_error(number, error, code, advice=advice))

    async def _hand_on(self, *, embed: bool = True) -> None:
        """Store the batch while the next one is read; at most one batch is being stored."""
        await self._land()
        if self._lot:
            embed = embed and self._given.embed
            batch = self._given.model_copy(
                update={"messages": self._lot, "first": self._first, "embed": embed}
            )
            self._flying = asyncio.create_task(self._save(batch))
            self._lot, self._size = [], 0

    async def _land(self) -> None:
        if self._flying is None:
            return
        flying, self._flying = self._flying, None
        result = await flying
        assert self._sum is not None
        self._sum = self._sum.model_copy(
            update={name: getattr(self._sum, name) + getattr(result, name) for name in COUNTS}
            | {"embedding_model": result.embedding_model or self._sum.embedding_model}
        )
        self._errors += result.errors[: max(0, MOST_TOLD - len(self._errors))]

    async def _save(self, given: SaveMessagesInput) -> SaveMessagesResult:
        result: SaveMessagesResult = await self._running.run(
            self.resource.serves,
            given,
            caller=self.request.scope[CALLER_KEY],
            agent=self._agent,
        )
        return result


async def _piece(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


def counts(result: SaveMessagesResult) -> dict[str, float]:
    """The counts of an import so far."""
    return {name: getattr(result, name) for name in (*COUNTS, "seconds")}


class _ProgressResponse(Response):
    """The response of an import with progress lines; the last line is the full result or the error."""

    def __init__(self, importing: _Import) -> None:
        super().__init__(media_type=NDJSON)
        self._importing = importing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Compression would delay the lines.
        kind = [(b"content-type", NDJSON.encode()), (b"content-encoding", b"identity")]
        await send(
            {"type": "http.response.start", "status": self._importing.resource.status, "headers": kind}
        )

        async def say(line: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": line + b"\n", "more_body": more})

        async def tell(so_far: SaveMessagesResult) -> None:
            await say(json.dumps(counts(so_far)).encode())

        try:
            await self._importing.read(self._importing.request.stream(), tell)
        except MindholdError as error:
            await say(bytes(self._importing.broken(error).body), more=False)
        else:
            await say(self._importing.result().model_dump_json().encode(), more=False)


def _check_media(request: Request) -> None:
    """Raises UnsupportedMedia."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in KINDS:
        raise UnsupportedMedia("The body must be lines of JSON.", advice=f"Send `Content-Type: {NDJSON}`.")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMedia("The body must not be compressed.", advice="Send it as it is.")


PIECE = 262_144
FILE = ".download-{}.jsonl"
LEFT = (FILE.format("*"), f".{FILE.format('*')}.*.partial")
LEFT_AFTER = 600.0  # seconds without a write, after which a file is abandoned
SWEEP_EVERY = 60.0  # seconds


async def serve_export(door: HttpContext, resource: Resource, request: Request) -> Response:
    """The export as JSON lines, which `mindhold import` reads. Raises MindholdError."""
    request_input = resource.given(request.path_params, query_of(request))
    assert isinstance(request_input, ExportInput)
    running = await door.opening.running()
    if request.method == "HEAD":
        return await _head_response(running, resource, request, request_input)
    path = door.settings.export_dir / FILE.format(secrets.token_hex(16))
    writing = running.run(
        resource.serves,
        request_input.model_copy(update={"path": str(path)}),
        caller=request.scope[CALLER_KEY],
        agent=header(request, AGENT),
    )
    try:
        await _unless_stopped(writing, request.scope[STOPPING_KEY])
    except (asyncio.CancelledError, ServerStopped):
        _remove(path)
        raise
    return _Download(path)


async def sweep_always(folder: Path) -> None:
    """Remove downloads that killed servers left behind, until cancelled."""
    while True:
        await asyncio.to_thread(sweep, folder, before=time.time() - LEFT_AFTER)
        await asyncio.sleep(SWEEP_EVERY)


def sweep(folder: Path, *, before: float) -> None:
    """Remove downloads last written before that Unix time."""
    with suppress(OSError):  # the folder may not exist
        for path in [path for pattern in LEFT for path in folder.glob(pattern)]:
            with suppress(OSError):
                if path.stat().st_mtime < before:
                    path.unlink()


async def _head_response(
    running: OpenMindhold, resource: Resource, request: Request, given: ExportInput
) -> Response:
    """The response to HEAD: makes the same checks, writes nothing. Raises MindholdError."""
    from mindhold.projects.scope_operations import SHOW_SCOPE

    caller = request.scope[CALLER_KEY]

    async def nothing(_call: Context, _given: ExportInput) -> Output:
        return ExportResult(path="", memories=0, links=0, versions=0, scopes=0)

    await running.run(
        replace(resource.serves, run=nothing), given, caller=caller, agent=header(request, AGENT)
    )
    if given.scope:
        await call_operation(running, SHOW_SCOPE, caller=caller, name=given.scope)
    answer = Response(media_type=NDJSON, headers=_headers())
    del answer.headers["content-length"]  # the size is unknown
    return answer


async def _unless_stopped(writing: Awaitable[Output], stopping: Shutdown) -> None:
    """Wait for the export. Raises ServerStopped, MindholdError."""
    written = asyncio.ensure_future(writing)
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({written, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not written.done():
            raise ServerStopped(
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
    """Sends a file and removes it, also if the client leaves early."""

    def __init__(self, path: Path) -> None:
        super().__init__(media_type=NDJSON, headers=_headers())
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._path.open("rb") as file:
                _remove(self._path)  # an open file without a name can't be left behind; fails on Windows
                self.headers["content-length"] = str(os.fstat(file.fileno()).st_size)
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await _send_file(file, send, gone=asyncio.ensure_future(disconnected(receive)))
        finally:
            _remove(self._path)


async def _send_file(file: BinaryIO, send: Send, *, gone: asyncio.Future[None]) -> None:
    try:
        while not gone.done() and (piece := await asyncio.to_thread(file.read, PIECE)):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        gone.cancel()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
