"""Transcripts of Claude Code: whatever stands in the files, what people and the assistant said comes out."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.lexemes import lexemes
from recollect.ports.transcripts import Transcript, TranscriptFile
from recollect.providers.transcripts.claude import HEAD, ClaudeTranscripts
from recollect.providers.transcripts.digest import Digests, Words, digest_of
from recollect.providers.transcripts.parse import LONGEST_LINE, encoded

CWD = "/home/me/code/web-shop"
SESSION = "0b7c1d52-6d0e-4f4e-9a55-2f3f2d1c7a10"
PLENTY = 1 << 30


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    """An entry as Claude Code writes it."""
    message: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        message |= {"id": more.pop("message_id", None), "model": more.pop("model", "claude-opus-4-5")}
    entry = {"type": role, "message": message, "isSidechain": False, "sessionId": SESSION, "cwd": CWD}
    return entry | {"timestamp": "2026-03-02T10:00:00.000Z", "version": "2.1.20"} | more


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def lines(*entries: dict[str, Any]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the transcripts of CWD lie."""
    made = tmp_path / "claude" / "projects" / encoded(CWD)
    made.mkdir(parents=True)
    return made


def read(folder: Path, content: str | bytes, *, name: str = SESSION, most_bytes: int = PLENTY) -> Transcript:
    path = folder / f"{name}.jsonl"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    file = TranscriptFile(path, path.stat().st_size, datetime.now(UTC))
    transcript = ClaudeTranscripts(folder.parents[1]).read(file, most_bytes=most_bytes)
    assert transcript is not None
    return transcript


def texts(transcript: Transcript) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in transcript.turns]


def test_a_conversation_is_read_with_its_places(folder: Path) -> None:
    transcript = read(
        folder,
        lines(
            {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
            said("user", "Add a cart", uuid="u1"),
            said("assistant", [text("I'll add one.")], message_id="a", timestamp="2026-03-02T10:05:00Z"),
        ),
    )
    assert texts(transcript) == [("user", "Add a cart"), ("assistant", "I'll add one.")]
    assert [turn.line for turn in transcript.turns] == [2, 3]
    assert transcript.turns[0].timestamp == datetime(2026, 3, 2, 10, tzinfo=UTC)
    assert transcript.started == datetime(2026, 3, 2, 10, tzinfo=UTC)
    assert transcript.ended == datetime(2026, 3, 2, 10, 5, tzinfo=UTC)
    assert (transcript.session_id, transcript.cwd, transcript.model) == (SESSION, CWD, "claude-opus-4-5")
    assert (transcript.bad_lines, transcript.complete) == (0, True)


def test_an_answer_over_several_lines_is_one_turn_with_its_tools(folder: Path) -> None:
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "package.json"}]
    transcript = read(
        folder,
        lines(
            said("assistant", [{"type": "thinking", "thinking": "hm"}], message_id="a", uuid="1"),
            said("assistant", [text("Let me look.")], message_id="a", uuid="2"),
            said("assistant", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}], message_id="a"),
            said("user", result, toolUseResult={"stdout": "package.json"}),
            said("assistant", [text("It is a web shop.")], message_id="a", uuid="3"),
        ),
    )
    assert texts(transcript) == [("assistant", "Let me look.\n\nIt is a web shop.")]
    assert transcript.turns[0].tools == ("Bash",)


@pytest.mark.parametrize(
    "entry",
    [
        said("user", [{"type": "tool_result", "tool_use_id": "t", "content": "out"}]),
        said("user", "Skill text", isMeta=True),
        said(
            "user", "This session is being continued", isCompactSummary=True, isVisibleInTranscriptOnly=True
        ),
        said("user", "Do the part", isSidechain=True),
        said("assistant", [text("Part done")], isSidechain=True),
        said("user", "<command-name>/clear</command-name>"),
        said("user", "<local-command-stdout>gone</local-command-stdout>"),
        said("user", "<bash-input>ls</bash-input>"),
        said("user", "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>"),
        said("user", "<task-notification>done</task-notification>"),
        said("user", [text("[Request interrupted by user for tool use]")]),
        said("user", [text("<ide_opened_file>The user opened a.py</ide_opened_file>")]),
        said("user", "<teammate-message from='x'>hi</teammate-message>"),
        said("user", "Caveat: The messages below were generated by the user"),
        said("user", "<system-reminder>Today is Monday</system-reminder>"),
        said("assistant", [text("API Error: 500")], isApiErrorMessage=True, model="<synthetic>"),
        said("assistant", [text("No response requested.")], model="<synthetic>"),
        {"type": "queue-operation", "operation": "enqueue", "content": "later"},
        {"type": "something-new", "message": {"role": "user", "content": "hello"}},
        {"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted"},
        said("user", None),
        said("user", [None, 7, {"type": "text", "text": 5}]),
        {"type": "user", "message": "no object"},
        {"type": ["user"], "message": {}},
    ],
)
def test_what_nobody_said_is_no_turn(folder: Path, entry: dict[str, Any]) -> None:
    transcript = read(folder, lines(entry, said("user", "A real question")))
    assert texts(transcript) == [("user", "A real question")]
    assert transcript.bad_lines == 0


