"""How the tests come in: by the operations, as every interface does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from sqlite3 import Connection, connect
from typing import Any, TypeVar

from recollect.app import App
from recollect.operations.catalogue import Input, Operation, Output
from recollect.operations.reading import LIST, RECALL, SHOW, RecallResult, ShowResult
from recollect.operations.views import MemoryView
from recollect.operations.writing import REMEMBER, RememberResult

I = TypeVar("I", bound=Input)  # noqa: E741
O = TypeVar("O", bound=Output)  # noqa: E741

Open = Callable[..., AbstractAsyncContextManager[App]]  # the fixture `opened`


async def run(app: App, operation: Operation[I, O], **fields: Any) -> O:
    """One operation with these fields."""
    return await app.run(operation, operation.takes(**fields))


async def remember(app: App, content: str, **fields: Any) -> RememberResult:
    return await run(app, REMEMBER, content=content, **fields)


async def stored(app: App, content: str, **fields: Any) -> str:
    """Remember what must become a new memory; its id."""
    answer = await remember(app, content, **fields)
    assert answer.created, answer
    assert answer.id is not None
    return answer.id


async def recall(app: App, query: str = "", **fields: Any) -> RecallResult:
    return await run(app, RECALL, query=query, **fields)


async def found(app: App, query: str, **fields: Any) -> list[str]:
    """The ids that a recall gives, best first."""
    return [hit.id for hit in (await recall(app, query, **fields)).hits]


async def show(app: App, memory_id: str) -> ShowResult:
    return await run(app, SHOW, id=memory_id)


async def everything(app: App, **fields: Any) -> list[MemoryView]:
    """All memories that are listed, oldest first."""
    return (await run(app, LIST, limit=1000, order="oldest", **fields)).memories


def acting(app: App, agent: str) -> App:
    """The same app in another agent's hands."""
    settings = replace(app.loaded.settings, agent=agent)
    return replace(app, loaded=replace(app.loaded, settings=settings))


def at(app: App, moment: datetime) -> App:
    """The same app at another time."""
    return replace(app, engine=replace(app.engine, clock=lambda: moment))


def database(app: App) -> Path:
    return app.loaded.settings.database


@contextmanager
def raw(app: App) -> Iterator[Connection]:
    """The database file past the product: to look, or to do damage."""
    with closing(connect(database(app))) as connection, connection:
        yield connection


def on_disk(app: App, phrase: str) -> list[str]:
    """Names of the files of the home, models aside, in whose bytes the phrase stands."""
    home = app.loaded.settings.home
    files = [path for path in home.rglob("*") if path.is_file() and "models" not in path.parts]
    wanted = phrase.encode()
    return sorted(path.name for path in files if wanted in path.read_bytes())
