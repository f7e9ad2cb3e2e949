"""The client for Python against a real server, waiting and awaited; and against servers that misbehave."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_clients import HttpServer
from scripted_server import ScriptedServer, Told

from mindhold.client.api import AsyncMindhold, Body, Mindhold
from mindhold.client.wire import ClientRequest, Pause, ServerAnswer, Wire, errors_by_code
from mindhold.contracts.rest.resource import resources
from mindhold.model import errors
from mindhold.model.errors import (
    Changed,
    Conflict,
    InvalidInput,
    MemoryNotFound,
    MindholdError,
    ModelError,
    NotFound,
    Refused,
    ScopeNotFound,
    ServerAway,
    ServerError,
    SettingsError,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
)

GUIDE = Path(__file__).parents[2] / "docs" / "CLIENT.md"
KEY = "the-owners-key-of-this-test"
Client = Any  # both have the same methods
Work = Callable[[Client], Any]
Talk = Callable[..., Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with HttpServer(tmp_path_factory.mktemp("client") / "home") as running:
        yield running


def waiting(url: str, work: Work, **given: Any) -> Any:
    with Mindhold(url, **given) as client:
        found = work(client)
        return list(found) if inspect.isgenerator(found) else found


def awaited(url: str, work: Work, **given: Any) -> Any:
    async def asked() -> Any:
        async with AsyncMindhold(url, **given) as client:
            found = work(client)
            return [one async for one in found] if inspect.isasyncgen(found) else await found

    return asyncio.run(asked())


@pytest.fixture(params=[waiting, awaited])
def talk(request: pytest.FixtureRequest) -> Talk:
    """One call of either client."""
    found: Talk = request.param
    return found


@pytest.fixture
def ask(server: HttpServer, talk: Talk) -> Callable[[Work], Any]:
    return lambda work: talk(server.url, work)


def quick(url: str, talk: Talk, work: Work, **given: Any) -> Any:
    """Without pauses between tries."""
    return talk(url, work, **{"pause": 0.0, **given})


def test_a_memory_through_its_life(ask: Callable[[Work], Any]) -> None:
    made = ask(lambda client: client.remember("The lighthouse lamp was changed", kind="fact", tags="lamp"))
    assert (made.outcome, made.memory.kind, made.memory.tags) in [
        ("stored", "fact", ["lamp"]),
        ("duplicate", "fact", ["lamp"]),
    ]
    found = ask(lambda client: client.recall("lighthouse lamp", limit=3))
    assert found.hits[0].id == made.id
    assert ask(lambda client: client.amend(made.id, importance=0.9)).memory.importance == 0.9
    other = ask(lambda client: client.remember("The keeper signs the lamp book", keep_noise=True))
    assert ask(lambda client: client.link(other.id, made.id, relation="related")).link.target == made.id
    shown = ask(lambda client: client.show(made.id[:20]))
    assert shown.memory.content == "The lighthouse lamp was changed"
    assert shown.etag
    assert ask(lambda client: client.forget(made.id)).forgotten == [made.id]
    assert ask(lambda client: client.unforget(made.id)).memories[0].id == made.id
    assert ask(lambda client: client.forget(made.id, hard=True)).receipt.remaining
    assert ask(lambda client: client.tags()).tags.get("lamp") is None


def test_what_is_there_in_all(ask: Callable[[Work], Any]) -> None:
    ask(lambda client: client.remember("The ferry to the island leaves at noon", tags=["ferry"]))
    assert "Global" in [one.name for one in ask(lambda client: client.scopes()).scopes]
    assert ask(lambda client: client.status()).memories > 0
    assert ask(lambda client: client.memory_stats()).total > 0
    assert ask(lambda client: client.timeline("today")).count > 0
    assert "noon" in ask(lambda client: client.ask("when does the ferry to the island leave?")).answer
    assert ask(lambda client: client.context(token_budget=500)).tokens <= 500
    assert ask(lambda client: client.run("interpret_time", phrase="last week")).words


def test_lists_come_page_by_page_whatever_is_written_meanwhile(server: HttpServer, talk: Talk) -> None:
    tag = f"pages-{talk.__name__}"
    texts = [f"Crate {number} of {tag} holds {number * 7} lamps" for number in range(5)]
    with Mindhold(server.url) as client:
        client.remember_many({"content": text, "tags": [tag]} for text in texts)
        found = talk(server.url, lambda each: each.memories(tags=tag, page=2, order="oldest"))
        assert [memory.content for memory in found] == texts
        pages = client.memories(tags=[tag], page=2, order="oldest")
        seen = [next(pages).content, next(pages).content]
        client.forget(found[1].id, hard=True)  # the one that the page ended with
        assert seen + [memory.content for memory in pages] == texts


def test_a_project_and_its_messages(server: HttpServer, talk: Talk) -> None:
    name = f"quay/{talk.__name__}"
    ask: Callable[[Work], Any] = lambda work: talk(server.url, work)  # noqa: E731
    assert ask(lambda client: client.create_project(name, description="Lamps")).id == name
    assert name in [one.name for one in ask(lambda client: client.projects()).projects]
    assert ask(lambda client: client.change_project(name, description="Ropes")).description == "Ropes"
    saved = ask(
        lambda client: client.save_message(
            name, "user", "Which rope holds the ferry?", task_id=4, metadata={"session_id": "monday"}
        )
    )
    assert saved.status == "saved"
    assert ask(lambda client: client.recent_messages(name, session_id="monday")).count == 1
    assert ask(lambda client: client.search(name, "rope of the ferry")).results[0].id == saved.message_id
    assert ask(lambda client: client.stats(name)).total_messages == 1
    assert ask(lambda client: client.reindex(name)).total_messages == 1
    assert ask(lambda client: client.delete_messages(name, task_id=4)).deleted_count == 1
    with pytest.raises(InvalidInput) as none:
        ask(lambda client: client.delete_messages(name))
    assert none.value.code == "NO_CRITERIA"
    with pytest.raises(NotFound) as unknown:
        ask(lambda client: client.delete_messages(name, session_id="sunday"))
    assert unknown.value.code == "SESSION_NOT_FOUND"
    gone = ask(lambda client: client.delete_project(name, confirm=name))
    assert gone.name == name
    with pytest.raises(ScopeNotFound) as missing:
        ask(lambda client: client.project(name))
    assert (missing.value.code, missing.value.name) == ("PROJECT_NOT_FOUND", name)


def test_a_reindexing_is_waited_for(server: HttpServer, talk: Talk) -> None:
    name = f"indexed-{talk.__name__}"
    with Mindhold(server.url) as client:
        client.create_project(name)
        client.save_message(name, "user", "Which rope holds the ferry?")
    begun = talk(server.url, lambda client: client.reindex(name, force=True))
    assert begun.status == "reindexing_started"
    ended = talk(server.url, lambda client: client.await_reindex(name, begun.job_id))
    assert (ended.status, ended.done, ended.progress) == ("done", 1, 1.0)


def test_a_summary_and_its_versions(server: HttpServer, talk: Talk) -> None:
    name = f"summed-{talk.__name__}"
    ask: Callable[[Work], Any] = lambda work: talk(server.url, work)  # noqa: E731
    ask(lambda client: client.create_project(name))
    first = ask(lambda client: client.replace_summary(name, "Lamps for ships.", tech_stack=["Python"]))
    read = ask(lambda client: client.summary(name))
    assert read.etag == first.etag
    second = ask(
        lambda client: client.update_summary(
            name, "important_decision", "We chose brass for the lamps.", expected=read.etag
        )
    )
    with pytest.raises(Changed) as late:
        ask(lambda client: client.replace_summary(name, "Mine.", expected=read.etag))
    assert late.value.code == "PRECONDITION_FAILED"
    versions = ask(lambda client: client.summary_versions(name))
    assert [one.version for one in versions.versions] == [second.summary_version, first.version]
    changed = ask(lambda client: client.diff_summary(name, first.version, second.summary_version))
    assert "brass" in changed.diff
    back = ask(lambda client: client.restore_summary(name, first.version))
    assert (back.version, back.restored_version) == (second.summary_version + 1, first.version)


def lines(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"message_type": "user", "content": f"Lamp {number} hangs at berth {number * 3}"}


async def later_lines(count: int) -> AsyncIterator[dict[str, Any]]:
    for line in lines(count):
        yield line


def test_messages_are_imported_as_they_come(server: HttpServer, talk: Talk, tmp_path: Path) -> None:
    name = f"many-{talk.__name__}"
    talk(server.url, lambda client: client.create_project(name))
    done = talk(server.url, lambda client: client.import_messages(name, lines(30), key="first"))
    assert (done.imported, done.failed) == (30, 0)
    again = talk(server.url, lambda client: client.import_messages(name, lines(31), key="first", embed=False))
    assert (again.imported, again.repeated) == (1, 30)
    wrong = talk(
        server.url, lambda client: client.import_messages(name, [{"message_type": "shout", "content": "x"}])
    )
    assert (wrong.failed, wrong.errors[0].code) == (1, "INVALID_MESSAGE_TYPE")
    found = talk(server.url, lambda client: client.messages(name, page=7))
    assert {one.content for one in found} == {line["content"] for line in lines(31)}
    with pytest.raises(ScopeNotFound):
        talk(server.url, lambda client: client.import_messages("nowhere", lines(1)))
    exported = talk(server.url, lambda client: client.export(tmp_path / "project.jsonl", project=name))
    assert exported.memories >= 31


async def test_messages_may_come_asynchronously(server: HttpServer) -> None:
    async with AsyncMindhold(server.url) as client:
        await client.create_project("later")
        assert (await client.import_messages("later", later_lines(3))).imported == 3
    with Mindhold(server.url) as waits, pytest.raises(TypeError, match="AsyncMindhold"):
        waits.import_messages("later", later_lines(3))


def test_an_export_is_whole_or_not_there(ask: Callable[[Work], Any], tmp_path: Path) -> None:
    ask(lambda client: client.remember("The bell of the pier rings in fog"))
    path = tmp_path / "deep" / "all.jsonl"
    result = ask(lambda client: client.export(path))
    written = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [one["type"] for one in written[1:]].count("memory") == result.memories > 0
    assert result.path == str(path)
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises((StoreReadOnly, StoreFull)):
        ask(lambda client: client.export(tmp_path / "file" / "all.jsonl"))
    with pytest.raises(NotFound):
        ask(lambda client: client.export(path, scope="nowhere"))
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0])["mindhold"] == "export"
    assert [one.name for one in path.parent.iterdir()] == ["all.jsonl"]


def test_what_happens_is_heard(server: HttpServer) -> None:
    with Mindhold(server.url) as client:
        heard = client.events(topics=("memories",))
        assert next(heard).kind == "ready"
        client.remember("The red buoy is out")
        event = next(heard)
        assert (event.kind, event.data["content"]) == ("memory", "The red buoy is out")
        heard.close()
        client.remember("The black buoy came while nobody listened")
        told = client.events(topics=("memories",), after=event.id)
        assert any(one.data.get("content") == "The black buoy came while nobody listened" for one in told)
        told.close()


async def test_what_happens_is_heard_in_an_event_loop(server: HttpServer) -> None:
    async with AsyncMindhold(server.url) as client:
        heard = client.events(topics=("memories",))
        assert (await anext(heard)).kind == "ready"
        await client.remember("The white buoy is out")
        assert (await anext(heard)).data["content"] == "The white buoy is out"
        await heard.aclose()


def test_a_stream_that_breaks_is_heard_on(tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home") as breaking, Mindhold(breaking.url, pause=0.0) as client:
        heard = client.events(topics=("memories",))
        assert next(heard).kind == "ready"
        client.remember("The pilot boat is blue")
        assert next(heard).data["content"] == "The pilot boat is blue"
        breaking.kill()
        breaking.start()
        assert next(heard).kind == "ready"
        client.remember("The pilot boat was repainted in yellow")
        assert any("yellow" in str(one.data.get("content")) for one in heard)
        heard.close()
        breaking.kill()
        with pytest.raises(ServerAway):
            list(client.events())


def test_errors_are_those_of_the_operation(ask: Callable[[Work], Any]) -> None:
    with pytest.raises(MemoryNotFound, match="no memory 'zz'"):
        ask(lambda client: client.show("zz"))
    with pytest.raises(InvalidInput, match="limit must be at most"):
        ask(lambda client: client.recall("x", limit=1_000))
    with pytest.raises(InvalidInput, match="Did you mean everywhere"):
        ask(lambda client: client.recall("x", everywher=True))
    with pytest.raises(InvalidInput, match="can't be asked of a server"):
        ask(lambda client: client.run("pull_model", name="x"))
    with pytest.raises(InvalidInput, match="nothing but dots"):
        ask(lambda client: client.show(".."))
    with pytest.raises(Conflict):
        ask(lambda client: client.create_scope("Global"))


def test_every_error_of_the_tree_is_known_by_its_code() -> None:
    kinds = [
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, MindholdError) and "code" in vars(one)
    ]
    assert len(kinds) > 30
    for kind in kinds:
        assert errors_by_code()[kind.code] is kind


def test_every_resource_can_be_said_as_it_is_served() -> None:
    """What the client sends for an input, the server reads as that input."""
    told = [row for row in resources() if row.example is not None and row.stream is None]
    assert len(told) > 20
    for row in told:
        assert row.example is not None
        path = {word: str(row.example[word]) for word in row.in_path()}
        query = [
            (word, str(one).lower() if isinstance(one, bool) else str(one))
            for word in row.in_query()
            if word in row.example
            for one in (row.example[word] if isinstance(row.example[word], list) else [row.example[word]])
        ]
        body = {word: row.example[word] for word in row.in_body() if word in row.example}
        given = row.given(path, query, body or None)
        sent = row.sent(given)
        assert row.given(path, sent.query, sent.body) == given, row.name


REMEMBERED = {"outcome": "stored", "created": True, "id": "01abc"}
BUSY = {"error": "Too many requests.", "code": "TOO_MANY_REQUESTS"}


def test_passing_troubles_are_waited_for_and_nothing_is_done_twice(talk: Talk) -> None:
    script = (
        Told(429, BUSY, {"Retry-After": "0"}),
        Told(503, {"error": "It is busy.", "code": "STORE_BUSY"}),
        Told(None),
        Told(201, REMEMBERED),
    )
    with ScriptedServer(*script) as scripted:
        made = quick(scripted.url, talk, lambda client: client.remember("Once"))
        assert made.id == "01abc"
        assert len(scripted.heard) == 4
        assert len({one.headers["idempotency-key"] for one in scripted.heard}) == 1
        quick(scripted.url, talk, lambda client: client.remember("Once", key="mine"))
        assert scripted.heard[-1].headers["idempotency-key"] == "mine"
        assert json.loads(scripted.heard[-1].body) == {"content": "Once"}


@pytest.mark.parametrize(
    ("told", "times", "kind", "code"),
    [
        (Told(429, BUSY), 3, ServerAway, "TOO_MANY_REQUESTS"),
        (Told(429, BUSY, {"Retry-After": "3600"}), 1, ServerAway, "TOO_MANY_REQUESTS"),
        (Told(503, {"error": "Busy.", "code": "STORE_BUSY"}), 3, StoreBusy, "STORE_BUSY"),
        (Told(503, {"error": "Full.", "code": "STORE_FULL"}), 1, StoreFull, "STORE_FULL"),
        (Told(502, b"<html>bad gateway</html>"), 3, ServerAway, "SERVER_AWAY"),
        (Told(None), 3, ServerAway, "SERVER_AWAY"),
        (Told(500, {"error": "Oh.", "code": "INTERNAL"}), 1, ServerError, "INTERNAL"),
        (Told(418, {"error": "Tea.", "code": "TEA"}), 1, ServerError, "TEA"),
        (Told(401, {"error": "Who?", "code": "UNAUTHORIZED"}), 1, Refused, "UNAUTHORIZED"),
        (Told(404, b"<html>not here</html>"), 1, ServerError, "SERVER_ERROR"),
        (Told(200, b"<html>welcome</html>"), 1, ServerError, "SERVER_ERROR"),
        (Told(200, {"hits": "none"}), 1, ServerError, "SERVER_ERROR"),
    ],
    ids=lambda value: str(value) if isinstance(value, str | int) else None,
)
def test_other_troubles_are_told(
    talk: Talk, told: Told, times: int, kind: type[MindholdError], code: str
) -> None:
    with ScriptedServer(told) as scripted:
        with pytest.raises(kind) as failed:
            quick(scripted.url, talk, lambda client: client.recall("x"), tries=3)
        assert failed.value.code == code
        assert type(failed.value) is kind
        assert len(scripted.heard) == times


def test_details_are_told_too(talk: Talk) -> None:
    told = {
        "error": "Failed to generate embeddings",
        "code": "EMBEDDING_SERVICE_ERROR",
        "details": "Too slow",
    }
    with ScriptedServer(Told(500, told)) as scripted, pytest.raises(ModelError, match="embeddings: Too slow"):
        quick(scripted.url, talk, lambda client: client.recall("x"))


def test_pauses_grow_heed_the_server_and_have_an_end() -> None:
    with Mindhold("http://localhost:1") as client:
        wire = Wire(client.wire.address, tries=5, pause=1.0, chance=lambda: 0.5)
    asked = ClientRequest("GET", "/")
    refused = wire.exchange(asked)
    assert next(refused) is asked
    for expected in (7.0, 7.0, 7.0, 12.0):
        pause = refused.send(_reply(429, retry="7"))
        assert isinstance(pause, Pause)
        assert pause.seconds == expected
        assert refused.send(None) is asked
    with pytest.raises(ServerAway):
        refused.send(_reply(429, retry="7"))


def _reply(status: int, *, retry: str) -> ServerAnswer:
    return ServerAnswer(status, {"retry-after": retry}, json.dumps(BUSY).encode())


def test_a_server_that_takes_too_long_is_not_asked_again(talk: Talk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServerAway, match="didn't answer in time"):
            talk(url, lambda client: client.recall("x"), timeout=1.0)
    with pytest.raises(ServerAway, match="can't be reached") as gone:
        quick(url, talk, lambda client: client.recall("x"))
    assert "mindhold serve" in gone.value.advice


def test_an_answer_has_so_long_in_all_and_such_a_size(talk: Talk) -> None:
    with ScriptedServer(Told(200, b"{", drips=True)) as dripping:
        with pytest.raises(ServerAway, match="didn't answer in time"):
            talk(dripping.url, lambda client: client.status(), timeout=1.0)
        assert len(dripping.heard) == 1
    body = Body(seconds=None, most=10)
    body.take(b"123456")
    with pytest.raises(ServerError, match="more than"):
        body.take(b"123456")


def test_what_a_header_says_is_unicode_on_one_line(server: HttpServer, talk: Talk) -> None:
    made = talk(server.url, lambda client: client.remember("The gull is Zoë's", key="ключ"), agent="zoë")
    assert made.memory.agent == "zoë"
    again = talk(server.url, lambda client: client.remember("The gull is Zoë's", key="ключ"), agent="zoë")
    assert again.id == made.id
    with ScriptedServer(Told(200, {})) as scripted:
        for agent, work in (
            ("a\nb", lambda client: client.status()),
            ("a", lambda client: client.remember("x", key="a\rb")),
            ("a", lambda client: client.remember("x", key=" a")),
            ("a", lambda client: client.update_summary("p", "manual", "x", expected="a\nb")),
            ("a", lambda client: client.import_messages("p", [], key="a\nb")),
            ("a", lambda client: client.events(after="a\nb")),
            ("\ud800", lambda client: client.status()),
        ):
            with pytest.raises(InvalidInput, match="can't be sent"):
                talk(scripted.url, work, agent=agent)
        assert scripted.heard == []


def test_an_import_has_a_key_and_a_list_is_sent_again(talk: Talk) -> None:
    busy = Told(503, {"error": "It is busy.", "code": "STORE_BUSY", "advice": "Wait."})
    with ScriptedServer(busy) as scripted:
        with pytest.raises(StoreBusy) as failed:
            quick(scripted.url, talk, lambda client: client.import_messages("p", lines(2)), tries=3)
        assert len(scripted.heard) == 1
        assert scripted.heard[0].headers["idempotency-key"] in failed.value.advice
        with pytest.raises(StoreBusy):
            quick(scripted.url, talk, lambda client: client.import_messages("p", [*lines(2)]), tries=3)
        assert len(scripted.heard) == 4
        assert len({(one.headers["idempotency-key"], one.body) for one in scripted.heard[1:]}) == 1
        assert scripted.heard[-1].body.count(b"\n") == 2


def test_a_key_goes_to_its_server_alone(talk: Talk) -> None:
    for url in ("http://memory.example.org", "http://10.0.0.9:3333/", "http://memory.localhost"):
        with pytest.raises(SettingsError, match="plain http") as refused:
            talk(url, lambda client: client.status(), key=KEY)
        assert KEY not in str(refused.value)
    with Mindhold("http://memory.example.org", key=KEY, insecure=True) as trusting:
        assert KEY not in repr(trusting)
        assert KEY not in repr(trusting.wire)
    with pytest.raises(SettingsError, match="no key has"):
        Mindhold("http://localhost:3333", key="two\nlines")
    with ScriptedServer(Told(200, {})) as other:
        elsewhere = Told(307, b"", {"Location": f"{other.url}/api/status"})
        with ScriptedServer(elsewhere) as first:
            with pytest.raises(ServerError, match="sends callers elsewhere"):
                talk(first.url, lambda client: client.status(), key=KEY)
            assert first.heard[0].headers["authorization"] == f"Bearer {KEY}"
        assert other.heard == []
    echo = Told(403, {"error": f"{KEY} may not.", "code": "REFUSED", "advice": f"Not with {KEY}."})
    with ScriptedServer(echo) as scripted, pytest.raises(Refused) as told:
        talk(scripted.url, lambda client: client.status(), key=KEY)
    assert KEY not in str(told.value)


@pytest.mark.parametrize(
    "url", ["", "localhost:3333", "ftp://x", "http://", "http://u:p@x/", "http://x/?a=1"]
)
def test_an_address_must_be_one(url: str) -> None:
    with pytest.raises(SettingsError, match="address"):
        Mindhold(url)


def test_for_whom_and_under_which_path() -> None:
    with ScriptedServer(Told(200, {"tags": {}})) as scripted:
        with Mindhold(f"{scripted.url}/memory/", agent="alice") as client:
            client.tags(scope="a b")
        assert scripted.heard[0].target == "/memory/api/tags?scope=a+b"
        assert scripted.heard[0].headers["x-mindhold-agent"] == "alice"


def test_it_is_imported_quickly_and_opens_nothing() -> None:
    heavy = {
        "httpx2",
        "numpy",
        "pydantic",
        "mindhold.memories",
        "mindhold.operations",
        "mindhold.settings.loader",
    }
    code = f"import mindhold.client, sys; sys.exit(' '.join({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.stderr.strip() == b""


def test_methods_tell_what_they_do() -> None:
    for kind in (Mindhold, AsyncMindhold):
        shown = [name for name in dir(kind) if not name.startswith("_")]
        assert {"recall", "save_message", "messages", "events", "import_messages"} <= set(shown)
        for name in shown:
            assert inspect.getdoc(getattr(kind, name)), name


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 6
    monkeypatch.chdir(tmp_path)
    with HttpServer(tmp_path / "home") as running:
        for number, block in enumerate(blocks):
            code = block.replace("http://127.0.0.1:3333", running.url)
            exec(compile(code, f"{GUIDE.name}, block {number}", "exec"), {"__name__": "__main__"})


def test_a_message_that_cannot_be_is_told_as_the_server_would(ask: Callable[[Work], Any]) -> None:
    with pytest.raises(InvalidInput) as wrong:
        ask(lambda client: client.save_message("Global", "robot", "Beep."))
    assert wrong.value.code == "INVALID_MESSAGE_TYPE"
    with pytest.raises(InvalidInput) as empty:
        ask(lambda client: client.save_message("Global", "user", None))
    assert empty.value.code == "EMPTY_CONTENT"