def test_what_the_program_put_into_a_prompt_is_taken_out_of_it(folder: Path) -> None:
    blocks = [text("<ide_selection>x = 1</ide_selection>"), text("Why?<system-reminder>Hm</system-reminder>")]
    assert texts(read(folder, lines(said("user", blocks)))) == [("user", "Why?")]


def test_bad_lines_are_passed_over_and_counted(folder: Path) -> None:
    good = lines(said("user", "Still here"))
    deep = "[" * 200_000 + "\n"
    transcript = read(folder, b"{broken\n\xff\xfe\n[1]\n\n" + deep.encode() + good.encode())
    assert texts(transcript) == [("user", "Still here")]
    assert transcript.bad_lines == 4


def test_two_objects_on_one_line_and_no_line_break_at_the_end(folder: Path) -> None:
    joined = json.dumps(said("user", "One")) + json.dumps(said("user", "Two"))
    assert [turn.text for turn in read(folder, joined).turns] == ["One", "Two"]


def test_a_line_beyond_all_measure_does_not_stop_the_reading(folder: Path) -> None:
    huge = json.dumps(said("user", "x" * (LONGEST_LINE + 10))) + "\n"
    transcript = read(folder, huge + lines(said("user", "After it")))
    assert texts(transcript) == [("user", "After it")]
    assert transcript.turns[0].line == 2
    assert transcript.bad_lines == 1


def test_no_more_is_read_than_allowed(folder: Path) -> None:
    first = lines(said("user", "First"))
    transcript = read(folder, first + lines(said("user", "Second")), most_bytes=len(first) + 5)
    assert [turn.text for turn in transcript.turns] == ["First"]
    assert not transcript.complete
    assert transcript.bytes_read <= len(first) + 5


def test_an_entry_that_a_resumed_conversation_repeats_counts_once(folder: Path) -> None:
    entry = said("user", "Once", uuid="same")
    assert len(read(folder, lines(entry, entry)).turns) == 1


def test_files_that_are_no_transcripts_say_nothing(folder: Path) -> None:
    assert read(folder, json.dumps({"type": "user"}, indent=2)).turns == ()
    assert read(folder, "").turns == ()


def test_the_title_is_the_persons_then_the_programs_then_the_summary(folder: Path) -> None:
    other = {"type": "summary", "summary": "Another conversation", "leafUuid": "elsewhere"}
    own = {"type": "summary", "summary": "Cart for the shop", "leafUuid": "u1"}
    prompt = said("user", "Add a cart", uuid="u1")
    assert read(folder, lines(other, prompt)).title == ""
    assert read(folder, lines(other, prompt, own)).title == "Cart for the shop"
    by_program = {"type": "ai-title", "aiTitle": "Shop cart", "sessionId": SESSION}
    assert read(folder, lines(prompt, own, by_program)).title == "Shop cart"
    by_person = {"type": "custom-title", "customTitle": "My cart", "sessionId": SESSION}
    transcript = read(folder, lines(prompt, own, by_person, by_program))
    assert (transcript.title, transcript.summary) == ("My cart", "Cart for the shop")


def test_notes_beside_a_transcript_are_its_summary(folder: Path) -> None:
    notes = folder / SESSION / "session-memory"
    notes.mkdir(parents=True)
    (notes / "summary.md").write_text("The cart is kept in local storage.", encoding="utf-8")
    assert read(folder, lines(said("user", "Add a cart"))).summary == "The cart is kept in local storage."


def test_the_session_is_the_files_where_it_holds_several(folder: Path) -> None:
    older = said("user", "Before", sessionId="older")
    assert read(folder, lines(older, said("user", "Now"))).session_id == SESSION
    assert read(folder, lines(older), name="saved-copy").session_id == "older"


