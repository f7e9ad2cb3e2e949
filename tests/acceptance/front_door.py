"""How the tests come in: by the operations, as every interface does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from sqlite3 import Connection, connect
from typing import Any, TypeVar

from mindhold.app.application import App
from mindhold.memories.filters import LIST, SHOW, ShowResult
from mindhold.memories.recall import RECALL, RecallResult
from mindhold.memories.remember import REMEMBER, RememberResult
from mindhold.memories.views import MemoryView
from mindhold.operations import Input, Operation, Output

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


async def said(app: App, conversation: str, content: str, **fields: Any) -> str:
    """Remembered in a conversation that the door knows of."""
    answer = await app.run(REMEMBER, REMEMBER.takes(content=content, **fields), conversation=conversation)
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
    """The database file past the product: to look, or to do damage. For tests that are marked `local_file`."""
    with closing(connect(database(app))) as connection, connection:
        yield connection


def spoil(app: App, beginning: str) -> None:
    """From now on the database itself refuses every memory whose content begins so."""
    settings = app.loaded.settings
    if settings.store.mode == "postgres":
        _spoil_postgres(settings.postgres.url, beginning)
    elif settings.store.mode == "mongodb":
        _spoil_mongo(settings.mongodb.uri, settings.mongodb.database, beginning)
    else:
        with raw(app) as connection:
            connection.execute(
                f"CREATE TRIGGER spoilt BEFORE INSERT ON memory WHEN NEW.content LIKE '{beginning}%' "
                "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
            )


def _spoil_postgres(url: str, beginning: str) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(
            b"CREATE FUNCTION spoilt() RETURNS trigger LANGUAGE plpgsql AS "
            b"$$ BEGIN RAISE EXCEPTION 'No room.' USING ERRCODE = 'disk_full'; END $$"
        )
        connection.execute(
            "CREATE TRIGGER spoilt BEFORE INSERT ON agent_memory.fragments FOR EACH ROW "
            f"WHEN (NEW.content LIKE '{beginning}%') EXECUTE FUNCTION spoilt()".encode()
        )


def _spoil_mongo(uri: str, database: str, beginning: str) -> None:
    from pymongo import MongoClient

    with MongoClient[dict[str, Any]](uri) as client:
        rule = {"content": {"$not": {"$regex": f"^{beginning}"}}}
        client[database].command("collMod", "conversation_memory", validator=rule)


def on_disk(app: App, phrase: str) -> list[str]:
    """Names of the files of the home, models aside, in whose bytes the phrase stands; on a server, of tables too."""
    settings = app.loaded.settings
    files = [path for path in settings.home.rglob("*") if path.is_file() and "models" not in path.parts]
    wanted = phrase.encode()
    found = [path.name for path in files if wanted in path.read_bytes()]
    if settings.store.mode == "postgres":
        found += _in_tables(settings.postgres.url, phrase)
    elif settings.store.mode == "mongodb":
        found += _in_collections(settings.mongodb.uri, settings.mongodb.database, wanted)
    return sorted(found)


def _in_tables(url: str, phrase: str) -> list[str]:
    import psycopg
    from psycopg.sql import SQL, Identifier

    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        assert tables
        query = SQL("SELECT EXISTS (SELECT FROM {} AS line WHERE strpos(line::text, %s) > 0)")
        return [
            name
            for schema, name in tables
            if connection.execute(query.format(Identifier(schema, name)), [phrase]).fetchone() == (True,)
        ]


def _in_collections(uri: str, database: str, phrase: bytes) -> list[str]:
    from bson.raw_bson import RawBSONDocument
    from pymongo import MongoClient

    with MongoClient[RawBSONDocument](uri, document_class=RawBSONDocument) as client:
        names = client[database].list_collection_names(filter={"type": "collection"})
        assert names
        return [
            name
            for name in names
            if any(phrase in document.raw for document in client[database][name].find())
        ]
