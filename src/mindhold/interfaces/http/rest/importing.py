"""Messages by the hundred thousand: lines of JSON, stored in lots while more of them arrive.

No more than two lots and a line are held at a time, and none for long. A line that can't be stored is told by its number,
and the rest goes on; of a client who leaves, or whom the server leaves, what came is kept.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import cache

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from mindhold.dialects.rest.shape import Resource
from mindhold.dialects.rest.table import resources
from mindhold.interfaces.http.door import Door
from mindhold.interfaces.http.rest.answering import failed
from mindhold.interfaces.http.rest.lines import Line, LineCutter
from mindhold.interfaces.http.rest.paths import Paths, is_within
from mindhold.interfaces.http.rest.reading import AGENT, KEY, WrongMedia, header, parsed, query_of
from mindhold.interfaces.http.stopping import STOPPING_KEY, Stopped, Stopping
from mindhold.interfaces.running import CALLER_KEY, Running
from mindhold.model.errors import InvalidInput, MindholdError
from mindhold.operations.message_import import (
    MOST_TOLD,
    LineError,
    MessageLine,
    SaveMessagesInput,
    SaveMessagesResult,
    line_error,
)
from mindhold.operations.wording import invalid

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
    if scope["method"] != "POST" or not is_within(scope):
        return False
    with suppress(InvalidInput):  # it is told where paths are read
        return _paths().find(scope) is not None
    return False


@cache
def _paths() -> Paths:
    return Paths(row for row in resources() if row.stream == "import")


async def serve(door: Door, resource: Resource, request: Request) -> Response:
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
        running: Running,
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
        self._stopping: Stopping = request.scope[STOPPING_KEY]
        self._flying: asyncio.Task[SaveMessagesResult] | None = None
        self._sum: SaveMessagesResult | None = None
        self._errors: list[LineError] = []
        self._failed = 0

    async def begin(self) -> None:
        """Raises MindholdError if nothing could be stored."""
        self._sum = await self._save(self._given)

    async def read(self, pieces: AsyncIterator[bytes], tell: Tell | None = None) -> None:
        """To the end, or until the client leaves or the server stops. Raises ClientDisconnect, MindholdError."""
        cutter = LineCutter(self._longest)
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
        except (ClientDisconnect, Stopped) as ended:
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
            raise Stopped(
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
        answer = failed(error, project=self.request.path_params.get("project_id"), expected=False)
        told = json.loads(bytes(answer.body)) | counts(self.result())
        return JSONResponse(told, status_code=answer.status_code)

    async def _add(self, line: Line) -> None:
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

    def _read(self, line: Line) -> MessageLine | None:
        if line.text is None:
            self._wrong(
                line.number,
                f"The line has more than {self._longest:,} bytes.",
                "CONTENT_TOO_LARGE",
                advice="Split the message, or have serve.largest_body raised.",
            )
            return None
        try:
            return MessageLine.model_validate(parsed(line.text))
        except InvalidInput as error:
            told = error.message.replace("The body", "The line").replace("line 1, column", "column")
            self._wrong(line.number, told, error.code)
        except ValidationError as error:
            place = error.errors(include_url=False, include_input=False)[0]["loc"]
            if place and (wrong := self.resource.wrong.get(str(place[0]))):
                self._wrong(line.number, wrong.error, wrong.code)
            else:
                said = invalid(error, known=list(MessageLine.model_fields))
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
        raise WrongMedia("The body must be lines of JSON.", advice=f"Send `Content-Type: {NDJSON}`.")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise WrongMedia("The body must not be compressed.", advice="Send it as it is.")