def test_projects_say_their_real_path_though_folders_are_lossy(folder: Path) -> None:
    elsewhere = said("user", "In a sub-folder", cwd=CWD + "/api")
    (folder / "one.jsonl").write_text(lines(elsewhere, said("user", "Hi")), encoding="utf-8")
    parts = folder / "one" / "subagents"
    parts.mkdir(parents=True)
    (parts / "agent-8.jsonl").write_text(lines(said("user", "Part", isSidechain=True)), encoding="utf-8")
    (folder / "agent-7.jsonl").write_text(lines(said("user", "Part", isSidechain=True)), encoding="utf-8")
    (folder / "empty.jsonl").write_text("", encoding="utf-8")
    (folder / "notes.txt").write_text("no transcript", encoding="utf-8")
    transcripts = ClaudeTranscripts(folder.parents[1])
    [project] = transcripts.projects()
    assert (project.name, project.path) == (encoded(CWD), CWD)
    assert [file.path.name for file in project.files] == ["one.jsonl"]
    assert transcripts.size(project) == sum(path.stat().st_size for path in folder.rglob("*.jsonl"))


def test_the_project_used_last_comes_first(folder: Path) -> None:
    for number, name in enumerate(["older", "newer"]):
        other = folder.parent / name
        other.mkdir()
        path = other / "s.jsonl"
        path.write_text(lines(said("user", "Hi", cwd=f"/{name}")), encoding="utf-8")
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    found = ClaudeTranscripts(folder.parents[1]).projects()
    assert [project.path for project in found] == ["/newer", "/older"]


def test_no_folder_is_no_projects_and_a_file_that_went_is_nothing(tmp_path: Path) -> None:
    transcripts = ClaudeTranscripts(tmp_path / "nowhere")
    assert transcripts.projects() == []
    gone = TranscriptFile(tmp_path / "gone.jsonl", 1, datetime.now(UTC))
    assert transcripts.read(gone, most_bytes=PLENTY) is None


def test_a_file_that_stayed_as_it_was_is_not_read_again_for_its_folder(folder: Path) -> None:
    path = folder / "one.jsonl"
    transcripts = ClaudeTranscripts(folder.parents[1])

    def told(cwd: str, *, modified: int, length: int = 0) -> str:
        path.write_text(lines(said("user", "Hi" + "x" * length, cwd=cwd)), encoding="utf-8")
        os.utime(path, (modified, modified))
        [project] = transcripts.projects()
        return project.path

    assert told("/a", modified=1_000_000) == "/a"
    assert told("/b", modified=1_000_000) == "/a"
    assert told("/c", modified=1_000_001) == "/c"
    assert told("/d", modified=1_000_002, length=HEAD) == folder.name, "its first line is beyond the head"


def test_a_digest_is_kept_as_long_as_its_file_stays(folder: Path) -> None:
    path = folder / "one.jsonl"
    path.write_text(lines(said("user", "Feed the pelicans"), said("assistant", "Fed.")), encoding="utf-8")
    transcripts = ClaudeTranscripts(folder.parents[1])
    [project] = transcripts.projects()
    [file] = project.files
    assert transcripts.kept(file) is None
    digest = transcripts.digest(file, most_bytes=PLENTY, check=lambda: None)
    assert digest is not None
    transcripts.keep(file, digest)
    assert transcripts.kept(file) is digest
    assert (digest.words, list(digest.starts)) == (b" feed the pelican \n fed \n", [0, 19, 25])
    turn = transcripts.turn(path, digest.turns[0])
    assert turn is not None
    assert (turn.text, turn.line) == ("Feed the pelicans", 1)
    with path.open("a", encoding="utf-8") as more:
        more.write(lines(said("user", "And the heron")))
    [project] = transcripts.projects()
    assert transcripts.kept(project.files[0]) is None
    path.unlink()
    assert transcripts.turn(path, digest.turns[0]) is None


def test_reading_ends_when_nobody_waits(folder: Path) -> None:
    path = folder / "one.jsonl"
    path.write_text(lines(*[said("user", "Hi")] * 5), encoding="utf-8")
    checks = iter([None, None, None])
    transcripts = ClaudeTranscripts(folder.parents[1])
    [project] = transcripts.projects()
    with pytest.raises(StopIteration):
        transcripts.digest(project.files[0], most_bytes=PLENTY, check=lambda: next(checks))


def test_no_more_digests_are_kept_than_there_is_room(folder: Path) -> None:
    digest = digest_of(read(folder, lines(said("user", "word " * 1_000))), Words(), lambda: None)
    kept = Digests(most=3 * digest.size)
    files = [TranscriptFile(folder / str(number), 1, datetime.now(UTC)) for number in range(5)]
    for file in files:
        kept.put(file, digest)
        kept.get(files[0])
    assert [kept.get(file) is digest for file in files] == [True, False, False, True, True]


@given(st.text() | st.text("aB1-_./'@&:,+# \u00e9\u0301\uac00\u0e01\u3000\u00b4\u2003\n"))
def test_words_have_the_lexemes_of_their_text(text: str) -> None:
    words = Words()
    assert words.of(text).split() == words.of(text).split() == lexemes(text)
