"""The index of past conversations when rules, settings and files change: it is as if all had been read by the rules of today."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from front_door import Open
from shelved_talks import Shelf, everything, head, index, known, passages, told
from talks import Line, append, claude, ran, user, write

from mindhold.app.application import App
from mindhold.history.index import REREAD
from mindhold.model.lexemes import LexemeCache
from mindhold.ports.history import ConversationLabel, IndexedConversation
from mindhold.ports.transcripts import beginning
from mindhold.text import redaction

TOKEN = "ghp_" + "NqVwYS81VP7Hb1DX8pPd5khxE3pyIgKpaUnA"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "claude")


def _on_disk(home: Path) -> bytes:
    return b"".join(file.read_bytes() for file in (home / "data").glob("history.db*"))


@pytest.mark.parametrize("before", [480, 1_980, 3_980])
async def test_no_cut_goes_through_a_secret_before_it_is_known_as_one(
    app: App, shelf: Shelf, before: int
) -> None:
    long = ("word " * before)[:before] + f"{TOKEN} and more of it"
    shelf.talk(
        "s1",
        user("Deploy the shop."),
        {"type": "custom-title", "customTitle": long},
        {"type": "summary", "leafUuid": "s1-0", "summary": long},
    )
    await index(app)
    said = f"{everything(app)} {known(app)['s1'].title.text} {app.engine.history.leaf_summaries()}"
    assert TOKEN[:12] not in said


def test_a_beginning_has_whole_words() -> None:
    assert beginning("one two", 7) == "one two"
    assert beginning("one two three", 7) == "one two"
    assert beginning("one two three", 9) == "one two "
    assert beginning("onetwothree", 5) == ""


async def test_secrets_that_were_let_in_go_when_they_are_redacted_again(
    opened: Open, shelf: Shelf, home: Path
) -> None:
    shelf.talk("s1", user(f"The token is {TOKEN}, use it."), claude("Done."))
    shelf.talk("s2", user("Paint the fence."), claude("It is painted."))
    async with opened(**{"intake.redact": False}) as app:
        await index(app)
        assert TOKEN in told(app, "s1")
        one = known(app)["s1"]
        app.engine.history.put(_summed_up(app, "s1", f"Somebody used {TOKEN}."), ())
        assert one.row == known(app)["s1"].row
    async with opened() as app:
        assert REREAD in (await index(app)).notice
        assert TOKEN not in everything(app)
        assert known(app)["s1"].summary == ConversationLabel(
            "Somebody used [redacted:github-token].", "model"
        )
        assert TOKEN[4:].lower().encode() not in _on_disk(home).lower()
        assert (await index(app)).notice == ""


def _summed_up(app: App, session: str, text: str) -> IndexedConversation:

    return replace(known(app)[session], summary=ConversationLabel(text, "model"))


async def test_better_rules_are_applied_to_what_is_there_and_to_copies(
    opened: Open, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(**{"history.archive": True}) as app:
        gone = shelf.talk("s1", user("Where does the crate go?"), claude("To the harbour."))
        shelf.talk("s2", user("Paint the fence."), claude("It is painted."))
        await index(app)
        gone.unlink()
        await index(app)
        before = known(app)
        monkeypatch.setattr(
            "mindhold.history.preparation.REDACTION_VERSION", f"{redaction.REDACTION_VERSION}+"
        )
        await index(app)
        after = known(app)
        assert {name: one.rules for name, one in after.items()} == dict.fromkeys(
            before, f"{redaction.REDACTION_VERSION}+"
        )
        assert after["s1"].gone
        assert "harbour" in told(app, "s1")


async def test_what_turns_out_to_be_excluded_leaves_no_word(opened: Open, shelf: Shelf, home: Path) -> None:
    async with opened(**{"history.exclude": "/srv/hidden"}) as app:
        file = write(shelf.file("s1"), user("The walrus plan is ready.", sessionId="s1", cwd=""))
        await index(app)
        assert "walrus" in told(app, "s1")
        append(file, claude("It is.", sessionId="s1", cwd="/srv/hidden"))
        await index(app)
        assert known(app) == {}
        assert app.engine.history.search(["walrus"]) == []
        [silent] = app.engine.history.conversations()
        assert app.engine.history.passages_of(silent.row) == []
        assert b"walrus" not in _on_disk(home)


async def test_a_conversation_read_line_by_line_is_indexed_as_at_once(app: App, shelf: Shelf) -> None:
    lines: list[Line] = []
    for number in range(4):
        lines += [
            user(f"Question {number} about the gate?"),
            *ran(f"make gate-{number}", "fine", call=f"c{number}"),
            claude(f"Answer {number}. " + "It swings both ways now. " * 30),
            claude("And the hinge is oiled. " * 20),
        ]
    live = shelf.talk("s1", *lines[:1])
    for number, line in enumerate(lines[1:], 1):
        append(live, *shelf.entries("s1", line, start=number))
        await index(app)
    shelf.talk("s2", *lines)
    await index(app)
    grown, whole = passages(app, "s1"), passages(app, "s2")
    assert [one.utterances for one in grown] == [one.utterances for one in whole]
    assert [one.lexemes for one in grown] == [one.lexemes for one in whole]
    assert head(app, "s1").utterances[0].text == head(app, "s2").utterances[0].text
    found = app.engine.history.search(LexemeCache().of("hinge").split())
    there = {row for one in known(app).values() for row, _ in app.engine.history.passages_of(one.row)}
    assert {one.passage for one in found} <= there
    assert len({one.conversation for one in found}) == 2


async def test_what_sub_agents_said_in_the_sessions_own_file_comes_and_goes(
    opened: Open, shelf: Shelf
) -> None:
    shelf.talk("s1", user("Ask the zebra."), user("Look for the walrus.", isSidechain=True), claude("Done."))
    async with opened() as app:
        await index(app)
        assert "walrus" in told(app, "s1")
    async with opened(**{"history.subagents": False}) as app:
        await index(app)
        assert "walrus" not in told(app, "s1")
        assert "zebra" in told(app, "s1")
    async with opened() as app:
        await index(app)
        assert "walrus" in told(app, "s1")


async def test_conversations_of_agents_that_are_not_named_go(opened: Open, shelf: Shelf) -> None:
    shelf.talk("s1", user("Where is the walrus?"), claude("In the harbour."))
    shelf.talk("s2", user("Where is the crate?"), claude("At the depot.")).touch()
    async with opened(**{"history.archive": True}) as app:
        await index(app)
        shelf.file("s2").unlink()
        await index(app)
        assert set(known(app)) == {"s1", "s2"}
    async with opened(**{"history.agents": "codex"}) as app:
        await index(app)
        await index(app)
        assert known(app) == {}
    async with opened() as app:
        await index(app)
        assert set(known(app)) == {"s1", "s2"}


async def test_a_folder_that_is_not_there_takes_nothing_out(app: App, shelf: Shelf, tmp_path: Path) -> None:
    shelf.talk("s1", user("Where is the walrus?"), claude("In the harbour."))
    await index(app)
    shutil.move(shelf.folder / "projects", tmp_path / "away")
    await index(app)
    assert set(known(app)) == {"s1"}


async def test_where_the_programs_folder_is_another_what_is_deleted_in_the_one_before_goes(
    opened: Open, shelf: Shelf, tmp_path: Path
) -> None:
    """Two folders, each set in a shell of its own, don't take out one another's conversations."""
    shelf.talk("s1", user("Where is the walrus?"), claude("In the harbour."))
    shelf.talk("s2", user("Where is the crate?"), claude("At the depot."))
    other = Shelf(tmp_path / "other")
    other.talk("s3", user("Where is the parcel?"), claude("On the ship."))
    async with opened() as app:
        await index(app)
    async with opened(**{"history.claude_dir": str(other.folder)}) as app:
        await index(app)
        assert set(known(app)) == {"s1", "s2", "s3"}
        shelf.file("s1").unlink()
        await index(app)
        assert set(known(app)) == {"s2", "s3"}
        shutil.move(shelf.folder, tmp_path / "away")
        await index(app)
        assert set(known(app)) == {"s2", "s3"}


async def test_an_emptied_file_is_found_no_more_until_it_says_something_again(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("Where is the walrus?"), claude("In the harbour."))
    await index(app)
    file.write_text("")
    await index(app)
    assert known(app) == {}
    shelf.talk("s1", user("Where is the crate?"), claude("At the depot."))
    await index(app)
    assert "crate" in told(app, "s1")


async def test_every_line_that_cannot_be_read_is_counted(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("The first line is fine."))
    with file.open("a", encoding="utf-8") as stream:
        stream.write("noise\n" * 172)
    answer = await index(app)
    assert len(answer.warnings) == 100
    assert "72 more" in answer.warnings[0].problem


async def test_a_line_that_breaks_off_is_told_once_nobody_goes_on_with_it(app: App, shelf: Shelf) -> None:
    file = shelf.talk("s1", user("Where is the walrus?"))
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(claude("In the harbour.", sessionId="s1"))[:-9])
    assert (await index(app)).warnings == []
    os.utime(file, (1.7e9, 1.7e9))
    answer = await index(app)
    assert [(one.line, "breaks off" in one.problem) for one in answer.warnings] == [(2, True)]
    assert (await index(app)).warnings == []


async def test_what_is_too_long_is_told_as_such(
    app: App, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindhold.providers.transcripts.entries.LONGEST_LINE", 2_000)
    shelf.talk("s1", user("Where is the walrus?"), claude("In the harbour. " * 200), claude("It swims."))
    answer = await index(app)
    assert [(one.line, "too long" in one.problem) for one in answer.warnings] == [(2, True)]
    assert "swims" in told(app, "s1")


async def test_a_file_that_is_too_long_is_told_as_such(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindhold.providers.transcripts.reader.MAX_BYTES", 100)
    said = [{"id": "m1", "type": "user", "content": "Where is the walrus? " * 20}]
    file = tmp_path / "gemini" / "tmp" / "shop" / "chats" / "session-2026-03-02T10-00-abc.json"
    write(file, {"sessionId": "g1", "messages": said})
    async with opened(**{"history.gemini_dir": str(tmp_path / "gemini")}) as app:
        answer = await index(app)
        assert [(one.line, one.problem) for one in answer.warnings] == [
            (0, "The file is too long to be read.")
        ]
        assert (await index(app)).warnings == []
