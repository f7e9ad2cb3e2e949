"""`mindhold serve` as a program talks to it: by the rows of the table, with one key or another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

import httpx2
from mcp_clients import HttpServer, surroundings

from mindhold.access.keys import CREATE_KEY
from mindhold.app.application import open_app
from mindhold.contracts.rest.resource import by_name
from mindhold.projects.scope_operations import CREATE_SCOPE
from mindhold.settings.loader import load_settings

OWNER = "correct-horse-battery-staple"
Json = dict[str, Any]


@dataclass
class Api:
    """A client with one key. `called` are the rows that it has asked."""

    client: httpx2.Client
    key: str
    home: Path
    called: set[str] = field(default_factory=set)

    def ask(
        self, name: str, body: Any = None, /, *, query: Any = None, headers: Any = None, **path: str
    ) -> httpx2.Response:
        """The answer of a row, whatever it is."""
        row = by_name()[name]
        self.called.add(name)
        at = row.path.format_map({word: quote(value, safe="") for word, value in path.items()})
        sent = {"Authorization": f"Bearer {self.key}", **(headers or {})}
        return self.client.request(row.method, at, params=query, json=body, headers=sent)

    def get(
        self, name: str, body: Any = None, /, *, query: Any = None, headers: Any = None, **path: str
    ) -> Json:
        """What a row answers when all is well, with its status."""
        answer = self.ask(name, body, query=query, headers=headers, **path)
        assert answer.status_code == by_name()[name].status, answer.text
        told: Json = answer.json()
        return told

    def refused(
        self, name: str, body: Any = None, /, *, query: Any = None, headers: Any = None, **path: str
    ) -> tuple[int, str]:
        """The status and the code of what can't be done."""
        answer = self.ask(name, body, query=query, headers=headers, **path)
        assert answer.headers["content-type"] == "application/json"
        told = answer.json()
        assert set(told) <= {"error", "code", "advice", "details", "project_id"}, told
        assert told["error"]
        return answer.status_code, told["code"]

    def by(self, key: str) -> Self:
        """The same server with another key."""
        return type(self)(self.client, key, self.home)

    def stored(self, content: str, **fields: Any) -> str:
        """Remembered as new; its id."""
        answer = self.get("remember", {"content": content, **fields})
        memory_id: str = answer["id"]
        return memory_id


@dataclass(frozen=True)
class Key:
    """A key to be made: of an agent, of scopes, for reading."""

    agent: str | None = None
    scopes: tuple[str, ...] = ()
    access: Literal["read", "write"] = "write"


@contextmanager
def served(home: Path, **settings: str) -> Iterator[Api]:
    """With the owner's key."""
    with (
        HttpServer(home, MINDHOLD_ACCESS_KEY=OWNER, **settings) as server,
        httpx2.Client(base_url=server.url, timeout=60) as client,
    ):
        yield Api(client, OWNER, home)


def keys_of(home: Path, wanted: Mapping[str, Key], *, scopes: Iterable[str] = ()) -> dict[str, str]:
    """Made at this machine, before the server starts; the scopes that they are bound to as well."""

    async def made() -> dict[str, str]:
        async with open_app(load_settings(environ=surroundings(home))) as app:
            for scope in scopes:
                await app.run(CREATE_SCOPE, CREATE_SCOPE.takes(name=scope))
            return {
                name: (
                    await app.run(
                        CREATE_KEY,
                        CREATE_KEY.takes(
                            name=name, agent=key.agent, scopes=list(key.scopes), access=key.access
                        ),
                    )
                ).key
                for name, key in wanted.items()
            }

    return asyncio.run(made())
