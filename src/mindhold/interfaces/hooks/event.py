"""`mindhold hook EVENT`: Claude Code runs it with the event as JSON on standard input."""

from __future__ import annotations

import time

from mindhold.hooks import already_shown
from mindhold.hooks.already_shown import message_mark
from mindhold.hooks.environment import (
    agent_name,
    capture_enabled,
    excluded_folders,
    has_skip_mark,
    home_folder,
    is_skipped,
    project_dir,
)
from mindhold.hooks.event_queue import put_event
from mindhold.hooks.fast_json import parse_record, write_json
from mindhold.hooks.files import write_all
from mindhold.hooks.worker import start_worker
from mindhold.interfaces.hooks.streams import (
    fill_closed_streams,
    has_input,
    parse_arguments,
    read_all,
    report_error,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


LONGEST_MESSAGE = 20_000
LONGEST_NAME = 4_096
START = "SessionStart"  # the worker then prepares the next context
CAPTURED = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")  # there may be something to capture
ANSWERED = (START, "UserPromptSubmit", "PostToolUse", "PostToolUseFailure")


def run(argv: Sequence[str], stdin: int = 0, stdout: int = 1) -> int:
    """Handle an event and return the exit status 0. `argv` has the event, and optionally `--home DIR`."""
    try:
        fill_closed_streams()
        name, home_option = parse_arguments(argv)
        if not is_skipped():
            _handle(name, read_all(stdin), home=home_folder(override=home_option), stdout=stdout)
    except BaseException as error:  # noqa: BLE001 - a hook never fails
        report_error(error)
    return 0


def run_without_arguments(stdin: int = 0, stdout: int = 1) -> bool:
    """Handle the event on standard input, if there is one; whether there was.

    Claude Code before 2.1.139 ignores `args`, with which Mindhold's hooks used to be called: it runs `mindhold` alone, and
    would put the help into the conversation.
    """
    if not has_input(stdin):
        return False
    try:
        raw = read_all(stdin)
        payload = parse_record(raw)
    except (OSError, ValueError):
        return False
    if not (_text(payload, "hook_event_name") and _text(payload, "session_id")):
        return False
    try:
        if not is_skipped():
            _handle("", raw, home=home_folder(), stdout=stdout)
    except BaseException as error:  # noqa: BLE001 - a hook never fails
        report_error(error)
    return True


def _handle(name: str, raw: bytes, *, home: str, stdout: int) -> None:
    payload = parse_record(raw)
    named_event = payload.get("hook_event_name")
    event = named_event if isinstance(named_event, str) and named_event else name
    if has_skip_mark(
        payload.get("prompt"), payload.get("last_assistant_message"), payload.get("custom_instructions")
    ):
        return
    cwd = payload.get("cwd")
    folder = project_dir(cwd=cwd if isinstance(cwd, str) else "")
    try:
        if event in ANSWERED:
            output: dict[str, Any] = {}
            if answer := _answer(event, payload, home=home, folder=folder):
                output["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": answer}
            if message := _message(event, payload, home=home, folder=folder):
                output["systemMessage"] = message
            if output:
                write_all(stdout, write_json(output).encode("ascii") + b"\n")
    finally:
        if event == START or (event in CAPTURED and capture_enabled()):
            _leave_to_worker(event, payload, home=home, folder=folder)


def _answer(event: str, payload: dict[str, Any], *, home: str, folder: str) -> str:
    from mindhold.interfaces.hooks.context import at_start, on_failure, on_prompt

    if event == START:
        return at_start(home, payload, folder)
    if event == "UserPromptSubmit":
        return on_prompt(home, payload, folder)
    return on_failure(home, event, payload, folder)


def _message(event: str, payload: dict[str, Any], *, home: str, folder: str) -> str:
    """Return what the person is shown; the agent doesn't see it."""
    if event != START:
        return ""
    from mindhold.interfaces.hooks.context import kept_of_last

    return kept_of_last(home, payload, folder)


def _leave_to_worker(event: str, payload: dict[str, Any], *, home: str, folder: str) -> None:
    """Queue the event, then start the worker: in this order a worker that is about to end sees the event."""
    if event == "SessionEnd" and payload.get("reason") == "clear":
        already_shown.reset_shown(home, _text(payload, "session_id"))
    put_event(home, _event_record(event, payload, folder))
    start_worker(home)


def _event_record(event: str, payload: dict[str, Any], folder: str) -> dict[str, Any]:
    agent_file = _text(payload, "agent_transcript_path") if event == "SubagentStop" else ""
    return {
        "event": event,
        "agent": agent_name(),
        "exclude": excluded_folders(),
        "conversation": _text(payload, "session_id"),
        "file": agent_file or _text(payload, "transcript_path"),
        "folder": folder,
        "last_message": message_mark(_text(payload, "last_assistant_message", LONGEST_MESSAGE)),
        "subagent": _text(payload, "agent_id"),
        "source": _text(payload, "source"),
        "reason": _text(payload, "reason"),
        "trigger": _text(payload, "trigger"),
        "at": time.time(),
    }


def _text(payload: dict[str, Any], name: str, longest: int = LONGEST_NAME) -> str:
    value = payload.get(name)
    return value[:longest] if isinstance(value, str) else ""
