"""Chats exported from Cursor: Markdown, and lists of messages as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mindhold.ports.transcripts import Role, TranscriptCursor, TranscriptRead, TranscriptStep
from mindhold.providers.transcripts.cursor import CursorTranscripts, parse_export_time

EXPORT = """# Login without cookies
_Exported on 5/3/2026 at 17:47:04 PDT from Cursor (2.4.27)_

---

**User**

Why does the login fail?

---

**Cursor**

The cookie has no `sid`:

---

It is the **User** who has none.

**User**

is a heading of the answer here.

---

**User**

Fix it

"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "chats").mkdir()
    return tmp_path / "chats"


@pytest.fixture
def source(folder: Path) -> CursorTranscripts:
    return CursorTranscripts(folder)


def follow(source: CursorTranscripts, file: Path, cursor: TranscriptCursor | None = None) -> TranscriptRead:
    followed = source.follow(file, cursor or TranscriptCursor(), most_bytes=1 << 20)
    assert followed is not None
    return followed


def told(steps: Sequence[TranscriptStep]) -> list[tuple[str, str]]:
    return [(step.role.value, step.text) for step in steps]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_an_export_tells_who_said_what(source: CursorTranscripts, folder: Path, ends: str) -> None:
    file = folder / "cursor_login.md"
    file.write_bytes(EXPORT.replace("\n", ends).encode())
    followed = follow(source, file)
    answer = "The cookie has no `sid`:\n\n---\n\nIt is the **User** who has none.\n\n**User**\n\nis a heading of the answer here."
    assert told(followed.steps) == [
        ("USER", "Why does the login fail?"),
        ("CLAUDE", answer),
        ("USER", "Fix it"),
    ]
    text = EXPORT.splitlines()
    assert [text[step.line - 1] for step in followed.steps] == ["**User**", "**Cursor**", "**User**"]
    assert followed.steps[-1].end >= len(EXPORT.encode())
    about = followed.about
    assert (about.title, about.title_by, about.bad_lines) == ("Login without cookies", "custom", ())
    assert about.session_id.endswith("-cursor_login")


@pytest.mark.parametrize(
    ("words", "written", "moment"),
    [
        (
            "5/3/2026 at 17:47:04 PDT",
            datetime(2026, 5, 4, tzinfo=UTC),
            datetime(2026, 5, 3, 17, 47, tzinfo=UTC),
        ),
        (
            "5/3/2026 at 17:47:04 CET",
            datetime(2026, 3, 6, tzinfo=UTC),
            datetime(2026, 3, 5, 17, 47, tzinfo=UTC),
        ),
        (
            "2026/2/28 at GMT+8 10:28:33",
            datetime(2026, 9, 9, tzinfo=UTC),
            datetime(2026, 2, 28, 10, 28, tzinfo=UTC),
        ),
        (
            "25.12.2025 at 1:02:03 PM",
            datetime(2026, 9, 9, tzinfo=UTC),
            datetime(2025, 12, 25, 13, 2, tzinfo=UTC),
        ),
        ("31/31/2026", datetime(2026, 9, 9, tzinfo=UTC), None),
        ("yesterday", datetime(2026, 9, 9, tzinfo=UTC), None),
    ],
)
def test_the_day_of_an_export_is_read_by_when_it_was_written(
    words: str, written: datetime, moment: datetime | None
) -> None:
    assert parse_export_time(words, written) == moment


def test_an_export_without_a_day_is_as_old_as_its_file(source: CursorTranscripts, folder: Path) -> None:
    file = folder / "a.md"
    file.write_text("**User**\n\nHello\n", encoding="utf-8")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    followed = follow(source, file)
    assert told(followed.steps) == [("USER", "Hello")]
    assert followed.about.ended == datetime.fromtimestamp(1_700_000_000, UTC)
    assert followed.steps[0].timestamp is None  # it was said some time before


