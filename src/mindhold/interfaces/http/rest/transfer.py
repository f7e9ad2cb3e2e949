"""Import of messages as JSON lines while they arrive, and export as a download."""

from __future__ import annotations

import asyncio
import json
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
from mindhold.interfaces.http.context import HttpContext
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
from mindhold.interfaces.http.rest.responses import resource_error_response
from mindhold.interfaces.http.shutdown import STOPPING_KEY, ServerStopped, Shutdown
from mindhold.interfaces.runtime import CALLER_KEY, OpenMindhold, call_operation
from mindhold.memories.transfer import ExportInput, ExportResult
from mindhold.model.errors import InvalidInput, MindholdError
from mindhold.operations import Context, Output, invalid_input

_MARK = b"\xef\xbb\xbf"  # with which some programs begin UTF-8
_NOTHING = b" \t\r"


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """One that says something, by its number from 1; `text` is None for one that is too long."""

    number: int
    text: bytes | None


class LineSplitter:
    """Holds no more than one line. Empty ones are counted and passed over, and so is the rest of a long one."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._number = 0
        self._dropping = False

    @property
    def held(self) -> int:
        """Bytes of a line that hasn't ended yet."""
        return len(self._begun)

    def feed(self, piece: bytes) -> list[NumberedLine]:
        """The lines that end in it."""
        found: list[NumberedLine] = []
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            found += self._ended(piece[start:end])
            start = end + 1
        self._keep(piece[start:])
        return found

    def end(self) -> list[NumberedLine]:
        """The last line, if it says something; a line's end after it is no matter."""
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
MOST_LINES = 500  # of a lot
MOST_BYTES = 1_000_000
LONGEST_WAIT = 1.0  # seconds that a line waits for others to be stored with
LAST_MOMENT = 0.5  # seconds that lines are taken after the server was told to stop
BREATH = 100  # lines that are read before others have their turn
TELL_EVERY = 1.0  # seconds: a client who sends before it reads must not be waited for

COUNTS = ("imported", "repeated", "failed", "indexed", "quarantined", "redacted")

Tell = Callable[[SaveMessagesResult], Awaitable[None]]


def is_import(scope: Scope) -> bool:
    """Whether a request's body is read here, piece by piece."""
    if scope["method"] != "POST" or not is_api_path(scope):
        return False
    with suppress(InvalidInput):  # ApiPaths answers it
        path = path_of(scope)
        return any(pattern.match(path) for pattern in _import_patterns())
    return False


@cache
def _import_patterns() -> list[re.Pattern[str]]:
    return [compile_path(row.path)[0] for row in resources() if row.stream == "import"]


async def serve_import(door: HttpContext, resource: Resource, request: Request) -> Response:
    """How much was imported; line by line while it goes on, if the client would have it so. Raises MindholdError."""
    _check_media(request)
    given = resource.given(
        request.path_params, query_of(request), {"messages": []}, idempotency_key=header(request, KEY)
    )
    assert isinstance(given, SaveMessagesInput)
    importing = _Importing(
        await door.opening.running(), resource, given, request, longest=door.settings.serve.largest_body
    )
    await importing.begin()  # before anything is read: there may be no such project, or it may not be written
    if NDJSON in request.headers.get("accept", ""):
        return _Told(importing)
    try:
        await importing.read(request.stream())
    except MindholdError as error:
        return importing.broken(error)
    return importing.answer()


