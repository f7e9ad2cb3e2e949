"""Server-sent events: the stream of changes and jobs, until the client leaves or the server stops."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mindhold.contracts.rest.resource import Resource
from mindhold.interfaces.http.auth import CredentialLookup, bearer
from mindhold.interfaces.http.context import CREDENTIAL_KEY, HttpContext, disconnected, error_response
from mindhold.interfaces.http.limits import address_of
from mindhold.interfaces.http.rest.requests import AGENT, header, query_of
from mindhold.interfaces.runtime import CALLER_KEY, OpenMindhold
from mindhold.memories.changes import ChangeView, JobChangeView, RecentChangesInput, RecentChangesResult
from mindhold.model.errors import MindholdError, NotFound, Refused

LATE = timedelta(seconds=30)  # the longest time between the timestamp of a write and its visibility
BRIEF = timedelta(seconds=2)  # the usual time
FAR_EVERY = timedelta(seconds=10)  # time between two rounds that look back by LATE
MOST_KNOWN_JOBS = 200
MOST_PAGES = 250  # pages sent to a client that continues; older changes are skipped
FEW_PAGES = 25  # pages read before a new client is ready
MOST_TOLD = 10_000  # remembered changes
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
ENDED = frozenset({"done", "failed", "cancelled"})
_Place = tuple[datetime, str]  # position of a change: time, id


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream."""

    name: str
    data: str  # JSON
    id: str = ""

    def encoded(self) -> bytes:
        number = f"id: {self.id}\n" if self.id else ""
        return f"{number}event: {self.name}\ndata: {self.data}\n\n".encode("utf-8", "surrogatepass")


