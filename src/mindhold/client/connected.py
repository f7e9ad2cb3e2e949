"""What both clients have: a server's address, a wire to it, and the methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from mindhold.client.address import place_of
from mindhold.client.memories import MemoryMethods
from mindhold.client.projects import ProjectMethods
from mindhold.client.wire import Wire

C = TypeVar("C")


class Connected(MemoryMethods, ProjectMethods, ABC, Generic[C]):
    """A client over connections of one kind."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:3333",
        *,
        key: str = "",
        agent: str = "",
        timeout: float = 60.0,
        tries: int = 4,
        pause: float = 0.25,
        insecure: bool = False,
    ) -> None:
        from mindhold.client.connection import opened

        place = place_of(url, key=key, insecure=insecure)
        self.wire = Wire(place, agent=agent, tries=tries, pause=pause)
        self._timeout = timeout
        self._client = opened(self._kind(), place, timeout=timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.wire.place.url!r})"

    @staticmethod
    @abstractmethod
    def _kind() -> Callable[..., C]:
        """What makes the connections. Imported when it is needed."""
