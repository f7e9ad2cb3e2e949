"""A method that is written once for both clients: it says what to talk about, and each talks in its own way."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from mindhold.client.wire import Talk, Wire

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of many, and where the next begin."""

    items: list[T]
    next: str | None


Turn = Callable[[str | None], Talk[Page[T]]]


class Talking:
    """Has a wire to talk over."""

    wire: Wire


class Waits(Protocol):
    """A client whose calls return when they are done."""

    def talk(self, talk: Talk[T], /) -> T: ...
    def turn(self, turn: Turn[T], /) -> Iterator[T]: ...


class Awaits(Protocol):
    """A client whose calls are awaited."""

    def talk(self, talk: Talk[T], /) -> Awaitable[T]: ...
    def turn(self, turn: Turn[T], /) -> AsyncIterator[T]: ...


class Method(Generic[P, T]):
    """One call, one answer."""

    def __init__(self, plan: Callable[Concatenate[Any, P], Talk[T]]) -> None:
        self._plan = plan
        functools.update_wrapper(self, plan)  # type: ignore[arg-type]

    @overload
    def __get__(self, client: None, kind: type, /) -> Method[P, T]: ...
    @overload
    def __get__(self, client: Waits, kind: type | None = None, /) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaits, kind: type | None = None, /) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, kind: type | None = None, /) -> Any:
        if client is None:
            return self

        @functools.wraps(self._plan)
        def called(*args: P.args, **given: P.kwargs) -> Any:
            return client.talk(self._plan(client, *args, **given))

        return called


class Pages(Generic[P, T]):
    """Everything of a list, page by page."""

    def __init__(self, plan: Callable[Concatenate[Any, P], Turn[T]]) -> None:
        self._plan = plan
        functools.update_wrapper(self, plan)  # type: ignore[arg-type]

    @overload
    def __get__(self, client: None, kind: type, /) -> Pages[P, T]: ...
    @overload
    def __get__(self, client: Waits, kind: type | None = None, /) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Awaits, kind: type | None = None, /) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, kind: type | None = None, /) -> Any:
        if client is None:
            return self

        @functools.wraps(self._plan)
        def called(*args: P.args, **given: P.kwargs) -> Any:
            return client.turn(self._plan(client, *args, **given))

        return called
