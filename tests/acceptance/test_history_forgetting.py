"""Forgetting a past conversation: all of it, whoever stored it, however often one has to try; and letting it back."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, acting, everything, run
from shelved_talks import Shelf, index, known
from talks import append, claude, user, write

from mindhold import locks
from mindhold.app.application import App
from mindhold.capture.capture import CURSOR_PREFIX, cursor_key
from mindhold.history import index_guard
from mindhold.history.archive_space import archive_name, archive_prefix
from mindhold.history.index_guard import index_turn, note_forgotten
from mindhold.locks import wait_for_claim
from mindhold.model.errors import InvalidInput, NotFound, Refused, StoreBusy
from mindhold.model.scope import Caller
from mindhold.operation_index import operation
from mindhold.ports.history import IndexedConversation

FIRST = "3f2a91c0-1111-4222-8333-444455556666"
CODEX = "01999f2a-7c31-7d10-8a11-52b6a5f0c001"
RULE = "We always use PostgreSQL for the tests, never SQLite."


@pytest.fixture
def shelf(home: Path) -> Shelf:
    return Shelf(home.parent / "claude")


@pytest.fixture
async def app(opened: Open, shelf: Shelf) -> AsyncIterator[App]:
    async with opened(**{"history.codex_dir": str(shelf.folder.parent / "codex")}) as app:
        yield app


async def ask(app: App, name: str, **fields: Any) -> Any:
    return await run(app, operation(name), **fields)


async def forget(app: App, session: str = FIRST, **fields: Any) -> Any:
    return await ask(app, "forget_conversation", session=session, **fields)


def a_talk(shelf: Shelf, session: str = FIRST) -> Path:
    return shelf.talk(session, user(RULE), claude("Noted."))


async def captured(app: App, file: Path) -> Any:
    return await ask(app, "capture", file=str(file), folder=str(file.parent))


# Nothing of it stays


async def test_what_every_agent_stored_of_it_goes(app: App, shelf: Shelf) -> None:
    file = a_talk(shelf)
    other = acting(app, "ci")
    assert (await captured(other, file)).stored
    long = "\n\n".join(f"Chapter {number} of the handbook tells of the harbour." * 20 for number in range(30))
    handbook = operation("remember")
    await other.run(handbook, handbook.takes(content=long), conversation=FIRST)
    done = await forget(app)
    assert done.memory_count >= 3
    assert done.receipt.empty
    assert await everything(other) == []


async def test_a_capture_under_way_keeps_nothing(app: App, shelf: Shelf) -> None:
    class Slow:
        """Somebody forgets the conversation while it is asked."""

        name = "slow-1"

        async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
            await note_forgotten(app.engine, FIRST)
            found = {"content": RULE, "type": "preference", "confidence": 0.9, "line": 1}
            return json.dumps({"memories": [found], "extractions": [found]})

    capture = replace(app.engine.settings.capture, extract_with="model")
    thinking = replace(app, engine=replace(app.engine.with_settings(capture=capture), llm=Slow()))
    told = await captured(thinking, a_talk(shelf))
    assert told.outcome == "forgotten"
    assert await everything(app) == []
    assert await app.engine.store.entries("capture:pending", now=app.engine.clock(), limit=10) == []


async def test_it_waits_for_a_capture_and_says_how_to_finish(
    app: App, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "WAIT_TRIES", 1)
    file = a_talk(shelf)
    await captured(app, file)
    key = cursor_key(FIRST, str(file))
    async with wait_for_claim(app.engine, CURSOR_PREFIX + key):
        with pytest.raises(StoreBusy) as refused:
            await forget(app, "3f2a")
    assert FIRST in refused.value.advice
    assert (await captured(app, file)).outcome == "forgotten"
    assert (await forget(app, "3f2a")).receipt.empty
    assert await everything(app) == []


async def test_what_another_process_held_up_is_finished_by_a_second_try(
    app: App, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_guard, "PATIENCE", 1)
    file = a_talk(shelf)
    await captured(app, file)
    await index(app)
    await ask(app, "archive_history")
    with index_turn(app.loaded.settings.home), pytest.raises(StoreBusy) as refused:
        await forget(app, "3f2a")
    assert FIRST in refused.value.advice
    with index_turn(app.loaded.settings.home):  # while its rows are still there
        assert known(app) != {}
        assert (await ask(app, "search_history", query="PostgreSQL tests")).results == []
        assert (await ask(app, "history_timeline", days=3650)).sessions == []
        with pytest.raises(NotFound, match="is forgotten"):
            await ask(app, "show_conversation", session="3f2a")
    await index(app)  # which lets go of its rows
    assert known(app) == {}
    done = await forget(app, "3f2a")
    assert done.already
    assert done.receipt.empty
    assert (await ask(app, "history_status")).copies == 0
    assert await everything(app) == []
    again = await forget(app, "3f2a")
    assert (again.session_id, again.already, sum(again.receipt.removed.values())) == (FIRST, True, 0)


async def test_a_second_try_takes_no_other_that_is_called_alike(app: App, shelf: Shelf) -> None:
    a_talk(shelf)
    await index(app)
    await forget(app, "3f2")
    a_talk(shelf, "3f2c0000-1111-4222-8333-444455556666")
    await index(app)
    with pytest.raises(InvalidInput, match="several"):
        await forget(app, "3f2")
    assert len(known(app)) == 1


async def test_copies_of_another_that_is_called_alike_stay(app: App, shelf: Shelf) -> None:
    for session in ("fix.bug", "fix_bug"):
        a_talk(shelf, session)
    await index(app)
    await ask(app, "archive_history")
    before = await forget(app, "fix.bug", preview=True)
    done = await forget(app, "fix.bug")
    assert (before.archived, done.receipt.removed["archive"]) == (1, 1)
    assert (await ask(app, "history_status")).copies == 1


def test_no_two_sessions_have_names_that_begin_alike(tmp_path: Path) -> None:
    ids = ("fix_bug", "fix.bug", "fix bug", "a" * 80, "a" * 81, "a" * 80 + ".b")
    assert len({archive_prefix("claude", one) for one in ids}) == len(ids)
    for one in ids:
        name = archive_name(IndexedConversation(one, "claude", tmp_path / "x.jsonl"))
        assert [other for other in ids if name.startswith(archive_prefix("claude", other))] == [one]


async def test_preview_and_receipt_count_the_same_copies(app: App, shelf: Shelf) -> None:
    file = a_talk(shelf)
    await index(app)
    await ask(app, "archive_history")
    shelf.talk(FIRST, user("Something else entirely, in the place of the file that was there before."))
    await ask(app, "archive_history")
    before = await forget(app, preview=True)
    assert (await forget(app)).receipt.removed["archive"] == before.archived
    assert file.exists()


# What isn't it


async def test_conversations_that_repeat_it_are_named_and_stay(app: App, shelf: Shelf) -> None:
    a_talk(shelf)
    first = shelf.entries(FIRST, user(RULE), claude("Noted."))
    fork = [line | {"sessionId": "fork"} for line in first] + shelf.entries("fork", user("And now?"), start=9)
    write(shelf.file("fork"), *fork)
    shelf.talk("apart", user("The heron lands at dusk."))
    await index(app)
    before = await forget(app, preview=True)
    done = await forget(app)
    for told in (before, done):
        assert [one.session_id for one in told.repeated_in] == ["fork"]
    assert known(app).keys() == {"fork", "apart"}


async def test_a_sub_agents_is_only_forgotten_with_the_whole(app: App, shelf: Shelf) -> None:
    file = a_talk(shelf)
    below = write(
        file.with_suffix("") / "subagents" / "agent-ab12.jsonl",
        *shelf.entries(FIRST, user("Count pelicans.")),
    )
    await index(app)
    for preview in (True, False):
        with pytest.raises(InvalidInput, match=FIRST):
            await forget(app, "agent-ab12", preview=preview)
    assert known(app).keys() == {FIRST, "agent-ab12"}
    file.unlink()
    await index(app)
    assert (await forget(app)).originals == [str(below)]  # the advice holds where only that is left
    assert known(app) == {}


async def test_who_speaks_for_one_agent_may_not(app: App, shelf: Shelf) -> None:
    await captured(app, a_talk(shelf))
    bound = Caller(agent="ci", bound=True)
    chosen = operation("forget_conversation")
    for fields in ({}, {"lift": True}):
        with pytest.raises(Refused):
            await app.run(chosen, chosen.takes(session=FIRST, **fields), caller=bound)
    assert await everything(app)


# It doesn't come back


async def test_files_that_only_tell_it_inside_are_not_captured(app: App, shelf: Shelf) -> None:
    file = a_talk(shelf)
    await index(app)
    await forget(app)
    beside = write(file.with_name("agent-aa02.jsonl"), *shelf.entries(FIRST, user(RULE), claude("Noted.")))
    elsewhere = Path(shutil.copy(file, shelf.folder.parent / "other.jsonl"))
    for copy in (beside, elsewhere):
        assert (await captured(app, copy)).outcome == "forgotten"
    assert await everything(app) == []


@pytest.mark.parametrize("noted_only", [False, True])
async def test_a_file_that_only_tells_it_inside_is_not_read_again(
    app: App, shelf: Shelf, noted_only: bool
) -> None:
    folder = shelf.folder.parent / "codex" / "sessions" / "2026" / "03" / "02"
    told = {"id": CODEX, "timestamp": "2026-03-02T09:59:59.000Z", "cwd": "/code/shop", "source": "cli"}
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": RULE}]}
    at = {"timestamp": "2026-03-02T10:00:00.000Z"}
    file = write(
        folder / f"rollout-2026-03-02T09-59-59-{CODEX}.jsonl",
        at | {"type": "session_meta", "payload": told},
        at | {"type": "response_item", "payload": said},
    )
    await index(app)
    assert known(app).keys() == {CODEX}
    if noted_only:  # and the next pass lets go of it
        await note_forgotten(app.engine, CODEX)
    else:
        assert (await forget(app, CODEX)).receipt.removed["index: conversations"] == 1
    for _ in range(2):
        append(file, at | {"type": "response_item", "payload": said})
        assert (await index(app)).bytes == 0
        assert (await index(app, all=True)).bytes == 0
        assert (await ask(app, "history_status")).unread_files == 0
    assert known(app) == {}
    await forget(app, CODEX, lift=True)
    assert (await index(app)).conversations == 1


async def test_what_is_lifted_is_captured_again(app: App, shelf: Shelf) -> None:
    file = a_talk(shelf)
    assert (await captured(app, file)).stored
    [memory] = await everything(app)
    await forget(app)
    with pytest.raises(InvalidInput):
        await forget(app, lift=True, preview=True)
    await forget(app, str(file), lift=True)
    assert (await captured(app, file)).stored
    [memory] = await everything(app)
    # What a person erased one by one stays away.
    await ask(app, "forget", ids=[memory.id], hard=True, confirm=True)
    await forget(app)
    await forget(app, lift=True)
    assert not (await captured(app, file)).stored
