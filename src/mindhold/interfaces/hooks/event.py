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
from mindhold.hooks.worker_start import start_worker
from mindhold.interfaces.hooks.streams import arguments, complain, read_all, stand_in

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


LONGEST_MESSAGE = 20_000
LONGEST_NAME = 4_096
STARTING = "SessionStart"  # what is told next is made then
ENDING = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")  # something worth capturing, perhaps
TELLING = (STARTING, "UserPromptSubmit", "PostToolUse", "PostToolUseFailure")


def run(argv: Sequence[str], stdin: int = 0, stdout: int = 1) -> int:
    """The exit status: always 0. `argv` is the event, and `--home DIR` if need be."""
    try:
        stand_in()
        name, given_home = arguments(argv)
        if not is_skipped():
            _hear(name, read_all(stdin), home=home_folder(override=given_home), stdout=stdout)
    except BaseException as error:  # noqa: BLE001 - a hook never fails
        complain(error)
    return 0


def _hear(name: str, raw: bytes, *, home: str, stdout: int) -> None:
    given = parse_record(raw)
    said = given.get("hook_event_name")
    event = said if isinstance(said, str) and said else name
    if has_skip_mark(
        given.get("prompt"), given.get("last_assistant_message"), given.get("custom_instructions")
    ):
        return
    cwd = given.get("cwd")
    folder = project_dir(cwd=cwd if isinstance(cwd, str) else "")
    try:
        if event in TELLING:
            answer = _answer(event, given, home=home, folder=folder)
            if answer:
                output = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": answer}}
                write_all(stdout, write_json(output).encode("ascii") + b"\n")
    finally:
        if event == STARTING or (event in ENDING and capture_enabled()):
            _leave_to_worker(event, given, home=home, folder=folder)


def _answer(event: str, given: dict[str, Any], *, home: str, folder: str) -> str:
    from mindhold.interfaces.hooks.context import at_start, on_failure, on_prompt

    if event == STARTING:
        return at_start(home, given, folder)
    if event == "UserPromptSubmit":
        return on_prompt(home, given, folder)
    return on_failure(home, event, given, folder)


def _leave_to_worker(event: str, given: dict[str, Any], *, home: str, folder: str) -> None:
    """In this order: who gives the lease up looks for events once more."""
    if event == "SessionEnd" and given.get("reason") == "clear":
        already_shown.reset_shown(home, _text(given, "session_id"))
    put_event(home, _waiting(event, given, folder))
    start_worker(home)


def _waiting(event: str, given: dict[str, Any], folder: str) -> dict[str, Any]:
    own = _text(given, "agent_transcript_path") if event == "SubagentStop" else ""
    return {
        "event": event,
        "agent": agent_name(),
        "exclude": excluded_folders(),
        "conversation": _text(given, "session_id"),
        "file": own or _text(given, "transcript_path"),
        "folder": folder,
        "last_message": message_mark(_text(given, "last_assistant_message", LONGEST_MESSAGE)),
        "subagent": _text(given, "agent_id"),
        "source": _text(given, "source"),
        "reason": _text(given, "reason"),
        "trigger": _text(given, "trigger"),
        "at": time.time(),
    }


def _text(given: dict[str, Any], name: str, longest: int = LONGEST_NAME) -> str:
    value = given.get(name)
    return value[:longest] if isinstance(value, str) else ""
