"""Transcripts of Claude Code: which there are, and what they say about themselves, whatever stands in the files."""

from __future__ import annotations

import json
import os
import pickle
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.ports.transcripts import (
    ConversationFile,
    NoTranscripts,
    TranscriptCursor,
    TranscriptInfo,
    TranscriptRead,
    uuid_key,
)
from mindhold.providers.transcripts.claude import ClaudeTranscripts
from mindhold.providers.transcripts.entries import LONGEST_LINE, MAX_LISTED_LINES
from mindhold.providers.transcripts.reader import LONGEST_FOLDER, folder_name

CWD = "/home/me/code/web-shop"
SESSION = "0b7c1d52-6d0e-4f4e-9a55-2f3f2d1c7a10"
LEAF = "7d9f1f6e-52f5-4b0e-8e8a-0d1f3c5b7a99"
START = TranscriptCursor()
PLENTY = 1 << 30


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    """An entry as Claude Code writes it."""
    message: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        message |= {"model": more.pop("model", "claude-opus-4-5")}
    entry = {"type": role, "message": message, "isSidechain": False, "sessionId": SESSION, "cwd": CWD}
    return entry | {"timestamp": "2026-03-02T10:00:00.000Z", "version": "2.1.20"} | more


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def lines(*entries: dict[str, Any]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    made = tmp_path / "claude" / "projects"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def folder(projects: Path) -> Path:
    """Where the transcripts of CWD lie."""
    made = projects / folder_name(CWD)
    made.mkdir()
    return made


def put(path: Path, content: str | bytes = '{"type":"user"}\n', *, modified: int = 1_000_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, (modified, modified))
    return path


def found(projects: Path) -> dict[str, ConversationFile]:
    files = ClaudeTranscripts(projects.parent).files()
    return {file.path.relative_to(projects).as_posix(): file for file in files}


def follow(path: Path, cursor: TranscriptCursor = START, *, most_bytes: int = PLENTY) -> TranscriptRead:
    claude = next((one.parent for one in path.parents if one.name == "projects"), path.parent)
    followed = ClaudeTranscripts(claude).follow(path, cursor, most_bytes=most_bytes)
    assert followed is not None
    return followed


def about(folder: Path, content: str | bytes, *, name: str = SESSION) -> TranscriptInfo:
    return follow(put(folder / f"{name}.jsonl", content)).about


def test_every_conversation_is_found_with_whose_part_it_is(projects: Path) -> None:
    put(projects / "-shop" / f"{SESSION}.jsonl", modified=1_000_002)
    put(projects / "-shop" / SESSION / "session-memory" / "summary.md", "Notes", modified=1_000_009)
    put(projects / "-shop" / SESSION / "subagents" / "agent-1.jsonl", modified=1_000_001)
    put(projects / "-shop" / SESSION / "subagents" / "workflows" / "run" / "agent-2.jsonl")
    put(projects / "-shop" / "agent-3.jsonl", lines(said("user", "Part", isSidechain=True)))
    put(projects / "-bank" / "other.jsonl", modified=1_000_003)
    assert [(name, file.part_of, file.note_modified) for name, file in found(projects).items()] == [
        ("-bank/other.jsonl", "", 0),
        (f"-shop/{SESSION}.jsonl", "", 1_000_009 * 10**9),
        (f"-shop/{SESSION}/subagents/agent-1.jsonl", SESSION, 0),
        ("-shop/agent-3.jsonl", SESSION, 0),
        (f"-shop/{SESSION}/subagents/workflows/run/agent-2.jsonl", SESSION, 0),
    ]
    file = found(projects)["-bank/other.jsonl"]
    assert (file.source, file.folder, file.size, file.modified) == ("claude", "-bank", 16, 1_000_003 * 10**9)


def test_what_is_no_conversation_is_not_found(projects: Path) -> None:
    put(projects / "-shop" / "empty.jsonl", "")
    put(projects / "-shop" / "notes.txt")
    put(projects / "-shop" / "folder.jsonl" / "inside.txt")
    put(projects / "-shop" / SESSION / "subagents" / "journal.jsonl")
    put(projects / "-shop" / SESSION / "tool-results" / "agent-1.jsonl")
    put(projects / "stray.jsonl")
    assert found(projects) == {}


def test_a_part_whose_session_went_and_one_that_names_none_are_found(projects: Path) -> None:
    put(projects / "-shop" / SESSION / "subagents" / "agent-1.jsonl")
    late = put(projects / "-shop" / "agent-2.jsonl", '{"type":"user"}\n')
    transcripts = ClaudeTranscripts(projects.parent)
    assert {file.path.name: file.part_of for file in transcripts.files()} == {
        "agent-1.jsonl": SESSION,
        "agent-2.jsonl": "",
    }
    put(late, '{"type":"user"}\n' + lines(said("user", "Part")))
    assert {file.part_of for file in transcripts.files()} == {SESSION}


def test_links_lead_in_no_circle_and_to_nothing_twice(projects: Path, tmp_path: Path) -> None:
    put(projects / "-shop" / f"{SESSION}.jsonl")
    put(projects / "-shop" / SESSION / "subagents" / "agent-1.jsonl")
    put(tmp_path / "elsewhere" / "moved.jsonl")
    circle = projects / "-shop" / SESSION / "subagents" / "again"
    links = {
        projects / "-alias": projects / "-shop",
        projects / "-self": projects,
        projects / "-moved": tmp_path / "elsewhere",
        projects / "-moved-too": tmp_path / "elsewhere",
        projects / "-nowhere": tmp_path / "nowhere",
        circle: projects / "-shop" / SESSION / "subagents",
    }
    for link, target in links.items():
        link.symlink_to(target, target_is_directory=True)
    names = sorted(Path(name).name for name in found(projects))
    assert names == sorted([f"{SESSION}.jsonl", "agent-1.jsonl", "moved.jsonl"])


def test_where_nothing_is_nothing_is_found(tmp_path: Path) -> None:
    transcripts = ClaudeTranscripts(tmp_path / "nowhere")
    assert (transcripts.files(), transcripts.roots()) == ([], [])
    put(tmp_path / "claude" / "projects", "a file")
    transcripts = ClaudeTranscripts(tmp_path / "claude")
    assert (transcripts.files(), transcripts.roots()) == ([], [])
    assert (NoTranscripts().files(), NoTranscripts().roots()) == ([], [])


def test_another_process_can_have_it(projects: Path) -> None:
    put(projects / "-shop" / "agent-3.jsonl", lines(said("user", "Part")))
    transcripts = ClaudeTranscripts(projects.parent)
    files = transcripts.files()
    assert pickle.loads(pickle.dumps(transcripts)).files() == files == transcripts.files()
    assert transcripts.roots() == [projects]


def test_notes_beside_a_transcript_are_told(folder: Path) -> None:
    path = put(folder / f"{SESSION}.jsonl")
    transcripts = ClaudeTranscripts(folder.parents[1])
    assert transcripts.note(path) == ""
    put(folder / SESSION / "session-memory" / "summary.md", "The cart is kept in local storage.\n")
    assert transcripts.note(path) == "The cart is kept in local storage."
    assert transcripts.note(Path("a\0b.jsonl")) == ""


def test_a_conversation_tells_about_itself(folder: Path) -> None:
    told = about(
        folder,
        lines(
            said("user", "Add a cart", uuid=LEAF, cwd="/elsewhere"),
            said("assistant", [text("I'll add one.")], uuid="a", timestamp="2026-03-02T10:05:00Z"),
            said("assistant", [text("API Error")], uuid="b", model="<synthetic>"),
            {"type": "progress", "uuid": "c", "timestamp": "2026-03-02T11:00:00Z"},
        ),
    )
    assert told == TranscriptInfo(
        session_id=SESSION,
        cwd=CWD,
        model="claude-opus-4-5",
        uuids=uuid_key(LEAF) + uuid_key("a") + uuid_key("b"),
        ended=datetime(2026, 3, 2, 10, 5, tzinfo=UTC),
    )


def test_a_piece_that_says_nothing_tells_nothing(folder: Path) -> None:
    assert about(folder, '{"type":"user"}\n', name="copy") == TranscriptInfo()


def test_the_session_is_what_the_file_is_called_where_that_is_one(folder: Path) -> None:
    older = lines(said("user", "Before", sessionId="older"))
    assert about(folder, older).session_id == SESSION
    assert about(folder, older, name="agent-7").session_id == "agent-7"
    assert about(folder, older, name="saved-copy").session_id == "older"


def test_the_folder_is_the_one_that_the_file_lies_under(projects: Path) -> None:
    deep = "/home/me/" + "very-" * 60 + "deep"
    for cwd, name in ((CWD, folder_name(CWD)), (deep, folder_name(deep)[:LONGEST_FOLDER] + "-1x2y3z")):
        content = lines(said("user", "Hi", cwd="/tmp"), said("user", "Hi", cwd=cwd))
        assert about(projects / name, content).cwd == cwd
        assert about(projects / name / SESSION / "subagents", content, name="agent-1").cwd == cwd
        assert about(projects / "-other", content).cwd == "/tmp"


def test_the_title_is_the_persons_before_the_programs(folder: Path) -> None:
    def titled(*entries: dict[str, Any]) -> tuple[str, str]:
        told = about(folder, lines(said("user", "Add a cart"), *entries))
        return told.title, told.title_by

    by_program = {"type": "ai-title", "aiTitle": "Shop cart", "sessionId": SESSION}
    by_person = {"type": "custom-title", "customTitle": "My cart", "sessionId": SESSION}
    assert titled() == ("", "")
    assert titled(by_program) == ("Shop cart", "ai")
    assert titled(by_person, by_program) == ("My cart", "custom")
    assert titled(by_person, by_person | {"customTitle": "Cart"}) == ("Cart", "custom")
    assert titled(by_person, by_person | {"customTitle": None}) == ("My cart", "custom")


def test_summaries_come_with_what_they_are_about(folder: Path) -> None:
    summary = {"type": "summary", "summary": " Cart for the shop ", "leafUuid": LEAF}
    told = about(folder, lines(summary, summary | {"leafUuid": None}, summary | {"summary": 7}))
    assert told.summaries == ((LEAF, "Cart for the shop"),)


@given(st.text() | st.uuids().map(str))
def test_an_entry_is_known_by_eight_bytes(uuid: str) -> None:
    assert len(uuid_key(uuid)) == 8


@given(st.lists(st.uuids().map(str) | st.text(max_size=40), unique=True, max_size=50))
def test_entries_are_told_apart_by_them(uuids: list[str]) -> None:
    assert len({uuid_key(one) for one in uuids}) == len(uuids)


def test_bad_lines_are_named_and_the_rest_is_kept(folder: Path) -> None:
    good = lines(said("user", "Still here")).encode()
    deep = b"[" * 200_000 + b"\n"
    followed = follow(
        put(folder / "s.jsonl", b"{broken\n" + good + b"\xff\xfe\n[1]\n\n" + deep + b"null\n" + good)
    )
    assert [(step.text, step.line) for step in followed.steps] == [("Still here", 2), ("Still here", 8)]
    assert followed.about.bad_lines == (1, 3, 4, 6, 7)


def test_what_stands_before_the_broken_part_of_a_line_is_kept(folder: Path) -> None:
    one, two = json.dumps(said("user", "One")), lines(said("user", "Two"))
    followed = follow(put(folder / "s.jsonl", f'{one}{{"type":"us\n{two}'))
    assert [step.text for step in followed.steps] == ["One", "Two"]
    assert followed.about.bad_lines == (1,)


def test_a_line_beyond_all_measure_is_a_bad_one(folder: Path) -> None:
    huge = json.dumps(said("user", "x" * (LONGEST_LINE + 10))) + "\n"
    followed = follow(put(folder / "s.jsonl", huge + lines(said("user", "After it"))))
    assert [(step.text, step.line) for step in followed.steps] == [("After it", 2)]
    assert followed.about.bad_lines == (1,)


def test_files_that_are_no_transcripts_have_bad_lines(folder: Path) -> None:
    pretty = json.dumps({"sessionId": "x", "messages": [{"type": "user", "content": "Hi"}] * 50}, indent=2)
    followed = follow(put(folder / "s.jsonl", pretty + "\n"))
    assert followed.steps == ()
    assert followed.cursor.line == pretty.count("\n") + 1
    assert followed.about.bad_lines == tuple(range(1, MAX_LISTED_LINES + 1))
    assert follow(put(folder / "t.jsonl", bytes(range(256)) * 100)).steps == ()


def test_a_half_written_line_is_no_bad_one_yet(folder: Path) -> None:
    whole = lines(said("user", "One"), said("user", "Two"))
    first = follow(put(folder / "s.jsonl", whole[:-20]))
    assert (first.cursor.line, first.about.bad_lines) == (1, ())
    second = follow(put(folder / "s.jsonl", whole[:-20] + "\n" + whole), first.cursor)
    assert second.about.bad_lines == (2,)
    assert [(step.text, step.line) for step in second.steps] == [("One", 3), ("Two", 4)]


moments = st.sampled_from([f"2026-03-0{day}T10:00:00Z" for day in range(1, 5)])
entries = st.one_of(
    st.builds(
        lambda kind, uuid, cwd, when: said(kind, "Hi", uuid=uuid, cwd=cwd, timestamp=when),
        st.sampled_from(["user", "assistant", "system", "attachment"]),
        st.sampled_from(["a", "b", "c", LEAF]),
        st.sampled_from([CWD, "/tmp", None]),
        moments,
    ),
    st.builds(
        lambda kind, told: {"type": kind, "title": told, "summary": told, "leafUuid": LEAF},
        st.sampled_from(["custom-title", "ai-title", "summary", "something-new"]),
        st.sampled_from(["", "One", "Two"]),
    ),
)
written = st.lists(
    entries.map(lambda one: json.dumps(one) + "\n")
    | st.sampled_from(["garbage\n", "\n", "[]\n", '{"a":1}{\n', "{}{}\n"]),
    max_size=12,
).map(lambda parts: "".join(parts).encode())


@given(content=written, most_bytes=st.integers(1, 900), end=st.integers(0, 3))
def test_pieces_tell_what_the_whole_tells(content: bytes, most_bytes: int, end: int) -> None:
    with TemporaryDirectory() as temporary:
        path = put(
            Path(temporary) / "projects" / folder_name(CWD) / "copy.jsonl", content[: len(content) - end]
        )
        whole = follow(path).about
        pieces: list[TranscriptInfo] = []
        cursor, more = TranscriptCursor(), True
        while more:
            piece = follow(path, cursor, most_bytes=most_bytes)
            pieces.append(piece.about)
            cursor, more = piece.cursor, piece.more
    assert [line for one in pieces for line in one.bad_lines] == list(whole.bad_lines)
    assert [pair for one in pieces for pair in one.summaries] == list(whole.summaries)
    assert {key for one in pieces for key in _keys(one)} == set(_keys(whole))
    assert next((one.session_id for one in pieces if one.session_id), "") == whole.session_id
    assert next((one.model for one in reversed(pieces) if one.model), "") == whole.model
    assert max((one.ended for one in pieces if one.ended), default=None) == whole.ended
    assert (CWD in {one.cwd for one in pieces}) == (whole.cwd == CWD)
    custom = [one.title for one in pieces if one.title_by == "custom"]
    titles = custom or [one.title for one in pieces if one.title]
    assert next(reversed(titles), "") == whole.title


def _keys(told: TranscriptInfo) -> list[bytes]:
    return [told.uuids[place : place + 8] for place in range(0, len(told.uuids), 8)]