class _Importing:
    """One request."""

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
        self._first = 1  # the number of the lot's first line
        self._size = 0
        self._since = 0.0  # when the lot's first line came
        self._until = 0.0  # when no more is taken, once the server stops
        self._stopping: Shutdown = request.scope[STOPPING_KEY]
        self._flying: asyncio.Task[SaveMessagesResult] | None = None
        self._sum: SaveMessagesResult | None = None
        self._errors: list[LineError] = []
        self._failed = 0

    async def begin(self) -> None:
        """Raises MindholdError if nothing could be stored."""
        self._sum = await self._save(self._given)

    async def read(self, pieces: AsyncIterator[bytes], tell: Tell | None = None) -> None:
        """To the end, or until the client leaves or the server stops. Raises ClientDisconnect, MindholdError."""
        cutter = LineSplitter(self._longest)
        told = self._began
        try:
            while (piece := await self._next(pieces)) is not None:
                for number, line in enumerate(cutter.feed(piece), 1):
                    await self._add(line)
                    if not number % BREATH:
                        await asyncio.sleep(0)
                if tell is not None and time.monotonic() - told >= TELL_EVERY:
                    told = time.monotonic()
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
        """A piece, or None at the end. A lot that waited long enough is stored meanwhile. Raises ClientDisconnect, Stopped."""
        await self._hand_on_in_time()
        coming = asyncio.create_task(_piece(pieces))
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            while not coming.done() and not stopped.done():
                left = self._since + LONGEST_WAIT - time.monotonic() if self._lot else None
                await asyncio.wait({coming, stopped}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                await self._hand_on_in_time()
            if stopped.done():
                await self._last(coming)
            return coming.result()
        finally:
            for one in (coming, stopped):
                one.cancel()

    async def _last(self, coming: asyncio.Task[bytes | None]) -> None:
        """What is on its way when the server stops is taken for a moment more. Raises Stopped."""
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
        """What became of the lines so far."""
        assert self._sum is not None
        return self._sum.model_copy(
            update={
                "failed": self._sum.failed + self._failed,
                "errors": sorted(self._errors, key=lambda error: error.line)[:MOST_TOLD],
                "seconds": round(time.monotonic() - self._began, 3),
            }
        )

    def answer(self) -> Response:
        """The same, for a client."""
        told = self.result().model_dump_json()
        return Response(told, status_code=self.resource.status, media_type="application/json")

    def broken(self, error: MindholdError) -> Response:
        """What it ended with, and how far it had come: the rest may be sent again under the same key."""
        answer = resource_error_response(
            error, project=self.request.path_params.get("project_id"), expected=False
        )
        told = json.loads(bytes(answer.body)) | counts(self.result())
        return JSONResponse(told, status_code=answer.status_code)

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
            told = error.message.replace("The body", "The line").replace("line 1, column", "column")
            self._wrong(line.number, told, error.code)
        except ValidationError as error:
            place = error.errors(include_url=False, include_input=False)[0]["loc"]
            if place and (wrong := self.resource.wrong.get(str(place[0]))):
                self._wrong(line.number, wrong.error, wrong.code)
            else:
                said = invalid_input(error, known=list(MessageLine.model_fields))
                self._wrong(line.number, said.message, said.code, advice=said.advice)
        return None

    def _wrong(self, number: int, error: str, code: str, *, advice: str = "") -> None:
        self._failed += 1
        if len(self._errors) < MOST_TOLD:
            self._errors.append(line_error(number, error, code, advice=advice))

    async def _hand_on(self, *, embed: bool = True) -> None:
        """Let the lot be stored while the next one is read; there is never more than one before it."""
        await self._land()
        if self._lot:
            embed = embed and self._given.embed
            given = self._given.model_copy(
                update={"messages": self._lot, "first": self._first, "embed": embed}
            )
            self._flying = asyncio.create_task(self._save(given))
            self._lot, self._size = [], 0

    async def _land(self) -> None:
        if self._flying is None:
            return
        flying, self._flying = self._flying, None
        done = await flying
        assert self._sum is not None
        self._sum = self._sum.model_copy(
            update={name: getattr(self._sum, name) + getattr(done, name) for name in COUNTS}
            | {"embedding_model": done.embedding_model or self._sum.embedding_model}
        )
        self._errors += done.errors[: max(0, MOST_TOLD - len(self._errors))]

    async def _save(self, given: SaveMessagesInput) -> SaveMessagesResult:
        done: SaveMessagesResult = await self._running.run(
            self.resource.serves,
            given,
            caller=self.request.scope[CALLER_KEY],
            agent=self._agent,
        )
        return done


async def _piece(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)


def counts(result: SaveMessagesResult) -> dict[str, float]:
    """How far an import has come."""
    return {name: getattr(result, name) for name in (*COUNTS, "seconds")}


class _Told(Response):
    """An import that is told of while it goes on; the last line is the whole answer, or what it ended with."""

    def __init__(self, importing: _Importing) -> None:
        super().__init__(media_type=NDJSON)
        self._importing = importing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Compression would keep the lines back.
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
    """Raises WrongMedia."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in KINDS:
        raise UnsupportedMedia("The body must be lines of JSON.", advice=f"Send `Content-Type: {NDJSON}`.")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMedia("The body must not be compressed.", advice="Send it as it is.")


PIECE = 262_144
FILE = ".download-{}.jsonl"
LEFT = (FILE.format("*"), f".{FILE.format('*')}.*.partial")
LEFT_AFTER = 600.0  # seconds that nothing was written to a file: nobody is at it any more
SWEEP_EVERY = 60.0  # seconds


async def serve_export(door: HttpContext, resource: Resource, request: Request) -> Response:
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
    except (asyncio.CancelledError, ServerStopped):
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


async def _looked_at(
    running: OpenMindhold, resource: Resource, request: Request, given: ExportInput
) -> Response:
    """What a download would begin with, after the same questions; nothing is written for it. Raises MindholdError."""
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
    del answer.headers["content-length"]  # nobody knows yet how much it would be
    return answer


async def _unless_stopped(writing: Awaitable[Output], stopping: Shutdown) -> None:
    """Raises Stopped, MindholdError."""
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
