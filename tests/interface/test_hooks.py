"""`mindhold hook EVENT` as Claude Code runs it: a process, JSON on its input, exit status 0 whatever happens."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from patient_hook import patient_hook

from mindhold.hooks import already_shown, event_queue, hook_cache_writer, server
from mindhold.hooks.already_shown import message_mark
from mindhold.hooks.environment import OWN_CALL_MARK
from mindhold.hooks.lease import Lease
from mindhold.hooks.project_identity import identity_key, project_identity
from mindhold.interfaces.hooks.context import HEADING, LONGEST
from mindhold.model.error_signs import error_signs

CAPTURING = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")
FAILURE = "Exit code 1\nTraceback (most recent call last):\n  File \"x.py\"\nModuleNotFoundError: No module named 'yaml'"
MEMORIES = [
    "The test database listens on port 5433, staging on 5434",
    "Deploys go out on Tuesdays and Thursdays only, never on Fridays",
    "The staging database is restored from production on Tuesdays",
]
PORT = "which port does the test database listen on?"


@dataclass
class Claude:
    """Runs hooks for one home and one project."""

    home: Path
    project: Path
    environ: dict[str, str] = field(default_factory=dict)
    program: list[str] = field(default_factory=lambda: [sys.executable, "-m", "mindhold"])

    def run(self, *argv: str, stdin: bytes | int = b"", **given: Any) -> subprocess.CompletedProcess[bytes]:
        left_out = ("MINDHOLD_", "CLAUDE")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        environ |= {
            "MINDHOLD_HOME": str(self.home),
            "MINDHOLD_EMBEDDING_PROVIDER": "hashing",
        } | self.environ
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.project}
        command = [*self.program, *argv]
        options |= {"stdin" if isinstance(stdin, int) else "input": stdin} | given
        return subprocess.run(command, env=environ, check=False, timeout=120, **options)

    def event(self, name: str, **given: Any) -> bytes:
        common = {
            "session_id": "conversation-1",
            "transcript_path": str(self.project / "conversation.jsonl"),
            "cwd": str(self.project),
            "hook_event_name": name,
        }
        return json.dumps(common | given).encode()

    def __call__(self, name: str, **given: Any) -> str:
        """What the conversation is told."""
        done = self.run("hook", name, stdin=self.event(name, **given))
        assert (done.returncode, done.stderr) == (0, b"")
        if not done.stdout:
            return ""
        output = json.loads(done.stdout)["hookSpecificOutput"]
        assert output["hookEventName"] == name
        context: str = output["additionalContext"]
        assert context.startswith(HEADING)
        assert len(context) < 10_000
        return context

    def waits(self) -> list[dict[str, Any]]:
        return [event for _, event in event_queue.all_events(str(self.home))]

    def know(self, texts: list[str] = MEMORIES, **given: Any) -> None:
        memories = [{"id": f"m{number}", "kind": "fact", "text": text} for number, text in enumerate(texts)]
        errors = [{"id": "e1", "text": "Solved by `pip install pyyaml`", "signs": list(error_signs(FAILURE))}]
        sheet = {
            "scope": "shop",
            "start": "- decision: cents",
            "start_ids": [],
            "memories": memories,
            "errors": errors,
        }
        hook_cache_writer.write_cache(
            str(self.home), identity_key(project_identity(str(self.project))), sheet | given
        )


@pytest.fixture
def claude(tmp_path: Path) -> Claude:
    project = tmp_path / "a project"
    project.mkdir()
    return Claude(tmp_path / "home", project)


@pytest.fixture
def alone(claude: Claude) -> Iterator[None]:
    """Holds the lease, so that no worker starts."""
    with Lease(str(claude.home)) as mine:
        assert mine
        yield


pytestmark = pytest.mark.usefixtures("alone")


@pytest.mark.parametrize("name", CAPTURING)
def test_what_ends_a_turn_waits_for_the_worker_and_prints_nothing(claude: Claude, name: str) -> None:
    claude.know()
    told_us: dict[str, dict[str, Any]] = {
        "Stop": {"last_assistant_message": "Done. " + PORT, "stop_hook_active": True},
        "SubagentStop": {
            "agent_id": "a7",
            "agent_transcript_path": "/x/agent-a7.jsonl",
            "agent_type": "Explore",
        },
        "PreCompact": {"trigger": "auto", "custom_instructions": None},
        "SessionEnd": {"reason": "prompt_input_exit"},
    }
    assert claude(name, **told_us[name]) == ""
    [event] = claude.waits()
    assert isinstance(event.pop("at"), float)
    assert event == {
        "event": name,
        "agent": "",
        "exclude": "",
        "conversation": "conversation-1",
        "file": "/x/agent-a7.jsonl" if name == "SubagentStop" else str(claude.project / "conversation.jsonl"),
        "folder": str(claude.project),
        "last_message": message_mark("Done. " + PORT) if name == "Stop" else "",
        "subagent": "a7" if name == "SubagentStop" else "",
        "source": "",
        "reason": "prompt_input_exit" if name == "SessionEnd" else "",
        "trigger": "auto" if name == "PreCompact" else "",
    }


def test_a_conversation_begins_with_what_is_known(claude: Claude) -> None:
    assert claude("SessionStart", source="startup") == ""
    claude.know(start_ids=["m0"])
    assert claude("SessionStart", source="startup") == f"{HEADING}\n- decision: cents"
    assert [event["source"] for event in claude.waits()] == ["startup", "startup"]
    assert claude("UserPromptSubmit", prompt=PORT) == ""  # it began with that
    for source in ("compact", "resume", "clear", "fork"):
        assert "cents" in claude("SessionStart", source=source)
    claude.know(start_ids=[])
    assert "cents" in claude("SessionStart", source="compact")
    assert "5433" in claude("UserPromptSubmit", prompt=PORT)  # which it has forgotten
    claude.know(limits={"start": False})
    assert claude("SessionStart", source="startup", session_id="2") == ""
    claude.know(start_ids=["m0"], limits={"start": False})  # of CLAUDE.md
    assert claude("SessionStart", source="startup", session_id="2") == ""
    assert claude("UserPromptSubmit", prompt=PORT, session_id="2") == ""
    claude.know(start="x" * 8_999)
    assert len(claude("SessionStart", source="startup")) < LONGEST


def test_a_prompt_is_told_what_it_is_about_and_only_once(claude: Claude) -> None:
    claude.know()
    assert claude("UserPromptSubmit", prompt=PORT) == f"{HEADING}\n- fact: {MEMORIES[0]}"
    assert claude("UserPromptSubmit", prompt=PORT) == ""
    assert MEMORIES[0] in claude("UserPromptSubmit", prompt=PORT, session_id="another")
    assert MEMORIES[0] in claude("UserPromptSubmit", prompt=PORT, agent_id="sub")
    assert claude("SessionEnd", reason="clear") == ""
    assert MEMORIES[0] in claude("UserPromptSubmit", prompt=PORT)
    assert {event["event"] for event in claude.waits()} == {"SessionEnd"}


@pytest.mark.parametrize(
    "given",
    [
        {"prompt": "write a haiku about autumn"},
        {"prompt": "ok"},
        {"prompt": f"/deploy {PORT}"},
        {"prompt": f"<task-notification>{PORT}"},
        {"prompt": PORT, "source": "schedule_wakeup"},
        {"prompt": f"{PORT} [skip-hook]"},
        {"prompt": f"{OWN_CALL_MARK}\n{PORT}"},
        {"prompt": 7},
        {"prompt": None},
        {},
    ],
)
def test_other_prompts_are_told_nothing(claude: Claude, given: dict[str, Any]) -> None:
    claude.know()
    assert claude("UserPromptSubmit", **given) == ""
    assert claude("UserPromptSubmit", prompt=PORT, source="user")


def test_limits_hold(claude: Claude) -> None:
    texts = [f"The test database of tenant{number} listens on port {5_000 + number}" for number in range(9)]
    ask = "which port does the test database of tenant3 listen on, and that of tenant4, tenant5, tenant6?"
    claude.know(texts, limits={"prompt_most": 2, "prompt_chars": 1_000})
    assert claude("UserPromptSubmit", prompt=ask).count("\n") == 2
    claude.know(texts, limits={"prompt_most": 20, "prompt_chars": 190})
    assert len(claude("UserPromptSubmit", prompt=ask, session_id="2")) <= 190
    claude.know(texts, limits={"prompt_most": 20, "prompt_chars": 0})
    assert claude("UserPromptSubmit", prompt=ask, session_id="3") == ""


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("PostToolUseFailure", {"error": FAILURE, "is_interrupt": False}),
        ("PostToolUseFailure", {"error": {"message": FAILURE}}),
        ("PostToolUse", {"tool_response": f"Error: {FAILURE}"}),
        ("PostToolUse", {"tool_response": {"stdout": "", "stderr": FAILURE, "exit_code": 1}}),
        (
            "PostToolUse",
            {"tool_response": {"is_error": True, "content": [{"type": "text", "text": FAILURE}]}},
        ),
        ("PostToolUse", {"tool_response": [{"type": "text", "text": FAILURE, "is_error": True}]}),
        (
            "PostToolUse",
            {
                "tool_input": {"command": "make 2>&1 | tail"},
                "tool_response": {"stdout": FAILURE, "stderr": ""},
            },
        ),
    ],
)
def test_a_failure_that_was_solved_before_is_told_once(
    claude: Claude, name: str, given: dict[str, Any]
) -> None:
    claude.know()
    assert "pip install pyyaml" in claude(name, tool_name="Bash", **given)
    assert claude(name, tool_name="Bash", **given) == ""
    assert claude.waits() == []


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("PostToolUse", {"tool_response": {"stdout": FAILURE, "stderr": "", "interrupted": False}}),
        ("PostToolUse", {"tool_response": {"stdout": FAILURE, "interrupted": True, "exit_code": 1}}),
        ("PostToolUse", {"tool_response": "Exit code 0\n" + FAILURE}),
        ("PostToolUse", {"tool_response": None}),
        ("PostToolUse", {}),
        ("PostToolUseFailure", {"error": FAILURE, "is_interrupt": True}),
        ("PostToolUseFailure", {"error": "ModuleNotFoundError: No module named 'numpy'"}),
        ("PostToolUseFailure", {"error": ""}),
    ],
)
def test_what_is_no_known_failure_is_told_nothing(claude: Claude, name: str, given: dict[str, Any]) -> None:
    claude.know()
    assert claude(name, tool_name="Bash", **given) == ""


def test_failures_can_be_left_alone(claude: Claude) -> None:
    claude.know(limits={"errors": False})
    assert claude("PostToolUseFailure", error=FAILURE) == ""


def test_a_running_mindhold_is_asked_first(claude: Claude) -> None:
    claude.know()
    claude.program = patient_hook()
    asked: list[dict[str, Any]] = []
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(60)  # whoever should have asked and didn't is told by what is printed

    def serve() -> None:
        for memories in ([{"id": "d1", "kind": "decision", "text": "From\nthe desk"}], []):
            line, _ = listener.accept()
            with line, line.makefile("rb") as file:
                asked.append(json.loads(file.readline()))
                line.sendall(json.dumps({"memories": memories}).encode() + b"\n")

    thread = threading.Thread(target=serve)
    thread.start()
    token = server.register_server(str(claude.home), listener.getsockname()[1])
    try:
        both = f"{HEADING}\n- decision: From the desk\n- fact: {MEMORIES[0]}"
        assert claude("UserPromptSubmit", prompt=PORT) == both
        assert claude("UserPromptSubmit", prompt=PORT) == ""
    finally:
        thread.join()
        listener.close()
    assert asked[0] == {
        "token": token,
        "ask": "prompt",
        "text": PORT,
        "cwd": str(claude.project),
    }
    assert MEMORIES[0] in claude("UserPromptSubmit", prompt=PORT, session_id="2")  # which is gone now


def test_worktrees_and_folders_below_are_the_same_project(claude: Claude) -> None:
    own = claude.project / ".git" / "worktrees" / "two"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..", encoding="utf-8")
    beside = claude.project.parent / "two"
    beside.mkdir()
    (beside / ".git").write_text(f"gitdir: {own}\n", encoding="utf-8")
    (claude.project / "src").mkdir()
    claude.know()
    for number, folder in enumerate((beside, claude.project / "src")):
        assert "cents" in claude("SessionStart", source="startup", cwd=str(folder), session_id=str(number))
    claude.environ["CLAUDE_PROJECT_DIR"] = str(claude.project)
    assert "cents" in claude("SessionStart", source="startup", cwd="/")
    assert claude.waits()[-1]["folder"] == str(claude.project)


@pytest.mark.parametrize("variable", ["MINDHOLD_SKIP", "MINDHOLD_EXTRACTING"])
def test_calls_of_our_own_are_left_alone(claude: Claude, variable: str) -> None:
    claude.know()
    claude.environ[variable] = "1"
    for name in (*CAPTURING, "SessionStart"):
        assert claude(name) == ""
    assert claude("UserPromptSubmit", prompt=PORT) == ""
    assert claude.waits() == []


def test_what_bears_a_mark_is_not_captured(claude: Claude) -> None:
    assert claude("Stop", last_assistant_message="As you wish [skip-hook].") == ""
    assert claude("SubagentStop", last_assistant_message=f"{OWN_CALL_MARK}\n[]") == ""
    assert claude.waits() == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b'"Stop"',
        b"{",
        b'{"hook_event_name": "Stop"',
        b"not json at all",
        b"\xff\xfe\x00",
        b"\x00" * 1_000,
        b"[" * 200_000,
        b'{"a": ' * 100_000,
        b'{"session_id": 7, "cwd": ["x"], "hook_event_name": {"a": 1}}',
        b'{"hook_event_name": "NoSuchEvent", "session_id": "x"}',
        b'{"hook_event_name": "Stop"} {"hook_event_name": "Stop"}',
        b'{"n": ' + b"9" * 10_000 + b"}",
    ],
)
@pytest.mark.parametrize(
    "name", ["SessionStart", "UserPromptSubmit", "PostToolUseFailure", "NoSuchEvent", ""]
)
def test_bad_input_ends_well_and_says_nothing(claude: Claude, raw: bytes, name: str) -> None:
    done = claude.run("hook", *([name] if name else []), stdin=raw)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.count(b"\n") <= 1


@pytest.mark.parametrize(
    "given",
    [
        {"cwd": "\ud800\udfff \ud83d", "session_id": "\udcff"},
        {"cwd": "/no/such\0place", "transcript_path": "\0"},
        {"cwd": None, "session_id": None, "transcript_path": None, "last_assistant_message": ["x"]},
        {"cwd": "x" * 100_000, "session_id": "y" * 100_000},
        {"last_assistant_message": "\ud800" * 50_000},
    ],
)
@pytest.mark.parametrize("name", ["Stop", "SessionStart", "UserPromptSubmit"])
def test_odd_values_end_well(claude: Claude, name: str, given: dict[str, Any]) -> None:
    claude.know()
    done = claude.run("hook", name, stdin=claude.event(name, **({"prompt": PORT} | given)))
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    for event in claude.waits():
        assert len(event["last_message"]) <= 40
        assert len(event["conversation"]) <= 4_096


def test_what_is_beyond_measure_is_passed_over(claude: Claude) -> None:
    claude.know()
    large = claude.event("Stop", last_assistant_message="x" * (33 << 20))
    done = claude.run("hook", "Stop", stdin=large)
    assert (done.returncode, done.stdout) == (0, b"")
    assert claude.waits() == []
    pasted = f"{PORT}\n" + "lorem ipsum " * 200_000
    assert (
        claude.run(
            "hook", "UserPromptSubmit", stdin=claude.event("UserPromptSubmit", prompt=pasted)
        ).returncode
        == 0
    )


def test_the_event_itself_decides_not_the_command(claude: Claude) -> None:
    claude.know()
    done = claude.run("hook", "SessionStart", stdin=claude.event("Stop"))
    assert (done.returncode, done.stdout) == (0, b"")
    assert [event["event"] for event in claude.waits()] == ["Stop"]
    done = claude.run("hook", stdin=claude.event("SessionStart", source="startup"))
    assert b"cents" in done.stdout


def test_an_event_without_arguments_is_handled_like_any_other(claude: Claude) -> None:
    claude.know()
    done = claude.run(stdin=claude.event("UserPromptSubmit", prompt=PORT))
    assert (done.returncode, done.stderr) == (0, b"")
    assert MEMORIES[0] in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    for name in (*CAPTURING, "Status", "PreToolUse"):
        done = claude.run(stdin=claude.event(name))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [event["event"] for event in claude.waits()] == list(CAPTURING)


@pytest.mark.parametrize("raw", [b"", b"remember this", b"{}", b'{"session_id": "x"}', b"[1]", b"{"])
def test_whoever_calls_it_without_arguments_or_event_gets_the_help(claude: Claude, raw: bytes) -> None:
    done = claude.run(stdin=raw)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Long-term memory for AI agents" in done.stdout
    assert claude.waits() == []


def test_the_home_may_be_named(claude: Claude, tmp_path: Path) -> None:
    other = Claude(tmp_path / "other home", claude.project)
    with Lease(str(other.home)):
        for argv in (
            ("hook", "Stop", "--home", str(other.home)),
            ("--home", str(other.home), "hook", "Stop"),
        ):
            assert claude.run(*argv, stdin=claude.event("Stop")).returncode == 0
    assert (len(claude.waits()), len(other.waits())) == (0, 2)


def test_streams_that_are_closed_or_full(claude: Claude) -> None:
    if os.name != "posix":
        return
    claude.know()
    start = claude.event("SessionStart", source="startup")
    environ = {**os.environ, "MINDHOLD_HOME": str(claude.home)}
    for closed in ("0", "1", "2", "0,1,2"):
        argv = [sys.executable, "-m", "mindhold", "hook", "SessionStart"]
        code = f"import os, sys; [os.close(one) for one in ({closed},)]; os.execv(sys.executable, {argv})"
        done = subprocess.run(
            [sys.executable, "-c", code], input=start, env=environ, check=False, capture_output=True
        )
        assert (done.returncode, bool(done.stdout)) == (0, closed == "2")
    assert len(claude.waits()) == 2  # of those that could be heard
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        assert claude.run("hook", "SessionStart", stdin=start, stdout=gone).returncode == 0
    if Path("/dev/full").exists():
        with Path("/dev/full").open("wb") as full:
            assert claude.run("hook", "SessionStart", stdin=start, stdout=full).returncode == 0
            assert claude.run("statusline", stdin=start, stdout=full).returncode == 0


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_who_hands_something_in_may_leave_the_input_open(claude: Claude, ending: bytes) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, claude.event("SessionEnd") + ending)
        done = claude.run("hook", "SessionEnd", stdin=reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [event["event"] for event in claude.waits()] == ["SessionEnd"]


def test_a_folder_that_is_gone_loses_nothing(claude: Claude) -> None:
    if os.name != "posix":
        return
    gone = claude.project / "gone"
    command = f'mkdir "{gone}"; cd "{gone}"; rmdir "{gone}"; exec "$@"'
    environ = {**os.environ, "MINDHOLD_HOME": str(claude.home)}
    for name in ("SessionStart", "Stop"):
        event = json.loads(claude.event(name))
        del event["cwd"]
        subprocess.run(
            ["sh", "-c", command, "sh", sys.executable, "-m", "mindhold", "hook", name],
            input=json.dumps(event).encode(),
            env=environ,
            check=True,
        )
    assert [(event["event"], event["folder"]) for event in claude.waits()] == [
        ("SessionStart", ""),
        ("Stop", ""),
    ]


def test_the_environment_says_whose_it_is_and_what_is_left_out(claude: Claude) -> None:
    claude.environ = {"MINDHOLD_AGENT": "alice", "MINDHOLD_CAPTURE_EXCLUDE": "secret, other"}
    claude("Stop")
    [event] = claude.waits()
    assert (event["agent"], event["exclude"]) == ("alice", "secret, other")
    claude.environ = {"MINDHOLD_CAPTURE_ENABLED": "false"}
    for name in (*CAPTURING, "SessionStart"):
        claude(name)
    assert [event["event"] for event in claude.waits()] == ["Stop", "SessionStart"]  # that one is for telling


def test_an_interruption_ends_well(claude: Claude) -> None:
    if os.name != "posix":
        return
    environ = {**os.environ, "MINDHOLD_HOME": str(claude.home)}
    command = [sys.executable, "-X", "importtime", "-m", "mindhold", "hook", "Stop"]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as hook:
        assert hook.stderr is not None
        while b"mindhold.interfaces.hooks.event" not in hook.stderr.readline():
            assert hook.poll() is None
        hook.send_signal(signal.SIGINT)
        assert hook.wait(60) == 0
    assert claude.waits() == []


def test_a_full_disk_ends_well(claude: Claude) -> None:
    if os.name != "posix":
        return
    import resource

    claude.know()

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    for name, given in (
        ("Stop", {}),
        ("UserPromptSubmit", {"prompt": PORT}),
        ("SessionStart", {"source": "startup"}),
    ):
        done = claude.run("hook", name, stdin=claude.event(name, **given), preexec_fn=no_room)
        assert done.returncode == 0
        assert bool(done.stdout) == (
            name == "SessionStart"
        )  # what can't be noted as told isn't told, but for that
    assert claude.waits() == []
    assert list((claude.home / "hooks" / "waiting").iterdir()) == []


def test_a_home_that_cannot_be_written(claude: Claude, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    claude.environ["MINDHOLD_HOME"] = str(tmp_path / "file")
    for name in (*CAPTURING, "SessionStart", "UserPromptSubmit"):
        done = claude.run("hook", name, stdin=claude.event(name, prompt=PORT))
        assert (done.returncode, done.stdout) == (0, b"")
    assert claude.run("statusline", stdin=b"{}").stdout == b"mindhold: nothing captured here yet\n"


def test_the_status_line_is_one_line(claude: Claude) -> None:
    place = json.dumps({"session_id": "s", "workspace": {"current_dir": str(claude.project)}}).encode()
    assert claude.run("statusline", stdin=place).stdout == b"mindhold: nothing captured here yet\n"
    claude.know(
        status={"memories": 1_042, "captured": "2020-01-01T00:00:00+00:00", "rung": "rules", "problem": ""}
    )
    line = claude.run("statusline", stdin=place).stdout.decode()
    assert line.startswith("mindhold: 1,042 memories, captured ")
    assert line.endswith(" days ago, by rules\n")
    claude.know(
        status={"memories": 1, "captured": None, "rung": "", "problem": "the key\n\x1b[31mis refused"}
    )
    assert claude.run("statusline", stdin=place).stdout == b"mindhold: 1 memory, ! the key [31mis refused\n"
    for raw in (b"", b"{", b"[]", b'{"workspace": 7}', b"\xff"):
        done = claude.run("statusline", stdin=raw)
        assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)
    for path in (claude.home / "hooks" / "waiting").glob("*"):
        path.unlink()
    claude("Stop")
    [path] = (claude.home / "hooks" / "waiting").iterdir()
    path.rename(path.with_name(f"{1:020d}-1-0.json"))
    assert b"waiting for a worker" in claude.run("statusline", stdin=place).stdout


def test_nothing_heavy_is_loaded(claude: Claude) -> None:
    """What a hook must not wait for; how long it takes is for the benchmark."""
    claude.know()
    heavy = {
        "json",
        "re",
        "pathlib",
        "dataclasses",
        "typing",
        "subprocess",
        "socket",
        "click",
        "pydantic",
        "numpy",
        "hashlib",
    }
    for argv in (("hook", "Stop"), ("hook", "SessionStart"), ("statusline",)):
        given = [sys.executable, "-X", "importtime", "-m", "mindhold", *argv]
        environ = {**os.environ, "MINDHOLD_HOME": str(claude.home)}
        done = subprocess.run(
            given, input=claude.event(argv[-1]), env=environ, capture_output=True, check=True
        )
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
        assert "mindhold.hooks.fast_json" in loaded
        assert not loaded & heavy


class TestWorkers:
    """With the lease free."""

    @pytest.fixture(autouse=True)
    def alone(self) -> None:
        """Nobody holds it."""

    def test_a_hundred_hooks_at_once_leave_nothing_running(self, claude: Claude) -> None:
        (claude.project / "conversation.jsonl").write_text("", encoding="utf-8")
        environ = {
            **os.environ,
            "MINDHOLD_HOME": str(claude.home),
            "MINDHOLD_EMBEDDING_PROVIDER": "hashing",
        }
        hooks = [
            subprocess.Popen(
                [sys.executable, "-m", "mindhold", "hook", "Stop"],
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for _ in range(100)
        ]
        workers: dict[int, psutil.Process] = {}
        for number, hook in enumerate(hooks):
            out, _ = hook.communicate(claude.event("Stop", session_id=str(number)))
            assert (hook.returncode, out) == (0, b"")
            if number % 20 == 19:
                workers |= working(claude.home)
        workers |= working(claude.home)
        assert psutil.wait_procs(list(workers.values()), timeout=120)[1] == []
        while later := working(claude.home):
            assert psutil.wait_procs(list(later.values()), timeout=120)[1] == []
            workers |= later
        assert len(workers) <= 10  # one after the other
        with Lease(str(claude.home)) as mine:
            assert mine

    def test_what_lies_in_the_project_is_never_run(self, claude: Claude) -> None:
        trap = "import pathlib; pathlib.Path(__file__).with_name('sprung').touch()"
        (claude.project / "json.py").write_text(trap, encoding="utf-8")
        (claude.project / "mindhold").mkdir()
        (claude.project / "mindhold" / "__init__.py").write_text(trap, encoding="utf-8")
        environ = {
            **os.environ,
            "MINDHOLD_HOME": str(claude.home),
            "MINDHOLD_EMBEDDING_PROVIDER": "hashing",
        }
        script = [sys.executable, "-P", "-c", "from mindhold.__main__ import main; main()", "hook", "Stop"]
        done = subprocess.run(
            script, input=claude.event("Stop"), env=environ, cwd=claude.project, check=False
        )
        assert done.returncode == 0
        for worker in working(claude.home).values():
            worker.wait(120)
        assert list(claude.project.rglob("sprung")) == []

    def test_the_worker_stands_on_its_own(self, claude: Claude) -> None:
        """It holds no stream of the hook's: the client would wait for their end."""
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        done = claude.run("hook", "Stop", stdin=claude.event("Stop"), close_fds=False)
        os.close(writing)
        assert done.returncode == 0
        with os.fdopen(reading, "rb") as end:
            assert end.read() == b""
        for worker in working(claude.home).values():
            with suppress(psutil.NoSuchProcess):  # it may have ended by now
                assert worker.terminal() is None
            worker.wait(120)


def working(home: Path) -> dict[int, psutil.Process]:
    """The workers of that home."""
    found = {}
    for process in psutil.process_iter():
        try:
            if "hook-worker" in process.cmdline() and process.environ().get("MINDHOLD_HOME") == str(home):
                found[process.pid] = process
        except psutil.Error:
            continue
    return found


def test_told_and_waiting_are_what_the_hooks_write(claude: Claude) -> None:
    claude.know()
    claude("UserPromptSubmit", prompt=PORT)
    assert already_shown.read_shown(str(claude.home), "conversation-1") == {"m0"}
