"""Silent capture: what a conversation left is there afterwards, once, and nothing that was to be left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from front_door import Open, everything, on_disk, run
from talks import Line, append, claude, ran, user, write

from mindhold.app.application import App
from mindhold.capture.capture import CAPTURE, CaptureResult
from mindhold.capture.journal import PENDING_NAMESPACE
from mindhold.capture.status import read_state
from mindhold.memories.amend import AMEND
from mindhold.memories.forget import FORGET
from mindhold.model.errors import StoreAway
from mindhold.ports.store import Store
from mindhold.projects.projects import SHOW_PROJECT
from mindhold.projects.scope_operations import CHANGE_SCOPE
from support.paid_services import LanguageServer

DECIDED = "We decided to use PostgreSQL 16 for the order database instead of MySQL."
TABS = "Always use tabs for indentation, never spaces."
AGAIN = "We decided to deploy the shop with Docker Compose instead of Kubernetes."
TALK = [user(DECIDED), claude("Understood."), user(TABS), claude("Noted.")]
KEY = "sk-ant-test"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "code" / "shop"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "claude" / "projects" / "-code-shop" / "s.jsonl"


async def capture(app: App, file: Path, folder: Path, event: str = "Stop", **more: Any) -> CaptureResult:
    return await run(app, CAPTURE, file=str(file), folder=str(folder), event=event, **more)


async def contents(app: App, **fields: Any) -> list[str]:
    return [memory.content for memory in await everything(app, **fields)]


async def test_what_was_said_is_kept_with_its_place(app: App, file: Path, folder: Path) -> None:
    write(file, *TALK)
    done = await capture(app, file, folder)
    assert (done.outcome, done.scope, done.rung, done.lines) == ("captured", "shop", "rules", 4)
    kept = await everything(app)
    assert [(one.kind, one.content, one.scope) for one in kept] == [
        ("decision", DECIDED, "shop"),
        ("preference", TABS, "shop"),
    ]
    assert [one.provenance for one in kept] == [
        {"dialect": "capture", "source": "capture", "conversation": "s", "file": str(file), "line": line}
        for line in (1, 3)
    ]
    assert done.stored == [one.id for one in kept]


async def test_it_goes_on_where_it_was(app: App, file: Path, folder: Path) -> None:
    write(file, *TALK)
    await capture(app, file, folder)
    assert (await capture(app, file, folder)).outcome == "nothing"
    append(file, user(AGAIN), claude("Fine."), user("Thanks"))
    done = await capture(app, file, folder)
    assert (done.lines, len(done.stored)) == (3, 1)
    assert await contents(app) == [DECIDED, TABS, AGAIN]


@pytest.mark.parametrize(
    ("event", "outcome"),
    [("Stop", "few"), ("SubagentStop", "few"), ("PreCompact", "captured"), ("SessionEnd", "captured")],
)
async def test_few_lines_wait_unless_they_would_be_lost(
    app: App, file: Path, folder: Path, event: str, outcome: str
) -> None:
    write(file, *TALK[:2])
    assert (await capture(app, file, folder, event)).outcome == outcome
    append(file, *TALK[2:])
    await capture(app, file, folder, "SessionEnd")
    assert await contents(app) == [DECIDED, TABS]


async def test_a_file_that_lags_is_asked_again(app: App, file: Path, folder: Path) -> None:
    write(file, *TALK[:3])
    done = await capture(app, file, folder, last_message="Noted.")
    assert (done.outcome, done.lags, done.stored) == ("lags", True, [])
    append(file, TALK[3])
    assert (await capture(app, file, folder, last_message="Noted.")).outcome == "captured"
    again = await capture(app, file, folder, last_message="Noted.")
    assert (again.outcome, again.lags) == ("nothing", False)


async def test_a_file_that_never_catches_up_is_taken_as_it_is(app: App, file: Path, folder: Path) -> None:
    write(file, *TALK[:3])
    assert (await capture(app, file, folder, last_message="Lost.")).lags
    assert (await capture(app, file, folder)).outcome == "captured"
    write(file, *TALK)
    assert not (await capture(app, file, folder, "SessionEnd", last_message="Lost.")).lags


async def test_nothing_forgotten_comes_back_when_a_file_is_read_again(
    app: App, file: Path, folder: Path
) -> None:
    write(file, *TALK)
    done = await capture(app, file, folder)
    await run(app, FORGET, ids=done.stored[:1])
    await run(app, AMEND, id=done.stored[1], content="Tabs for indentation.")
    write(file, user("Another beginning"), *TALK)  # replaced: it is begun anew
    again = await capture(app, file, folder)
    assert (again.outcome, again.stored) == ("captured", [])
    assert await contents(app) == ["Tabs for indentation."]


async def test_what_says_more_takes_the_place_of_what_said_less(app: App, file: Path, folder: Path) -> None:
    more = "Always use tabs for indentation and alignment, never spaces."
    write(file, *TALK)
    first = await capture(app, file, folder)
    append(file, user(more), claude("Noted."), user("Thanks"))
    second = await capture(app, file, folder)
    assert second.superseded == first.stored[1:]
    assert await contents(app) == [DECIDED, more]


async def test_another_number_is_another_fact_and_less_is_no_news(app: App, file: Path, folder: Path) -> None:
    other = DECIDED.replace("order database", "audit database").replace("16", "15")
    write(file, *TALK)
    await capture(app, file, folder)
    write(file.with_name("t.jsonl"), user(other), user(TABS), claude("Noted."))
    done = await capture(app, file.with_name("t.jsonl"), folder)
    assert (len(done.stored), done.superseded, done.duplicates) == (1, [], 1)
    assert await contents(app) == [DECIDED, TABS, other]


async def test_what_is_kept_for_good_stays(app: App, file: Path, folder: Path) -> None:
    write(file, *TALK)
    first = await capture(app, file, folder)
    await run(app, AMEND, id=first.stored[1], anchor=True)
    more = "Always use tabs for indentation and alignment, never spaces."
    append(file, user(more), claude("Noted."), user("Thanks"))
    assert (await capture(app, file, folder)).superseded == []
    assert await contents(app) == [DECIDED, TABS, more]


async def test_marked_turns_are_left_out(app: App, file: Path, folder: Path) -> None:
    write(file, user(f"[skip-hook] {DECIDED}"), claude(f"Right: {DECIDED}"), user("Go on"), claude("Done."))
    await capture(app, file, folder)
    append(file, user(f"[skip-hook] {DECIDED}"), claude("Yes."), claude("Indeed."))
    await capture(app, file, folder)
    append(file, claude(f"As I said: {DECIDED}"), claude("Yes."), user(TABS))  # still the answer to the mark
    await capture(app, file, folder)
    assert await contents(app) == [TABS]


async def test_our_own_calls_are_never_captured(app: App, file: Path, folder: Path) -> None:
    write(file, user(f"Pick out what matters: {DECIDED}\n\n[mindhold: own call]"), *TALK)
    assert (await capture(app, file, folder)).outcome == "own_call"
    append(file, *TALK)
    assert (await capture(app, file, folder, "SessionEnd")).outcome == "own_call"
    assert await contents(app) == []


@pytest.mark.parametrize("pattern", ["{folder}", "{folder}/../*", "shop"])
async def test_folders_can_be_left_out(opened: Open, file: Path, folder: Path, pattern: str) -> None:
    write(file, *TALK)
    chosen = str(folder.parent / "*") if ".." in pattern else pattern.format(folder=folder)
    async with opened(**{"capture.exclude": f"/elsewhere, {chosen}"}) as app:
        assert (await capture(app, file, folder)).outcome == "excluded"
        assert await contents(app) == []


async def test_capture_can_be_switched_off_and_narrowed(opened: Open, file: Path, folder: Path) -> None:
    write(file, *TALK)
    async with opened(**{"capture.enabled": False}) as app:
        assert (await capture(app, file, folder)).outcome == "disabled"
    async with opened(**{"capture.kinds": "preference"}) as app:
        await capture(app, file, folder)
        assert await contents(app) == [TABS]


async def test_sub_agents_can_be_left_out(opened: Open, file: Path, folder: Path) -> None:
    aside = [line | {"isSidechain": True} for line in TALK[:2]]
    write(file, *aside, *TALK[2:])
    async with opened(**{"capture.subagents": False}) as app:
        done = await capture(app, file, folder, "SubagentStop", subagent="a1")
        assert done.outcome == "disabled"
        await capture(app, file, folder)
        assert await contents(app) == [TABS]


async def test_secrets_are_stored_nowhere(app: App, file: Path, folder: Path) -> None:
    secret = "hunter2-Zx81-kq"
    write(file, user(f"We decided to use the password: {secret} for the test database."), *TALK)
    await capture(app, file, folder)
    assert on_disk(app, secret) == []


async def test_folders_of_a_repository_are_one_project(app: App, tmp_path: Path, file: Path) -> None:
    top = tmp_path / "code" / "shop"
    (top / ".git").mkdir(parents=True)
    (top / "packages" / "api").mkdir(parents=True)
    write(file, *TALK)
    assert (await capture(app, file, top / "packages" / "api")).scope == "shop"
    append(file, user(AGAIN), claude("Fine."), user("Thanks"))
    assert (await capture(app, file, top)).scope == "shop"
    assert (await run(app, SHOW_PROJECT, name="shop")).path == str(top.resolve())
    namesake = tmp_path / "other" / "shop"
    namesake.mkdir(parents=True)
    write(file.with_name("t.jsonl"), *TALK)
    assert (await capture(app, file.with_name("t.jsonl"), namesake)).scope == "shop-2"


async def test_nothing_is_made_where_nothing_is_found(app: App, file: Path, folder: Path) -> None:
    write(file, user("Hello"), claude("Hi"), user("Bye"))
    done = await capture(app, file, folder)
    assert (done.scope, done.stored) == (None, [])


async def test_a_deactivated_project_is_left_alone(app: App, file: Path, folder: Path) -> None:
    write(file, *TALK)
    await capture(app, file, folder)
    await run(app, CHANGE_SCOPE, name="shop", active=False)
    append(file, user(AGAIN), claude("Fine."), user("Thanks"))
    assert (await capture(app, file, folder)).outcome == "excluded"
    await run(app, CHANGE_SCOPE, name="shop", active=True)
    assert len((await capture(app, file, folder)).stored) == 1


async def test_what_is_not_there_is_said_to_be_gone(app: App, file: Path, folder: Path) -> None:
    assert (await capture(app, file, folder)).outcome == "gone"
    write(file, *TALK)
    assert (await capture(app, file, folder / "gone")).outcome == "gone"
    assert len((await capture(app, file, folder)).stored) == 2  # nothing was passed over


async def test_the_state_of_a_project_is_told(app: App, file: Path, folder: Path) -> None:
    write(file, *TALK)
    await capture(app, file, folder)
    append(file, user(AGAIN), claude("Fine."), user("Thanks"))
    await capture(app, file, folder)
    state = await read_state(app.engine, "shop")
    assert (state.captures, state.stored_total, state.rung, state.event) == (2, 3, "rules", "Stop")
    assert (state.conversation, state.problem) == ("s", "")
    assert state.captured_at is not None
    assert (await read_state(app.engine, "elsewhere")).captures == 0


async def test_the_end_of_a_conversation_condenses_and_documents_follow(
    app: App, file: Path, folder: Path
) -> None:
    document = folder / "CLAUDE.md"
    document.write_text("# Shop\n\n<!-- MEMORY:START -->\n<!-- MEMORY:END -->\n")
    write(file, *TALK)
    done = await capture(app, file, folder, "SessionEnd")
    assert done.condensed
    assert [one.changed for one in done.documents] == [True]
    assert DECIDED in document.read_text()
    append(file, user(AGAIN), claude("Fine."), user("Thanks"))
    done = await capture(app, file, folder, documents=False)
    assert (done.condensed, done.documents) == ("", [])
    assert AGAIN not in document.read_text()


async def test_files_that_are_no_transcripts_do_no_harm(app: App, file: Path, folder: Path) -> None:
    write(file)
    for content in (
        b"",
        b"{",
        b"not json\n" * 5,
        b'{"type":"user","message":{"content":"\\u0000\\ud800 hm"}}\n',
    ):
        file.write_bytes(content)
        assert (await capture(app, file, folder, "SessionEnd")).stored == []


# A store that goes away in the middle


class Dying:
    """The store, until so many changes were made: then every call fails, as for a process that is killed."""

    def __init__(self, store: Store, lives: int) -> None:
        self._store = store
        self.lives = lives

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("apply", "put_entry", "drop_entry", "swap_cursor", "put_scope", "set_cursor"):
            return method

        async def changing(*args: Any, **kwargs: Any) -> Any:
            if self.lives <= 0:
                raise StoreAway("The process is no more.")
            self.lives -= 1
            return await method(*args, **kwargs)

        return changing


def later(app: App) -> App:
    """The same app after a while in which nobody gave a sign of life."""
    before = app.engine.clock
    return replace(app, engine=replace(app.engine, clock=lambda: before() + timedelta(seconds=30)))


async def stopped(app: App, file: Path, folder: Path, lives: int) -> bool:
    """Whether a capture came to its end before the store went away after so many changes."""
    dying = Dying(app.engine.store, lives)
    doomed = replace(app, engine=replace(app.engine, store=cast(Store, dying)))
    try:
        await capture(doomed, file, folder)
    except StoreAway:
        return False
    return dying.lives > 0


async def test_stopped_anywhere_and_run_again_everything_is_there_once(
    app: App, tmp_path: Path, file: Path
) -> None:
    more = "Always use tabs for indentation and alignment, never spaces."
    lives, survived = 0, False
    while not survived:
        folder, own = tmp_path / "code" / f"shop{lives}", file.with_name(f"{lives}.jsonl")
        folder.mkdir(parents=True)
        write(own, *TALK, *ran("make", "done", call="t1"))
        survived = await stopped(app, own, folder, lives)
        second = later(app)
        await capture(second, own, folder)
        assert await contents(app, scope=folder.name) == [DECIDED, TABS], lives
        append(own, user(more), claude("Noted."), user("Thanks"))
        survived &= await stopped(second, own, folder, lives)
        await capture(later(second), own, folder)
        assert await contents(app, scope=folder.name) == [DECIDED, more], lives
        everyone = await contents(app, scope=folder.name, statuses=["active", "superseded"])
        assert everyone == [DECIDED, TABS, more], lives
        assert await app.engine.store.entries(PENDING_NAMESPACE, now=app.engine.clock()) == []
        assert (await capture(later(second), own, folder)).outcome == "nothing"
        lives += 1
    assert lives > 8


# With a model


@pytest.fixture
def with_model(opened: Open) -> Callable[[LanguageServer], Any]:
    def made(server: LanguageServer) -> Any:
        return opened(
            **{
                "capture.extract_with": "model",
                "llm.provider": "anthropic",
                "llm.anthropic_key": KEY,
                "llm.base_url": server.url,
                "llm.wait_seconds": 5,
            }
        )

    return made


def long_talk(count: int) -> list[Line]:
    return [user(f"Point {number}: " + "words and more words " * 100) for number in range(count)]


async def test_a_model_picks_out_and_rules_stand_in_for_it(
    with_model: Callable[[LanguageServer], Any], file: Path, folder: Path
) -> None:
    found = {"type": "gotcha", "content": "The order table has no index on email.", "tags": ["orders"]}
    replies = iter([json.dumps([found]), "no JSON at all", "still none"])
    with LanguageServer(lambda _system, _prompt: next(replies), key=KEY) as server:
        async with with_model(server) as app:
            write(file, *TALK)
            done = await capture(app, file, folder)
            assert done.rung not in ("", "rules")
            assert await contents(app) == [found["content"]]
            assert DECIDED in server.asked[0].prompt
            append(file, user(AGAIN), claude("Fine."), user("Thanks"))
            done = await capture(app, file, folder)
            assert done.rung == "rules"
            assert "Rules picked out" in done.notice
            assert await contents(app) == [found["content"], AGAIN]
            state = await read_state(app.engine, "shop")
            assert "Rules picked out" in state.problem


async def test_calls_of_a_capture_are_bounded(
    with_model: Callable[[LanguageServer], Any], opened: Open, file: Path, folder: Path
) -> None:
    with LanguageServer(lambda _system, _prompt: "[]", key=KEY) as server:
        write(file, *long_talk(60), user(DECIDED))
        async with with_model(server) as app:
            done = await capture(app, file, folder)
    assert len(server.asked) == 10
    assert done.outcome == "captured"