class Listener:
    """Finds the new events of one stream.

    It works in rounds. The store returns the latest changes first, so a round goes back page by page to where the previous
    one ended, remembering only where each page begins, and then forward again, sending the changes of each page.
    """

    def __init__(self, given: RecentChangesInput, *, last: str | None = None) -> None:
        self._given = given
        self._upto = _moment(last)  # time where the last round ended
        self._last = "" if self._upto is None else str(last)
        self._ready = False
        self._since: datetime | None = None  # how far the round goes back; None between rounds
        self._low: _Place = _EPOCH, ""  # everything before it was sent in this round
        self._pages: list[tuple[str, _Place]] = []  # still to be sent, oldest last: cursor and position
        self._sent: dict[str, datetime] = {}  # id -> updated
        self._floor = _EPOCH  # no round goes further back
        self._jobs: dict[str, tuple[JobChangeView, datetime]] = {}  # job, and when it was last seen
        self._far: datetime | None = None  # time of the last round that went back by LATE

    @property
    def is_ready(self) -> bool:
        """Whether the ready event was sent."""
        return self._ready

    @property
    def under_way(self) -> bool:
        """Whether the round has more pages to read."""
        return self._since is not None

    def next_look(self, now: datetime) -> RecentChangesInput:
        """The next query to the store."""
        if self._since is None:
            back = BRIEF
            if self._far is None or now - self._far >= FAR_EVERY:
                self._far, back = now, LATE
            self._since = max((self._upto or now) - back, self._floor)
            self._low = self._since, ""
        before = self._pages[-1][0] if self._pages else None
        unfinished = [job_id for job_id, (job, _) in self._jobs.items() if job.state not in ENDED]
        query = {"since": self._since, "before": before, "known": unfinished[:MOST_KNOWN_JOBS]}
        return self._given.model_copy(update=query)

    def news(self, changes: RecentChangesResult) -> Iterator[StreamEvent]:
        """The new events in a result. A client that doesn't continue from an event id isn't sent existing changes."""
        first = not self._ready
        quiet = first and not self._last
        memories = list(self._memories(changes, quiet=quiet))
        if first and not (quiet and self.under_way):
            self._ready = True
            # A client that continues keeps its event id until the first change is sent.
            yield StreamEvent(
                "ready", json.dumps({"now": changes.now.isoformat()}), self._last or _number(changes.now)
            )
        if not quiet:
            yield from memories
        if self._ready:
            yield from self._job_news(changes, quiet=quiet)
        self._forget(changes.now - 2 * LATE)

    def _memories(self, changes: RecentChangesResult, *, quiet: bool) -> Iterator[StreamEvent]:
        if changes.next is not None and (oldest := _place(changes.memories[0])) > self._low:
            if len(self._pages) < (FEW_PAGES if quiet else MOST_PAGES):
                self._pages.append((changes.next, oldest))
                return
            if self._sent.get(oldest[1]) != oldest[0]:
                yield StreamEvent("behind", json.dumps({"since": oldest[0].isoformat()}))
            self._floor = max(self._floor, oldest[0] + _TICK)
        for memory in changes.memories:
            if _place(memory) >= self._low and self._sent.get(memory.id) != memory.updated:
                self._sent[memory.id] = memory.updated
                yield StreamEvent("memory", memory.model_dump_json(), _number(memory.updated))
        if self._pages:
            self._low = self._pages.pop()[1]
        else:
            self._since, self._upto = None, changes.now

    def _job_news(self, changes: RecentChangesResult, *, quiet: bool) -> Iterator[StreamEvent]:
        for job in changes.jobs:
            before, _ = self._jobs.get(job.id, (None, None))
            self._jobs[job.id] = job, changes.now
            if before != job and not (quiet and job.state != "running"):
                yield StreamEvent("job", job.model_dump_json())

    def _forget(self, horizon: datetime) -> None:
        """Forget changes and jobs that no round will see again. If there are very many, keep the latest half."""
        if len(self._sent) > MOST_TOLD:
            self._floor = max(self._floor, sorted(self._sent.values())[-MOST_TOLD // 2] + _TICK)
        oldest = max(horizon, self._floor)
        self._sent = {key: moment for key, moment in self._sent.items() if moment >= oldest}
        self._jobs = {key: (job, seen) for key, (job, seen) in self._jobs.items() if seen >= horizon}


def _place(memory: ChangeView) -> _Place:
    return memory.updated, memory.id


def _number(moment: datetime) -> str:
    """The id of an event: microseconds since the epoch, which is valid on every server of this store."""
    return str((moment - _EPOCH) // _TICK)


def _moment(last: str | None) -> datetime | None:
    """The time of an event id; None if there is none or it isn't ours."""
    if last is None or not (last.isascii() and last.isdecimal()) or len(last) > 17:
        return None
    try:
        return _EPOCH + int(last) * _TICK
    except OverflowError:
        return None


MEDIA = "text/event-stream"
LAST = "last-event-id"
LOOK_SECONDS = 2.0  # between two looks for writes of other processes
LEAST_SECONDS = 0.05  # the shortest time between two looks
SECONDS_EACH = 0.0005  # added for each memory that the last look read, so that a client far behind leaves room for others
SECONDS_OF_MANY = 0.01  # added for each listener
ALIVE_SECONDS = 15.0
MOST_EACH = 16  # streams per credential
MOST = 256
CROWD = "mindhold_listeners"  # attribute of the application's state that counts listeners
ALIVE = b": still here\n\n"
Look = Callable[[RecentChangesInput], Awaitable[RecentChangesResult]]


async def serve(door: HttpContext, resource: Resource, request: Request) -> Response:
    """The event stream. Raises MindholdError if it can't be opened."""
    request_input = resource.given(request.path_params, query_of(request))
    assert isinstance(request_input, RecentChangesInput)
    caller, agent = request.scope[CALLER_KEY], header(request, AGENT)
    running = await door.opening.running()

    async def look(asked: RecentChangesInput) -> RecentChangesResult:
        return await running.run(resource.serves, asked, caller=caller, agent=agent)

    async def may_stay() -> bool:
        secret = bearer(request.scope)
        if secret is None:  # a client on this machine
            return True
        result = await CredentialLookup(door).whose(secret, scope=request.scope)
        return result is not None and result.caller == caller

    listener = Listener(request_input, last=request.headers.get(LAST))
    first = list(listener.news(await look(listener.next_look(datetime.now(UTC)))))
    if request.method == "HEAD":
        return Response(media_type=MEDIA)
    crowd = _crowd(request)
    name = request.scope.get(CREDENTIAL_KEY) or address_of(request.scope)
    if crowd.total() >= MOST or crowd[name] >= MOST_EACH:
        return error_response(
            429,
            "Too many listen already.",
            "TOO_MANY_REQUESTS",
            advice=f"One key may have {MOST_EACH} streams open: close one.",
            headers={"Retry-After": "30"},
        )
    while not listener.is_ready:
        first = list(listener.news(await look(listener.next_look(datetime.now(UTC)))))
    return _Stream(running, listener, look=look, may_stay=may_stay, first=first, crowd=crowd, name=name)


def _crowd(request: Request) -> Counter[str]:
    state = request.app.state
    if not hasattr(state, CROWD):
        setattr(state, CROWD, Counter())
    crowd: Counter[str] = getattr(state, CROWD)
    return crowd


class _Stream(Response):
    """The stream, which is counted while it is open. It reads from the store no faster than the client reads."""

    media_type = MEDIA

    def __init__(
        self,
        running: OpenMindhold,
        listener: Listener,
        *,
        look: Look,
        may_stay: Callable[[], Awaitable[bool]],
        first: list[StreamEvent],
        crowd: Counter[str],
        name: str,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._running = running
        self._listener = listener
        self._look = look
        self._may_stay = may_stay
        self._first = first
        self._crowd = crowd
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._crowd[self._name] += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._until_one_leaves(receive, send)
        finally:
            self._crowd[self._name] -= 1
            if not self._crowd[self._name]:
                del self._crowd[self._name]

    async def _until_one_leaves(self, receive: Receive, send: Send) -> None:
        telling = asyncio.ensure_future(self._tell(send))
        leaving = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if telling.done():
                telling.result()
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            for task in (telling, leaving):
                task.cancel()
            await asyncio.gather(telling, leaving, return_exceptions=True)

    async def _tell(self, send: Send) -> None:
        """Send events until the client may no longer listen or the project is gone."""

        async def piece(body: bytes) -> None:
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})

        await piece(b"".join(event.encoded() for event in self._first))
        checked, pause, seen = time.monotonic(), LEAST_SECONDS, -1
        while True:
            await asyncio.sleep(pause)
            if not self._listener.under_way:
                seen = await self._running.await_change(seen, LOOK_SECONDS)
            if time.monotonic() - checked >= ALIVE_SECONDS:
                checked = time.monotonic()
                if not await self._stays():
                    return
                await piece(ALIVE)
            try:
                result = await self._look(self._listener.next_look(datetime.now(UTC)))
            except (NotFound, Refused):  # the project is gone
                return
            except MindholdError:  # a busy store: try again later
                pause = LOOK_SECONDS
                continue
            many = SECONDS_OF_MANY * self._crowd.total()
            pause = max(LEAST_SECONDS, many) + SECONDS_EACH * len(result.memories)
            for event in self._listener.news(result):
                await piece(event.encoded())

    async def _stays(self) -> bool:
        try:
            return await self._may_stay()
        except MindholdError:
            return True  # can't be checked now
