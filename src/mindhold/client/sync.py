"""The client that waits."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from mindhold.client.connected import Connected
from mindhold.client.events import Event, Listening
from mindhold.client.methods import Turn
from mindhold.client.wire import Ask, Heard, Pause, Reply, Step, Talk, line_of

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")


class Mindhold(Connected["httpx2.Client"]):
    """A Mindhold server. Safe to use from several threads.

    `key` opens it, where it wants one; `agent` is for whom calls are made. `timeout` is in seconds, of one request and its
    answer, but for imports, exports and events, which may take as long as they go on; up to twice as long where the answer
    only begins in time. One that fails for a passing reason is made again, up to `tries` times, `pause` seconds and then longer
    apart: writes carry a key of their own, so that none is done twice. Raises SettingsError for an address that can't be, or over which others
    could read the key, unless `insecure`.
    """

    @staticmethod
    def _kind() -> type[httpx2.Client]:
        import httpx2

        return httpx2.Client

    def close(self) -> None:
        """Idempotent."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def talk(self, talk: Talk[T], /) -> T:
        """Do as it says, until it has its answer. Raises MindholdError."""
        heard: Heard = None
        try:
            while True:
                heard = self._done(talk.send(heard))
        except StopIteration as end:
            answer: T = end.value
            return answer
        finally:
            talk.close()

    def turn(self, turn: Turn[T], /) -> Iterator[T]:
        """Page after page, each when it is needed."""
        cursor: str | None = None
        while True:
            page = self.talk(turn(cursor))
            yield from page.items
            if page.next is None:
                return
            cursor = page.next

    def events(
        self, *, project: str | None = None, topics: tuple[str, ...] = (), after: str | None = None
    ) -> Generator[Event]:
        """What happens, as it happens, until you close it: `ready` first, then `memory` for one that is new or changed, and
        `job` for one that got further. `topics` are memories, jobs, or both.

        A connection that breaks is made anew, and nothing is missed that the server still knows. `after` is the id of
        an event that was heard before.
        """
        import httpx2

        from mindhold.client.connection import NO_LIMIT, lost

        listening = Listening(self.wire, project=project, topics=topics, last=after)
        while True:
            try:
                with self._client.stream(
                    "GET", listening.target, headers=listening.headers(), timeout=NO_LIMIT
                ) as response:
                    if response.status_code == 200:
                        for told in httpx2.EventSource(response):
                            if event := listening.heard(told.event, told.data, told.id):
                                yield event
                        pause = listening.ended()
                    else:
                        pause = listening.failed(
                            Reply(response.status_code, response.headers, response.read())
                        )
            except httpx2.TransportError as error:
                pause = listening.failed(lost(error))
            time.sleep(pause)

    def _done(self, step: Step) -> Heard:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        import httpx2

        from mindhold.client.connection import NO_LIMIT, Body, lost

        long: Any = {"timeout": NO_LIMIT} if step.is_long else {}
        body = Body(seconds=None if long else self._timeout)
        try:
            with self._client.stream(
                step.method, step.target, headers=dict(step.headers), content=_content(step), **long
            ) as response:
                if step.sink is not None and response.status_code == 200:
                    for piece in response.iter_bytes():
                        step.sink.write(piece)
                    return Reply(response.status_code, response.headers)
                for piece in response.iter_bytes():
                    body.take(piece)
                return Reply(response.status_code, response.headers, body.whole())
        except httpx2.TransportError as error:
            return lost(error)


def _content(ask: Ask) -> bytes | Iterator[bytes] | None:
    if ask.lines is None:
        return ask.body
    if isinstance(ask.lines, AsyncIterable):
        raise TypeError("messages that come asynchronously need AsyncMindhold")
    return (line_of(message) for message in ask.lines)
