"""Codex CLI's sessions, in the forms that its versions have written."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mindhold.ports.transcripts import Role, TranscriptCursor, TranscriptRead, TranscriptStep
from mindhold.providers.transcripts.claude import ClaudeTranscripts, CombinedTranscripts
from mindhold.providers.transcripts.codex import CodexTranscripts

SESSION = "01999f2a-7c31-7d10-8a11-52b6a5f0c001"
CHILD = "01999f2a-7c31-7d10-8a11-52b6a5f0c002"
PLENTY = 1 << 30


def line(kind: str, at: str = "10:00:00", **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-03-02T{at}.000Z", "type": kind, "payload": payload}


def meta(session: str = SESSION, **more: Any) -> dict[str, Any]:
    told = {"id": session, "timestamp": "2026-03-02T09:59:59.000Z", "cwd": "/code/shop", "source": "cli"}
    return line("session_meta", "09:59:59", **told, **more, base_instructions={"text": "You are an agent."})


def item(at: str = "10:00:00", **payload: Any) -> dict[str, Any]:
    return line("response_item", at, **payload)


def message(role: str, *texts: str, at: str = "10:00:00", **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": kind, "text": text} for text in texts]
    return item(at, type="message", role=role, content=parts, **more)


def call(name: str, call_id: str = "c1", **given: Any) -> dict[str, Any]:
    return item(type="function_call", name=name, arguments=json.dumps(given), call_id=call_id)


def output(told: Any, call_id: str = "c1") -> dict[str, Any]:
    return item(type="function_call_output", call_id=call_id, output=told)


def lines(*entries: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in entries)


@pytest.fixture
def codex(tmp_path: Path) -> CodexTranscripts:
    return CodexTranscripts(tmp_path / "codex")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "codex" / "sessions" / "2026" / "03" / "02"
    folder.mkdir(parents=True)
    return folder / f"rollout-2026-03-02T09-59-59-{SESSION}.jsonl"


def follow(
    codex: CodexTranscripts, file: Path, cursor: TranscriptCursor | None = None, *, most_bytes: int = PLENTY
) -> TranscriptRead:
    followed = codex.follow(file, cursor or TranscriptCursor(), most_bytes=most_bytes)
    assert followed is not None
    return followed


def told(steps: Sequence[TranscriptStep]) -> list[tuple[str, str]]:
    return [(step.role.value, step.text) for step in steps]


def test_a_session_tells_who_said_what_and_what_ran(codex: CodexTranscripts, file: Path) -> None:
    file.write_bytes(
        lines(
            meta(git={"branch": "main"}),
            line("event_msg", type="task_started", turn_id="t"),
            line("turn_context", cwd="/code/shop", model="gpt-5-codex"),
            message("user", "Why does the login fail?"),
            line("event_msg", type="user_message", message="Why does the login fail?"),
            item(type="reasoning", summary=[], encrypted_content="x"),
            call("exec_command", cmd="pytest -q tests/login"),
            output(
                "Chunk ID: 1f\nWall time: 1.2 seconds\nProcess exited with code 1\nOutput:\nE  KeyError: 'sid'\n"
            ),
            line("event_msg", type="agent_message", message="The cookie has no sid."),
            message("assistant", "The cookie has no sid.", at="10:00:09"),
        )
    )
    followed = follow(codex, file)
    assert told(followed.steps) == [
        ("USER", "Why does the login fail?"),
        ("TOOL", "pytest -q tests/login"),
        ("RESULT", "E  KeyError: 'sid'"),
        ("CLAUDE", "The cookie has no sid."),
    ]
    assert [step.line for step in followed.steps] == [4, 7, 8, 10]
    assert [step.tool for step in followed.steps] == ["", "exec_command", "exec_command", ""]
    assert [step.failed for step in followed.steps] == [False, False, True, False]
    about = followed.about
    assert (about.session_id, about.cwd, about.model) == (SESSION, "/code/shop", "gpt-5-codex")
    assert about.ended is not None
    assert about.ended.isoformat() == "2026-03-02T10:00:09+00:00"
    assert followed.cwd == "/code/shop"
    assert not followed.more
    assert not followed.restarted


@pytest.mark.parametrize(
    "texts",
    [
        ("<environment_context>\n  <cwd>/code/shop</cwd>\n</environment_context>",),
        ("# AGENTS.md instructions for /code/shop\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>",),
        ("<user_instructions>\nBe brief.\n</user_instructions>",),
        ("<turn_aborted>\nThe user interrupted\n</turn_aborted>",),
        ("Another language model started to solve this problem and produced a summary",),
        ("<skill>\n<name>x</name>\n</skill>", '<hook_prompt hook_run_id="1">go on</hook_prompt>'),
    ],
)
def test_what_the_program_says_in_a_persons_name_is_not_spoken(
    codex: CodexTranscripts, file: Path, texts: tuple[str, ...]
) -> None:
    file.write_bytes(lines(meta(), message("developer", "Rules."), message("user", *texts)))
    assert follow(codex, file).steps == ()


def test_only_what_was_typed_counts_of_a_message_that_has_more(codex: CodexTranscripts, file: Path) -> None:
    kinds = {"content_item_kinds": ["editor.context", "user.text"]}
    editor = "# Context from my IDE setup:\n## Open tabs:\n- a.py\n\n## My request for Codex:\nRename it"
    file.write_bytes(
        lines(
            meta(),
            message("user", editor),
            message("user", "the open file", "Sort it", internal_chat_message_metadata_passthrough=kinds),
        )
    )
    assert told(follow(codex, file).steps) == [("USER", "Rename it"), ("USER", "Sort it")]


@pytest.mark.parametrize(
    ("asked", "tool", "text"),
    [
        (call("shell", command=["bash", "-lc", "ls -a | wc -l"]), "shell", "ls -a | wc -l"),
        (call("shell", command=["git", "commit", "-m", "a b"]), "shell", "git commit -m 'a b'"),
        (call("shell_command", command="make test"), "shell_command", "make test"),
        (call("view_image", path="/tmp/a.png"), "view_image", "/tmp/a.png"),
        (call("update_plan", plan=[{"step": "look"}]), "update_plan", '{"plan":[{"step":"look"}]}'),
        (
            item(
                type="local_shell_call",
                call_id="c1",
                action={"type": "exec", "command": ["zsh", "-lc", "pwd"]},
            ),
            "local_shell",
            "pwd",
        ),
        (
            item(
                type="custom_tool_call",
                call_id="c1",
                name="apply_patch",
                input="*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: b.md\n+z\n*** End Patch",
            ),
            "apply_patch",
            "src/a.py\nb.md",
        ),
        (
            call("shell", command=["apply_patch", "*** Begin Patch\n*** Delete File: old.py\n*** End Patch"]),
            "shell",
            "old.py",
        ),
        (
            call(
                "shell",
                command=[
                    "bash",
                    "-lc",
                    "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a b.py\n*** End Patch\nEOF",
                ],
            ),
            "shell",
            "a b.py",
        ),
        (
            item(type="web_search_call", action={"type": "search", "query": "sqlite wal"}),
            "web_search",
            "sqlite wal",
        ),
        (
            item(
                type="function_call",
                name="create_issue",
                namespace="mcp__github",
                arguments="{broken",
                call_id="c",
            ),
            "mcp__github__create_issue",
            '{"arguments":"{broken"}',
        ),
    ],
)
def test_tools_tell_their_command_file_or_question(
    codex: CodexTranscripts, file: Path, asked: dict[str, Any], tool: str, text: str
) -> None:
    file.write_bytes(lines(meta(), asked))
    (step,) = follow(codex, file).steps
    assert (step.role, step.tool, step.text) == (Role.TOOL, tool, text)


@pytest.mark.parametrize(
    ("given", "text", "failed"),
    [
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\n3 passed", "3 passed", False),
        (
            "Exit code: 2\nWall time: 0.1 seconds\nTotal output lines: 900\nOutput:\nno such file",
            "no such file",
            True,
        ),
        ("Exit code: 1\nWall time: 0 seconds\nOutput:\n", "", False),  # a search that found nothing
        ("Exit code: 130\nWall time: 9 seconds\nOutput:\n^C", "^C", False),
        ('{"output":"boom","metadata":{"exit_code":127,"duration_seconds":0.1}}', "boom", True),
        ('{"output":"fine","metadata":{"exit_code":0,"duration_seconds":0.1}}', "fine", False),
        ("apply_patch verification failed: Failed to find expected lines in src/a.py", None, True),
        ("failed to parse function arguments: missing field", None, True),
        ("exec command rejected by user", None, False),
        ("aborted by user after 3.0s", None, False),
        ({"content": "it broke", "success": False}, "it broke", True),
        (
            [{"type": "input_text", "text": "seen"}, {"type": "input_image", "image_url": "data:"}],
            "seen\n[image]",
            False,
        ),
    ],
)
def test_results_are_told_without_their_frame_and_whether_they_failed(
    codex: CodexTranscripts, file: Path, given: Any, text: str | None, failed: bool
) -> None:
    file.write_bytes(lines(meta(), call("exec_command", cmd="x"), output(given)))
    step = follow(codex, file).steps[-1]
    assert (step.role, step.text, step.failed) == (Role.RESULT, given if text is None else text, failed)


def test_own_calls_are_no_news(codex: CodexTranscripts, file: Path) -> None:
    file.write_bytes(
        lines(
            meta(),
            call("mcp__mindhold__memory_search", query="x"),
            output("a memory"),
            item(
                type="function_call", name="store", namespace="mcp__mindhold__", arguments="{}", call_id="c2"
            ),
            output("stored", "c2"),
        )
    )
    assert follow(codex, file).steps == ()


def test_pieces_give_what_the_whole_gives(codex: CodexTranscripts, file: Path) -> None:
    file.write_bytes(
        lines(
            meta(),
            message("user", "Go"),
            call("shell_command", command="ls"),
            output("Exit code: 0\nOutput:\na"),
        )
    )
    cursor, steps = TranscriptCursor(), list[TranscriptStep]()
    while True:
        piece = follow(codex, file, cursor, most_bytes=1)
        steps += piece.steps
        assert piece.about.session_id == SESSION
        assert piece.cwd == "/code/shop"
        cursor = piece.cursor
        if not piece.more:
            break
    assert steps == list(follow(codex, file).steps)
    assert steps[-1].tool == "shell_command"  # though its call stands in an earlier piece


def test_what_grew_is_given_once_and_a_half_line_waits(codex: CodexTranscripts, file: Path) -> None:
    more = lines(message("assistant", "It is done."))
    file.write_bytes(lines(meta(), message("user", "Go")) + more[:30])
    first = follow(codex, file)
    assert told(first.steps) == [("USER", "Go")]
    assert first.about.bad_lines == ()
    with file.open("ab") as stream:
        stream.write(more[30:])
    second = follow(codex, file, first.cursor)
    assert told(second.steps) == [("CLAUDE", "It is done.")]
    assert second.steps[0].line == 3
    assert follow(codex, file, second.cursor).steps == ()


def test_another_file_in_its_place_is_begun_anew(codex: CodexTranscripts, file: Path) -> None:
    file.write_bytes(lines(meta(), message("user", "Go")))
    first = follow(codex, file)
    file.write_bytes(lines(meta(cli_version="9"), message("user", "Stop, and look at the other one")))
    second = follow(codex, file, first.cursor)
    assert second.restarted
    assert told(second.steps) == [("USER", "Stop, and look at the other one")]


def test_bad_lines_are_named_and_the_rest_is_kept(codex: CodexTranscripts, file: Path) -> None:
    broken = b'{"timestamp": "2026\n\x00\xff\n[1]\n"x"\n'
    file.write_bytes(lines(meta(), message("user", "Go")) + broken + lines(message("assistant", "Yes.")))
    followed = follow(codex, file)
    assert told(followed.steps) == [("USER", "Go"), ("CLAUDE", "Yes.")]
    assert followed.about.bad_lines == (3, 4, 5, 6)


def test_odd_shapes_are_passed_over(codex: CodexTranscripts, file: Path) -> None:
    odd: list[dict[str, Any]] = [
        item(type="message", role="user", content=7),
        item(type="message", role="user", content=[None, {"text": 3}]),
        item(type="function_call", name=None, arguments=None, call_id=None),
        item(type="function_call_output", call_id=[], output=None),
        item(type="local_shell_call", action="x"),
        {"type": "response_item", "payload": None},
        {"type": 9, "timestamp": []},
    ]
    file.write_bytes(lines(*odd, message("user", "Go")))
    followed = follow(codex, file)
    assert told(followed.steps)[-1] == ("USER", "Go")
    assert followed.about.session_id == SESSION  # by the file's name
    assert followed.about.bad_lines == ()


def test_sub_agents_belong_to_the_session_that_called_them(codex: CodexTranscripts, file: Path) -> None:
    inherited = message("user", "What the parent was asked") | {"ordinal": 1}
    own = message("user", "Look for the cookie") | {"ordinal": 5}
    child = file.with_name(f"rollout-2026-03-02T10-00-00-{CHILD}.jsonl")
    child.write_bytes(
        lines(meta(CHILD, parent_thread_id=SESSION, subagent_history_start_ordinal=4), inherited, own)
    )
    file.write_bytes(lines(meta(), message("user", "Go")))
    assert {found.path: found.part_of for found in codex.files()} == {file: "", child: SESSION}
    (step,) = follow(codex, child).steps
    assert (step.text, step.aside) == ("Look for the cookie", True)


def test_what_codex_asks_for_its_own_ends_is_no_conversation(codex: CodexTranscripts, file: Path) -> None:
    file.write_bytes(
        lines(
            line("session_meta", id=SESSION, source={"subagent": "memory_consolidation"}),
            message("user", "Consolidate"),
        )
    )
    assert follow(codex, file).steps == ()


def test_the_first_jsonl_had_items_as_lines(codex: CodexTranscripts, file: Path) -> None:
    bare: list[dict[str, Any]] = [
        {
            "id": SESSION,
            "timestamp": "2025-06-01T08:00:00.000Z",
            "instructions": None,
            "git": {"branch": "x"},
        },
        {"record_type": "state"},
        {
            "type": "message",
            "role": "user",
            "content": [
                {
                    "type": "input_text",
                    "text": "<environment_context>\nCurrent working directory: /code/old\n</environment_context>",
                }
            ],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
    ]
    file.write_bytes(lines(*bare))
    followed = follow(codex, file)
    assert told(followed.steps) == [("USER", "Hello"), ("TOOL", "ls")]
    assert (followed.about.session_id, followed.cwd) == (SESSION, "/code/old")
    assert followed.steps[0].timestamp is not None
    assert followed.steps[0].timestamp.year == 2025


def old_session(*texts: str) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        for text in texts
    ]
    items.append(
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"}
    )
    items.append(output('{"output":"no","metadata":{"exit_code":2}}')["payload"])
    return {"session": {"id": SESSION, "timestamp": "2025-04-20T08:00:00.000Z"}, "items": items}


def test_the_first_version_wrote_one_object(codex: CodexTranscripts, file: Path) -> None:
    old = file.parents[3] / f"rollout-2025-04-20-{SESSION}.json"
    old.write_text(json.dumps(old_session("Hello"), indent=2), encoding="utf-8")
    (found,) = codex.files()
    first = follow(codex, found.path)
    assert told(first.steps) == [("USER", "Hello"), ("TOOL", "ls"), ("RESULT", "no")]
    assert first.steps[-1].failed
    assert first.about.session_id == SESSION
    assert old.read_text(encoding="utf-8").splitlines()[first.steps[0].line - 1].strip() == "{"
    assert follow(codex, old, first.cursor).steps == ()
    old.write_text(json.dumps(old_session("Hello", "And now?"), indent=2), encoding="utf-8")
    second = follow(codex, old, first.cursor)
    assert second.restarted
    assert ("USER", "And now?") in told(second.steps)


def test_an_object_that_breaks_off_gives_what_stands_before(codex: CodexTranscripts, file: Path) -> None:
    old = file.with_suffix(".json")
    whole = json.dumps(old_session("Hello", "And now?"), indent=2)
    old.write_text(whole[: whole.index("And now?")], encoding="utf-8")
    followed = follow(codex, old)
    assert told(followed.steps) == [("USER", "Hello")]
    (bad,) = followed.about.bad_lines
    second = [number for number, text in enumerate(whole.splitlines(), 1) if text == "    {"][1]
    assert bad == second  # where the item begins that isn't whole


def test_names_that_people_gave_are_titles(codex: CodexTranscripts, file: Path, tmp_path: Path) -> None:
    file.write_bytes(lines(meta(), message("user", "Go")))
    names = [{"id": SESSION, "thread_name": "Old"}, {"id": CHILD, "thread_name": "x"}]
    (tmp_path / "codex" / "session_index.jsonl").write_bytes(
        lines(*names, {"id": SESSION, "thread_name": "Login without cookies"}) + b"{broken"
    )
    about = follow(codex, file).about
    assert (about.title, about.title_by) == ("Login without cookies", "custom")


def test_files_are_found_where_codex_keeps_them(codex: CodexTranscripts, file: Path, tmp_path: Path) -> None:
    home = tmp_path / "codex"
    assert codex.roots() == [home / "sessions"]
    archived = home / "archived_sessions" / f"rollout-2026-01-01T00-00-00-{CHILD}.jsonl"
    archived.parent.mkdir()
    for path in (file, archived, file.with_name("notes.jsonl"), home / "history.jsonl"):
        path.write_bytes(lines(meta()))
    file.with_name("rollout-empty.jsonl").touch()
    assert {found.path for found in codex.files()} == {file, archived}
    assert {found.source for found in codex.files()} == {"codex"}
    assert codex.roots() == [home / "sessions", home / "archived_sessions"]
    assert codex.owns(file)
    assert not codex.owns(home / "history.jsonl")
    assert codex.follow(tmp_path / "none.jsonl", TranscriptCursor(), most_bytes=9) is None
    assert CodexTranscripts(tmp_path / "nowhere").files() == []


def test_every_source_is_asked_for_its_own_files(codex: CodexTranscripts, file: Path, tmp_path: Path) -> None:
    file.write_bytes(lines(meta(), message("user", "By Codex")))
    said = {
        "type": "user",
        "message": {"role": "user", "content": "By Claude Code"},
        "timestamp": "2026-03-02T10:00:00Z",
    }
    folder = tmp_path / "claude" / "projects" / "-code-shop"
    folder.mkdir(parents=True)
    own, elsewhere = folder / f"{CHILD}.jsonl", tmp_path / "elsewhere.jsonl"
    own.write_bytes(lines(said))
    elsewhere.write_bytes(lines(said))
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(file.read_bytes())
    claude = ClaudeTranscripts(tmp_path / "claude")
    every = pickle.loads(pickle.dumps(CombinedTranscripts([claude, codex], claude)))

    def words(path: Path, **more: str) -> list[str]:
        followed = every.follow(path, TranscriptCursor(), most_bytes=PLENTY, **more)
        assert followed is not None
        return [step.text for step in followed.steps]

    assert {found.source for found in every.files()} == {"claude", "codex"}
    assert [found.modified for found in every.files()] == sorted(
        (found.modified for found in every.files()), reverse=True
    )
    assert every.roots() == [tmp_path / "claude" / "projects", tmp_path / "codex" / "sessions"]
    assert words(file) == ["By Codex"]
    assert words(own) == words(elsewhere) == ["By Claude Code"]
    assert words(copy) == []
    assert words(copy, source="codex") == ["By Codex"]
    assert every.note(file) == ""
    assert not every.withheld
    assert [found.source for found in CombinedTranscripts([codex], claude).files()] == ["codex"]
