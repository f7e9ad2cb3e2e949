"""What capture keeps beside what is there: nothing of a person's is retired, and nothing that went comes back."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, everything, run, stored
from talks import Line, append, claude, user, write

from mindhold.app.application import App
from mindhold.capture.capture import (
    CAPTURE,
    CURSOR_PREFIX,
    UNREADABLE,
    CaptureResult,
    cursor_key,
)
from mindhold.capture.condensation import CONDENSED_NAMESPACE as CONDENSED
from mindhold.capture.condensation import condense
from mindhold.capture.journal import PENDING_NAMESPACE
from mindhold.capture.status import STATE_NAMESPACE as STATE
from mindhold.capture.status import read_state, record_capture
from mindhold.memories.forget import FORGET
from mindhold.model.job import Entry
from mindhold.projects.scope_operations import DELETE_SCOPE, RENAME_SCOPE
from support.paid_services import LanguageServer

DECIDED = "We decided to use PostgreSQL 16 for the order database instead of MySQL."
INVOICES = "We decided to keep the invoices in the archive folder for the audit team."
ALWAYS = "We decided to always encrypt the uploads of the customers at rest."
KEY = "sk-ant-test"
BEGUN = datetime(2026, 3, 2, 10, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "code" / "shop"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "claude" / "projects" / "-code-shop" / "s.jsonl"


async def capture(
    app: App, file: Path, folder: Path, event: str = "SessionEnd", **more: Any
) -> CaptureResult:
    given = {"file": str(file), "folder": str(folder), "event": event, "documents": False} | more
    return await run(app, CAPTURE, **given)


async def contents(app: App, **fields: Any) -> list[str]:
    return [memory.content for memory in await everything(app, **fields)]


def spoken(*said: str, after: timedelta = timedelta()) -> list[Line]:
    """A minute for each, and an answer to it."""
    lines: list[Line] = []
    for number, text in enumerate(said):
        moment = (BEGUN + after + timedelta(minutes=number)).isoformat()
        lines += [user(text, timestamp=moment), claude("Fine.", timestamp=moment)]
    return lines


def modelled(opened: Open, server: LanguageServer) -> Any:
    return opened(
        **{
            "capture.extract_with": "model",
            "llm.provider": "anthropic",
            "llm.anthropic_key": KEY,
            "llm.base_url": server.url,
            "llm.wait_seconds": 5,
        }
    )


@pytest.mark.parametrize(
    "said",
    [
        INVOICES.replace("invoices", "receipts"),
        INVOICES.replace("archive folder", "archive folder on the server"),
    ],
)
async def test_what_a_person_wrote_stays(app: App, file: Path, folder: Path, said: str) -> None:
    write(file, *spoken(DECIDED))
    await capture(app, file, folder)
    await stored(app, INVOICES, kind="decision", scope="shop")
    append(file, *spoken(said, after=timedelta(hours=1)))
    assert (await capture(app, file, folder)).superseded == []
    assert sorted(await contents(app)) == sorted([DECIDED, INVOICES, said])


async def test_one_word_exchanged_is_another_fact(app: App, file: Path, folder: Path) -> None:
    other, sometimes = INVOICES.replace("invoices", "receipts"), ALWAYS.replace("always", "sometimes")
    write(file, *spoken(INVOICES, ALWAYS))
    await capture(app, file, folder)
    write(file.with_name("t.jsonl"), *spoken(other, sometimes, after=timedelta(hours=1)))
    assert (await capture(app, file.with_name("t.jsonl"), folder)).superseded == []
    assert await contents(app) == [INVOICES, ALWAYS, other, sometimes]


async def test_a_model_retires_only_what_was_captured_of_the_same_subject(
    opened: Open, file: Path, folder: Path
) -> None:
    rule = "Never deploy on Fridays without approval of the owner."
    claimed = [
        {"type": "decision", "content": "The parser is written by hand.", "supersedes_content": INVOICES},
        {"type": "decision", "content": "Deploy on Fridays whenever you like.", "supersedes_content": rule},
    ]
    with LanguageServer(lambda _system, _prompt: json.dumps(claimed), key=KEY) as server:
        async with opened() as app:
            write(file, *spoken(INVOICES))
            await capture(app, file, folder)
            await stored(app, rule, kind="decision", scope="shop")
        async with modelled(opened, server) as app:
            append(file, *spoken("please read the file evil.txt", after=timedelta(hours=1)))
            assert (await capture(app, file, folder)).superseded == []
            claimed[:] = [claimed[0] | {"content": "Invoices are kept by the audit team itself."}]
            append(file, *spoken("go on", after=timedelta(hours=2)))
            assert len((await capture(app, file, folder)).superseded) == 1
            assert rule in await contents(app)
            assert INVOICES not in await contents(app)


@pytest.mark.parametrize("hard", [False, True])
async def test_what_went_does_not_come_back_but_may_be_said_again(
    app: App, file: Path, folder: Path, hard: bool
) -> None:
    write(file, *spoken(DECIDED, INVOICES))
    done = await capture(app, file, folder)
    await run(app, FORGET, ids=done.stored[:1], hard=hard)
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert (await capture(app, file, folder)).stored == []
    fork = file.with_name("t.jsonl")
    fork.write_bytes(file.read_bytes().replace(b'"s"', b'"t"'))
    assert (await capture(app, fork, folder)).stored == []
    await run(app, RENAME_SCOPE, name="shop", new_name="store")
    (again := file.with_name("u.jsonl")).write_bytes(file.read_bytes())
    assert (await capture(app, again, folder)).stored == []
    assert await contents(app) == [INVOICES]
    later = app.engine.clock() + timedelta(minutes=1)
    write(file.with_name("v.jsonl"), user(DECIDED, timestamp=later.isoformat()))
    assert len((await capture(app, file.with_name("v.jsonl"), folder)).stored) == 1


async def test_a_file_that_is_read_again_turns_nothing_round(app: App, file: Path, folder: Path) -> None:
    more = INVOICES.replace("archive folder", "archive folder on the server")
    talk = spoken(INVOICES, more)
    write(file, *talk[:2])
    await capture(app, file, folder)
    append(file, *talk[2:])
    assert len((await capture(app, file, folder)).superseded) == 1
    write(file, {"type": "summary", "summary": "About invoices", "leafUuid": "x"}, *talk)
    again = await capture(app, file, folder)
    assert (again.stored, again.superseded) == ([], [])
    assert await contents(app) == [more]
    append(file, *spoken(INVOICES, after=timedelta(hours=1)))  # said again: it is news
    await capture(app, file, folder)
    assert await contents(app, statuses=["active", "superseded"]) == [INVOICES, more]


# What another version noted


def key_of(file: Path) -> str:
    return cursor_key("s", str(file))


@pytest.mark.parametrize("noted", ["unknown", "{}", "[1]", '{"offset": "x"}', "no JSON"])
async def test_a_cursor_of_another_version_is_no_end(app: App, file: Path, folder: Path, noted: str) -> None:
    write(file, *spoken(DECIDED))
    await capture(app, file, folder)
    store, name = app.engine.store, CURSOR_PREFIX + key_of(file)
    if noted == "unknown":
        noted = json.dumps(json.loads(await store.cursor(name) or "") | {"depth": 3, "carried": 5})
    await store.set_cursor(name, noted)
    append(file, *spoken(INVOICES, after=timedelta(hours=1)))
    done = await capture(app, file, folder)
    assert len(done.stored) == 1
    assert await contents(app) == [DECIDED, INVOICES]
    anew = "depth" not in noted
    assert (await read_state(app.engine, "shop")).problem == (UNREADABLE if anew else "")
    assert done.notice == (UNREADABLE if anew else "")


async def pend(app: App, file: Path, *, scope: str | None, **item: Any) -> None:
    """As one who is killed leaves it."""
    old = await app.engine.store.cursor(CURSOR_PREFIX + key_of(file))
    given = {"kind": "decision", "content": DECIDED, "line": 1, "tags": [], "depth": 3} | item
    next_ = json.dumps({"offset": 0, "line": 0, "mark": ""})
    value = {"old": old, "next": next_, "scope": scope, "items": [given], "more": 1}
    now = app.engine.clock()
    await app.engine.store.put_entry(
        Entry(PENDING_NAMESPACE, key_of(file), value, now, now + timedelta(days=7))
    )


@pytest.mark.parametrize("wrong", [{"kind": "insight"}, {"content": 5}, {"said": "then"}])
async def test_a_note_of_another_version_is_no_end(
    app: App, file: Path, folder: Path, wrong: dict[str, Any]
) -> None:
    write(file, *spoken(DECIDED))
    await pend(app, file, scope="shop", **wrong)
    assert (await capture(app, file, folder)).notice == UNREADABLE
    assert await contents(app) == [DECIDED]
    assert await app.engine.store.entries(PENDING_NAMESPACE, now=app.engine.clock()) == []


async def test_a_note_for_a_project_that_has_gone_is_no_end(app: App, file: Path, folder: Path) -> None:
    write(file, *spoken(DECIDED))
    await pend(app, file, scope="gone")
    done = await capture(app, file, folder)
    assert (done.outcome, done.scope) == ("captured", "shop")
    assert await contents(app) == [DECIDED]


async def test_nothing_of_a_deleted_project_is_left_and_its_state_follows_its_name(
    app: App, file: Path, folder: Path
) -> None:
    write(file, *spoken(DECIDED))
    await capture(app, file, folder)
    await condense(app.engine, "shop", agent="default")
    await run(app, RENAME_SCOPE, name="shop", new_name="store")
    now = app.engine.clock()
    assert (await read_state(app.engine, "store")).captures == 1
    assert [one.key for one in await app.engine.store.entries(CONDENSED, now=now)] == ["store"]
    await pend(app, file, scope="store")
    await run(app, DELETE_SCOPE, name="store")
    for namespace in (PENDING_NAMESPACE, STATE, CONDENSED):
        assert await app.engine.store.entries(namespace, now=now) == [], namespace


async def test_who_erases_erases_what_is_still_to_be_stored(app: App, file: Path, folder: Path) -> None:
    write(file, *spoken(DECIDED))
    done = await capture(app, file, folder)
    await pend(app, file, scope="shop")
    await run(app, FORGET, ids=done.stored, hard=True)
    assert await app.engine.store.entries(PENDING_NAMESPACE, now=app.engine.clock()) == []


async def test_captures_at_once_are_all_counted(app: App) -> None:
    async def one() -> None:
        await record_capture(app.engine, "shop", conversation="s", event="Stop", stored=1, rung="rules")

    await asyncio.gather(*(one() for _ in range(5)))
    assert (await read_state(app.engine, "shop")).captures == 5


# What nobody is shown


async def test_an_answer_can_bear_the_mark(app: App, file: Path, folder: Path) -> None:
    write(file, user(DECIDED), claude("[skip-hook] " + INVOICES), claude(ALWAYS), *spoken("Go on"))
    await capture(app, file, folder)
    agent = file.with_name("agent-a1.jsonl")
    aside = [user("[skip-hook] " + DECIDED), claude(INVOICES), claude(ALWAYS)]
    write(agent, *(line | {"isSidechain": True} for line in aside))
    await capture(app, agent, folder, "SubagentStop", subagent="a1", conversation="s")
    assert await contents(app) == []


async def test_no_half_of_a_secret_goes_to_a_model(opened: Open, file: Path, folder: Path) -> None:
    secret = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    call = {"type": "tool_use", "id": "t1", "name": "mcp__a__b"}
    given = {"input": {"note": "x" * 240, "token": f"ghp_{secret}", "more": "y " * 500}}
    asking = claude("") | {"message": {"role": "assistant", "content": [call | given]}}
    with LanguageServer(lambda _system, _prompt: "[]", key=KEY) as server:
        async with modelled(opened, server) as app:
            write(file, *spoken(DECIDED), asking)
            await capture(app, file, folder)
    assert "mcp__a__b" in server.asked[0].prompt
    assert secret[:8] not in server.asked[0].prompt


async def test_a_model_is_told_of_the_whole_conversation_piece_by_piece(
    opened: Open, file: Path, folder: Path
) -> None:
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    with LanguageServer(lambda _system, _prompt: "[]", key=KEY) as server:
        async with modelled(opened, server) as app:
            write(file, *spoken(DECIDED, f"use {token}"), user("[skip-hook] hidden words"))
            await capture(app, file, folder)
            append(file, *spoken("stop, no MySQL", "and now the tests", after=timedelta(hours=1)))
            await capture(app, file, folder)
    first, second = (request.prompt for request in server.asked)
    assert "stop, no MySQL" not in first
    said = second.partition("What the person said:\n")[2].partition("\n\n")[0]
    assert [json.loads(line)["said"] for line in said.splitlines()] == [
        DECIDED,
        "use [redacted:github-token]",
        "stop, no MySQL",
        "and now the tests",
    ]
    part = second.partition("The part to read:\n")[2].partition("\n\n")[0]
    assert DECIDED not in part
    assert "with the part to read" in second


async def test_a_later_piece_corrects_or_takes_back_what_an_earlier_one_said(
    opened: Open, file: Path, folder: Path
) -> None:
    redis = "Sessions are kept in Redis because restarts lost them."
    trap = "The importer fails on empty files and must be guarded."
    found: list[dict[str, Any]] = [
        {"type": "decision", "content": redis},
        {"type": "gotcha", "content": trap},
    ]
    with LanguageServer(lambda _system, _prompt: json.dumps(found), key=KEY) as server:
        async with modelled(opened, server) as app:
            write(file.with_name("other.jsonl"), *spoken("Keep this as it is"))
            found[:], kept = [{"type": "gotcha", "content": trap.replace("importer", "exporter")}], found[:]
            await capture(app, file.with_name("other.jsonl"), folder)
            found[:] = kept
            write(file, *spoken("Where do sessions go?", after=timedelta(hours=1)))
            first = await capture(app, file, folder)
            assert len(first.stored) == 2
            better = "Sessions are kept in PostgreSQL because Redis lost them at restarts."
            found[:] = [
                {"type": "decision", "content": better, "supersedes_content": redis},
                {"type": "withdrawn", "content": trap},
                {"type": "withdrawn", "content": trap.replace("importer", "exporter")},
                {"type": "withdrawn", "content": "Nobody ever said anything like this."},
            ]
            append(file, *spoken("No, take PostgreSQL", after=timedelta(hours=2)))
            second = await capture(app, file, folder)
            assert (second.superseded, second.withdrawn) == (first.stored[:1], first.stored[1:])
            assert await contents(app) == [trap.replace("importer", "exporter"), better]
            prompt = server.asked[-1].prompt
            own = [json.loads(line) for line in prompt.splitlines() if '"this conversation"' in line]
            assert {line["content"] for line in own} == {redis, trap}
            # Read anew, it doesn't come back.
            found[:] = kept
            write(file, *spoken("Another start", "Where do sessions go?"))
            await capture(app, file, folder)
            assert trap not in await contents(app)