def test_an_export_that_is_made_again_is_given_as_a_whole(source: CursorTranscripts, folder: Path) -> None:
    file = folder / "a.md"
    file.write_text(EXPORT, encoding="utf-8")
    first = follow(source, file)
    assert not first.restarted
    assert follow(source, file, first.cursor).steps == ()
    file.write_text(EXPORT + "---\n\n**Cursor**\n\nDone.\n", encoding="utf-8")
    second = follow(source, file, first.cursor)
    assert second.restarted
    assert told(second.steps)[2:] == [("USER", "Fix it"), ("CLAUDE", "Done.")]


def test_a_list_of_messages_is_a_chat(source: CursorTranscripts, folder: Path) -> None:
    file = folder / "list.json"
    messages = [
        {"role": "user", "content": "Build it", "timestamp": "2026-05-01T08:00:00Z"},
        {"role": "assistant", "text": "I do.", "timestamp": 1_777_622_405_000},
        {"role": "tool", "name": "run_terminal_cmd", "content": "make: error", "is_error": True},
        {"role": "system", "content": "Rules"},
        {"role": "assistant", "content": [{"type": "text", "text": "It broke."}, "Sorry."]},
        {"role": "user"},
        7,
    ]
    file.write_text(json.dumps(messages, indent=1), encoding="utf-8")
    followed = follow(source, file)
    assert told(followed.steps) == [
        ("USER", "Build it"),
        ("CLAUDE", "I do."),
        ("RESULT", "make: error"),
        ("CLAUDE", "It broke.\n\nSorry."),
    ]
    assert (followed.steps[2].role, followed.steps[2].tool, followed.steps[2].failed) == (
        Role.RESULT,
        "run_terminal_cmd",
        True,
    )
    assert followed.steps[1].timestamp == datetime(2026, 5, 1, 8, 0, 5, tzinfo=UTC)
    assert [step.line for step in followed.steps] == [2, 7, 12, 22]


def test_messages_may_stand_in_an_object(source: CursorTranscripts, folder: Path) -> None:
    file = folder / "object.json"
    chat = {"title": "Build", "messages": [{"type": "user", "message": "Go"}, {"type": "ai", "text": "Yes"}]}
    file.write_text(json.dumps(chat), encoding="utf-8")
    followed = follow(source, file)
    assert told(followed.steps) == [("USER", "Go"), ("CLAUDE", "Yes")]
    assert followed.about.title == "Build"


def test_a_list_that_breaks_off_gives_what_stands_before(source: CursorTranscripts, folder: Path) -> None:
    file = folder / "broken.json"
    file.write_text('[\n{"role": "user", "content": "Go"},\n{"role": "assist', encoding="utf-8")
    followed = follow(source, file)
    assert told(followed.steps) == [("USER", "Go")]
    assert followed.about.bad_lines == (3,)


def test_only_chats_are_found(source: CursorTranscripts, folder: Path) -> None:
    deep = folder / "shop" / "old"
    deep.mkdir(parents=True)
    chats = [folder / "a.md", deep / "a.md", folder / "b.json"]
    for path in chats[:2]:
        path.write_text(EXPORT, encoding="utf-8")
    chats[2].write_text('[{"role": "user", "content": "Go"}]', encoding="utf-8")
    (folder / "README.md").write_text("# Chats\n\nof last year", encoding="utf-8")
    (folder / "package.json").write_text('{"name": "x"}', encoding="utf-8")
    (folder / "c.txt").write_text(EXPORT, encoding="utf-8")
    found = source.files()
    assert {one.path for one in found} == set(chats)
    assert {one.source for one in found} == {"cursor"}
    sessions = {follow(source, one.path).about.session_id for one in found}
    assert len(sessions) == 3  # two of one name are two
    assert source.roots() == [folder]
    assert source.owns(deep / "a.md")
    assert not source.owns(folder.parent / "a.md")
    assert source.note(chats[0]) == ""
    assert CursorTranscripts(folder / "none").roots() == []
    assert source.follow(folder / "none.md", TranscriptCursor(), most_bytes=9) is None
