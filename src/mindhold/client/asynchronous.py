"""The client that is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from mindhold.client.connected import Connected
from mindhold.client.events import Event, Listening
from mindhold.client.methods import Turn
from mindhold.client.wire import Ask, Heard, Lost, Pause, Reply, Step, Talk, line_of

if TYPE_CHECKING:
    import httpx2

    from mindhold.operations.catalogue import Input, Operation, Output

T = TypeVar("T")
I = TypeVar("I", bound="Input")  # noqa: E741
O = TypeVar("O", bound="Output")  # noqa: E741


class AsyncMindhold(Connected["httpx2.AsyncClient"]):
    """A Mindhold server, asked from an event loop. Arguments and methods are those of Mindhold."""

    @staticmethod
    def _kind() -> type[httpx2.AsyncClient]:
        import httpx2

        return httpx2.AsyncClient

    async def close(self) -> None:
        """Idempotent."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def operate(
        self, operation: Operation[I, O], given: I, *, agent: str | None = None, key: str | None = None
    ) -> O:
        """An operation of the catalogue, for that agent; a write with the same key is done once. Raises MindholdError."""
        return await self.talk(self.wire.operate(operation, given, agent=agent, key=key))

    async def talk(self, talk: Talk[T], /) -> T:
        """Do as it says, until it has its answer. Raises MindholdError."""
        heard: Heard = None
        try:
            while True:
                heard = await self._done(talk.send(heard))
        except StopIteration as end:
            answer: T = end.value
            return answer
        finally:
            talk.close()

    async def turn(self, turn: Turn[T], /) -> AsyncIterator[T]:
        """Page after page, each when it is needed."""
        cursor: str | None = None
        while True:
            page = await self.talk(turn(cursor))
            for item in page.items:
                yield item
            if page.next is None:
                return
            cursor = page.next

    async def events(
        self, *, project: str | None = None, topics: tuple[str, ...] = (), after: str | None = None
    ) -> AsyncGenerator[Event]:
        """What happens, as it happens, until you close it: see Mindhold.events."""
        import httpx2

        from mindhold.client.connection import NO_LIMIT, lost

        listening = Listening(self.wire, project=project, topics=topics, last=after)
        while True:
            try:
                async with self._client.stream(
                    "GET", listening.target, headers=listening.headers(), timeout=NO_LIMIT
                ) as response:
                    if response.status_code == 200:
                        async for told in httpx2.EventSource(response):
                            if event := listening.heard(told.event, told.data, told.id):
                                yield event
                        pause = listening.ended()
                    else:
                        pause = listening.failed(
                            Reply(response.status_code, response.headers, await response.aread())
                        )
            except httpx2.TransportError as error:
                pause = listening.failed(lost(error))
            await asyncio.sleep(pause)

    async def _done(self, step: Step) -> Heard:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        import httpx2

        from mindhold.client.connection import NO_LIMIT, Body, lost

        long: Any = {"timeout": NO_LIMIT} if step.is_long else {}
        body = Body(seconds=None)
        limit = asyncio.timeout(None if long else self._timeout)
        try:
            async with (
                limit,
                self._client.stream(
                    step.method, step.target, headers=dict(step.headers), content=_content(step), **long
                ) as response,
            ):
                if step.sink is not None and response.status_code == 200:
                    async for piece in response.aiter_bytes():
                        step.sink.write(piece)
                    return Reply(response.status_code, response.headers)
                async for piece in response.aiter_bytes():
                    body.take(piece)
                return Reply(response.status_code, response.headers, body.whole())
        except TimeoutError:
            if not limit.expired():  # it is that of who gives the messages
                raise
            return Lost("", slow=True)
        except httpx2.TransportError as error:
            return lost(error)


def _content(ask: Ask) -> bytes | AsyncIterator[bytes] | None:
    return ask.body if ask.lines is None else _lines(ask)


async def _lines(ask: Ask) -> AsyncIterator[bytes]:
    assert ask.lines is not None
    if isinstance(ask.lines, AsyncIterable):
        async for message in ask.lines:
            yield line_of(message)
        return
    for message in ask.lines:
        yield line_of(message)
