"""Gemini CLI's sessions: records on lines, and the one object of earlier versions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mindhold.ports.transcripts import Role, TranscriptCursor, TranscriptRead, TranscriptStep
from mindhold.providers.transcripts.gemini import GeminiTranscripts
from mindhold.providers.transcripts.reader import MAX_BYTES

SESSION = "5b1f0c1e-2a7b-4c0d-9f3e-0a1b2c3d4e5f"
ROOT = "/code/shop"
HASH = hashlib.sha256(ROOT.encode()).hexdigest()
SHELL = "run_shell_command"


def head(**more: Any) -> dict[str, Any]:
    return {"sessionId": SESSION, "projectHash": HASH, "startTime": "2026-05-01T08:00:00.000Z"} | more


def user(text: Any, name: str = "u1", **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-05-01T08:00:01.000Z", "type": "user", "content": text} | more


def gemini(text: Any, name: str = "g1", **more: Any) -> dict[str, Any]:
    said = {"id": name, "timestamp": "2026-05-01T08:00:05.000Z", "type": "gemini", "content": text}
    return said | {"model": "gemini-3-pro"} | more


def call(
    tool: str, answer: str = "", *, status: str = "success", name: str = "c1", **given: Any
) -> dict[str, Any]:
    result = [{"functionResponse": {"id": name, "name": tool, "response": {"output": answer}}}]
    return {"id": name, "name": tool, "args": given, "status": status, "result": result}


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


def session(*messages: dict[str, Any], **more: Any) -> str:
    return json.dumps(head(**more) | {"messages": messages}, indent=2)


@pytest.fixture
def source(tmp_path: Path) -> GeminiTranscripts:
    return GeminiTranscripts(tmp_path / "gemini")


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    folder = tmp_path / "gemini" / "tmp" / "shop" / "chats"
    folder.mkdir(parents=True)
    (folder.parent / ".project_root").write_text(ROOT, encoding="utf-8")
    return folder


@pytest.fixture
def file(chats: Path) -> Path:
    return chats / "session-2026-05-01T08-00-5b1f0c1e.jsonl"


def follow(source: GeminiTranscripts, file: Path, cursor: TranscriptCursor | None = None) -> TranscriptRead:
    followed = source.follow(file, cursor or TranscriptCursor(), most_bytes=1 << 20)
    assert followed is not None
    return followed


def told(steps: Sequence[TranscriptStep]) -> list[tuple[str, str]]:
    return [(step.role.value, step.text) for step in steps]


def test_a_session_tells_who_said_what_and_what_ran(source: GeminiTranscripts, file: Path) -> None:
    failing = call(SHELL, "Output: E  KeyError\nExit Code: 1\nProcess Group PGID: 77", command="pytest -q")
    thought = {"text": "hm", "thought": True}
    file.write_bytes(
        lines(
            head(kind="main"),
            user([{"text": "<session_context>\nToday is Friday.\n</session_context>"}], "u0"),
            user([{"text": "Why does the login fail?"}]),
            {"$set": {"lastUpdated": "2026-05-01T08:00:02.000Z"}},
            gemini([thought, {"text": "I run the tests."}]),
            gemini([thought, {"text": "I run the tests."}], toolCalls=[failing]),
            gemini("The cookie has no sid.", "g2"),
            {"$set": {"summary": "Fix the login"}},
        )
    )
    followed = follow(source, file)
    assert told(followed.steps) == [
        ("USER", "Why does the login fail?"),
        ("CLAUDE", "I run the tests."),
        ("TOOL", "pytest -q"),
        ("RESULT", "E  KeyError"),
        ("CLAUDE", "The cookie has no sid."),
    ]
    assert [step.line for step in followed.steps] == [3, 6, 6, 6, 7]
    assert [step.failed for step in followed.steps] == [False, False, False, True, False]
    assert followed.steps[3].tool == SHELL
    about = followed.about
    assert (about.session_id, about.cwd, about.model) == (SESSION, ROOT, "gemini-3-pro")
    assert (about.title, about.title_by) == ("Fix the login", "ai")
    assert about.ended is not None
    assert about.ended.isoformat() == "2026-05-01T08:00:05+00:00"


@pytest.mark.parametrize(
    ("made", "tool", "text", "result", "failed"),
    [
        (call("read_file", "x = 1", file_path="a.py"), "read_file", "a.py", "x = 1", False),
        (call("replace", status="error", file_path="a.py"), "replace", "a.py", "", True),
        (call("write_file", status="cancelled", file_path="a.py"), "write_file", "a.py", "", False),
        (
            call("search_file_content", "No matches", pattern="sid"),
            "search_file_content",
            "sid",
            "No matches",
            False,
        ),
        (call(SHELL, "Output: (empty)\nExit Code: 1", command="grep x"), SHELL, "grep x", "", False),
        (
            call(SHELL, "Output: Error: odd\nfine\nProcess Group PGID: 7", command="x"),
            SHELL,
            "x",
            "Error: odd\nfine",
            False,
        ),
        (
            call(
                SHELL, "Command: x\nDirectory: (root)\nOutput: no\nError: (none)\nExit Code: 2", command="x"
            ),
            SHELL,
            "x",
            "no",
            True,
        ),
        (
            call(
                SHELL,
                "<untrusted_context>\nOutput: hi\nExit Code: 3\nProcess Group PGID: 7\n</untrusted_context>",
                command="x",
            ),
            SHELL,
            "x",
            "hi",
            True,
        ),
        (call("tracker", "ok", title="t", n=1), "tracker", '{"title":"t","n":1}', "ok", False),
    ],
)
def test_tools_tell_what_they_were_asked_and_gave_back(
    source: GeminiTranscripts,
    file: Path,
    made: dict[str, Any],
    tool: str,
    text: str,
    result: str,
    failed: bool,
) -> None:
    file.write_bytes(lines(head(), gemini("", toolCalls=[made])))
    asked, answer = follow(source, file).steps
    assert (asked.role, asked.tool, asked.text) == (Role.TOOL, tool, text)
    assert (answer.role, answer.tool, answer.text, answer.failed) == (Role.RESULT, tool, result, failed)
    assert asked.call == answer.call == "c1"


def test_an_error_that_the_function_answers_is_a_failure(source: GeminiTranscripts, file: Path) -> None:
    response = [{"functionResponse": {"id": "c1", "response": {"error": "File not found"}}}]
    file.write_bytes(lines(head(), gemini("", toolCalls=[call("read_file") | {"result": response}])))
    answer = follow(source, file).steps[-1]
    assert (answer.text, answer.failed) == ("Error: File not found", True)


def test_calls_that_only_the_history_tells_of_count(source: GeminiTranscripts, file: Path) -> None:
    asked = {"functionCall": {"id": "c9", "name": SHELL, "args": {"command": "ls"}}}
    answer = {"functionResponse": {"id": "c9", "name": SHELL, "response": {"output": "a.py"}}}
    file.write_bytes(lines(head(), gemini([asked]), user([answer], "u2"), user([answer], "u3")))
    assert told(follow(source, file).steps) == [("TOOL", "ls"), ("RESULT", "a.py")]


def test_own_calls_and_commands_are_no_news(source: GeminiTranscripts, file: Path) -> None:
    shown = call("memory_search", "a memory", name="c2") | {
        "displayName": "memory_search (mindhold MCP Server)"
    }
    file.write_bytes(
        lines(
            head(),
            user("/compress", "u1"),
            user("?", "u2"),
            gemini("", toolCalls=[call("mcp_mindhold_memory_search", "a memory"), shown]),
            {"id": "i", "type": "info", "content": "Updated", "timestamp": ""},
            {"id": "e", "type": "error", "content": "Quota", "timestamp": ""},
        )
    )
    assert follow(source, file).steps == ()


def test_what_was_typed_is_told_rather_than_what_was_made_of_it(
    source: GeminiTranscripts, file: Path
) -> None:
    whole_file = [{"text": "Explain @a.py"}, {"text": "--- a.py ---\nx = 1"}]
    file.write_bytes(lines(head(), user(whole_file, displayContent=[{"text": "Explain @a.py"}])))
    assert told(follow(source, file).steps) == [("USER", "Explain @a.py")]


def test_what_a_person_took_back_is_gone(source: GeminiTranscripts, file: Path) -> None:
    file.write_bytes(
        lines(
            head(), user("One"), gemini("Two"), user("Three", "u2"), {"$rewindTo": "g1"}, user("Four", "u3")
        )
    )
    assert told(follow(source, file).steps) == [("USER", "One"), ("USER", "Four")]


def test_a_history_that_was_shortened_loses_nothing(source: GeminiTranscripts, file: Path) -> None:
    left = [user("<state_snapshot>\nall of it\n</state_snapshot>", "s1"), user("Later", "u2")]
    file.write_bytes(lines(head(), user("First"), gemini("Second"), {"$set": {"messages": left}}))
    assert told(follow(source, file).steps) == [("USER", "First"), ("CLAUDE", "Second"), ("USER", "Later")]


def test_what_grew_is_given_again_as_a_whole(source: GeminiTranscripts, file: Path) -> None:
    more = lines(gemini("Yes."))
    file.write_bytes(lines(head(), user("Go?")) + more[:20])
    first = follow(source, file)
    assert told(first.steps) == [("USER", "Go?")]
    assert first.about.bad_lines == ()  # the last line is being written
    assert follow(source, file, first.cursor).steps == ()
    with file.open("ab") as stream:
        stream.write(more[20:])
    second = follow(source, file, first.cursor)
    assert second.restarted
    assert told(second.steps) == [("USER", "Go?"), ("CLAUDE", "Yes.")]


def test_bad_lines_are_named_and_the_rest_is_kept(source: GeminiTranscripts, file: Path) -> None:
    odd = [user(7), gemini(None, toolCalls=["x", {"id": [], "args": 3}]), {"$set": 3}, {"$rewindTo": 5}]
    file.write_bytes(lines(head()) + b"{broken\n\xff\n" + lines(*odd, user("Go", "u5")))
    followed = follow(source, file)
    assert told(followed.steps)[-1] == ("USER", "Go")
    assert followed.about.bad_lines == (2, 3)


def test_earlier_versions_wrote_one_object(source: GeminiTranscripts, file: Path) -> None:
    old = file.with_suffix(".json")
    ran = call(SHELL, "Output: no\nExit Code: 3", command="make")
    old.write_text(
        session(user("Hé, build it"), gemini("I do.", toolCalls=[ran]), summary="Build"), encoding="utf-8"
    )
    first = follow(source, old)
    assert told(first.steps) == [
        ("USER", "Hé, build it"),
        ("CLAUDE", "I do."),
        ("TOOL", "make"),
        ("RESULT", "no"),
    ]
    assert first.steps[-1].failed
    assert first.about.title == "Build"
    text = old.read_text(encoding="utf-8").splitlines()
    assert [text[step.line - 1] for step in first.steps] == ["    {"] * 4
    assert text[first.steps[0].line] == '      "id": "u1",'
    assert follow(source, old, first.cursor).steps == ()
    old.write_text(session(user("Hé, build it"), user("Again", "u2")), encoding="utf-8")
    second = follow(source, old, first.cursor)
    assert second.restarted
    assert told(second.steps) == [("USER", "Hé, build it"), ("USER", "Again")]


def test_an_object_that_breaks_off_gives_what_stands_before(source: GeminiTranscripts, file: Path) -> None:
    old = file.with_suffix(".json")
    text = session(user("One"), user("Two", "u2"))
    old.write_text(text[: text.index("Two")], encoding="utf-8")
    followed = follow(source, old)
    assert told(followed.steps) == [("USER", "One")]
    assert followed.about.session_id == SESSION
    (bad,) = followed.about.bad_lines
    assert text.splitlines()[bad] == '      "id": "u2",'
    old.write_bytes(b"\x00")
    assert follow(source, old, followed.cursor).about.bad_lines == (1,)


def test_a_file_that_is_too_large_is_refused(source: GeminiTranscripts, file: Path) -> None:
    file.write_bytes(lines(head(), user("Go")))
    with file.open("r+b") as stream:
        stream.truncate(MAX_BYTES + 1)
    followed = follow(source, file)
    assert followed.steps == ()
    assert followed.about.too_long == (0,)
    assert follow(source, file, followed.cursor).about.bad_lines == ()  # told once


def test_files_are_found_where_gemini_keeps_them(source: GeminiTranscripts, chats: Path, file: Path) -> None:
    nested = chats / SESSION / "agent-1.jsonl"
    nested.parent.mkdir()
    unnamed = chats.parents[1] / ("0" * 64) / "chats" / "session-a.json"
    unnamed.parent.mkdir(parents=True)
    for path in (file, nested, unnamed, chats.parent / "logs.json", chats / "other.json"):
        path.write_bytes(lines(head(), user("Go")))
    found = {one.path: (one.folder, one.part_of) for one in source.files()}
    assert found == {file: ("shop", ""), nested: ("shop", SESSION), unnamed: ("0" * 64, "")}
    assert source.roots() == [chats.parents[1]]
    assert source.owns(file)
    assert not source.owns(chats.parents[2] / "settings.json")
    assert follow(source, unnamed).cwd == ""  # a hash can't be turned back
    assert source.follow(chats / "none.jsonl", TranscriptCursor(), most_bytes=9) is None


def test_a_session_that_was_taken_over_is_there_once(
    source: GeminiTranscripts, chats: Path, file: Path
) -> None:
    before = chats.parents[1] / HASH / "chats"
    before.mkdir(parents=True)
    (before / file.with_suffix(".json").name).write_text(session(user("Go")), encoding="utf-8")
    (before / "session-left.json").write_text(session(user("Left")), encoding="utf-8")
    file.with_suffix(".json").write_text(session(user("Go")), encoding="utf-8")
    file.write_bytes(lines(head(), user("Go")))
    assert {one.path for one in source.files()} == {file, before / "session-left.json"}


def test_a_hash_is_known_by_the_projects_that_are(source: GeminiTranscripts, chats: Path) -> None:
    (chats.parents[2] / "projects.json").write_text(
        json.dumps({"projects": {"/code/old": "old"}}), encoding="utf-8"
    )
    by_hash = chats.parents[1] / hashlib.sha256(b"/code/old").hexdigest() / "chats" / "session-a.jsonl"
    by_name = chats.parents[1] / "old" / "chats" / "session-b.jsonl"
    for path in (by_hash, by_name):
        path.parent.mkdir(parents=True)
        path.write_bytes(lines(head(), user("Go")))
        assert follow(source, path).cwd == "/code/old"
    other = chats.parents[1] / "unknown" / "chats" / "session-c.jsonl"
    other.parent.mkdir(parents=True)
    other.write_bytes(lines(head(directories=["/code/shared"]), user("Go")))
    assert follow(source, other).cwd == "/code/shared"


def test_sub_agents_speak_aside(source: GeminiTranscripts, file: Path) -> None:
    file.write_bytes(lines(head(kind="subagent"), user("Look")))
    assert follow(source, file).steps[0].aside
