"""What a message of a Gemini CLI session says happened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mindhold.ports.transcripts import Role, Step
from mindhold.providers.transcripts.entries import Block, Entry, string, without_inserted
from mindhold.providers.transcripts.steps import Place, said
from mindhold.providers.transcripts.told import asked, first_of, gave, is_failure, short

_ABOUT: Mapping[str, tuple[str, ...]] = {
    "run_shell_command": ("command",),
    "read_file": ("file_path", "absolute_path", "path"),
    "write_file": ("file_path", "absolute_path"),
    "replace": ("file_path", "absolute_path"),
    "list_directory": ("dir_path", "path"),
    "grep_search": ("pattern",),
    "search_file_content": ("pattern",),
    "glob": ("pattern",),
    "google_web_search": ("query",),
    "web_fetch": ("prompt", "url"),
    "save_memory": ("fact",),
    "activate_skill": ("name",),
    "complete_task": ("result",),
}
# How texts begin that no person typed as a prompt: commands to the program, and what it tells the model itself.
_NOT_SPOKEN = (
    "/",
    "?",
    "<session_context>",
    "<hook_context>",
    "<state_snapshot>",
    "This is the Gemini CLI. We are setting up the context",
)
_OWN_SERVER = "(mindhold MCP Server)"
_WRAPPED = ("<untrusted_context>", "</untrusted_context>")
# Of a command: what stands before its output, and lines behind it that tell how it ended.
_OUTPUT = re.compile(r"^Output: ", re.MULTILINE)
_ENDED = ("Error: ", "Exit Code: ", "Signal: ", "Background PIDs: ", "Process Group PGID: ")
_CODE = re.compile(r"Exit Code: (-?\d{1,10})\b")


def steps_of(message: Entry, place: Place, tools: dict[str, str], answered: set[str]) -> Iterator[Step]:
    """In order. `tools` has the names of tools by the calls' ids, `answered` the calls that have their results."""
    kind, parts = message.get("type"), _parts(message.get("content"))
    if kind == "user":
        yield from _results(parts, place, tools, answered)
        if text := _spoken(_parts(message.get("displayContent")) or parts):
            yield said(Role.USER, text, place)
    elif kind == "gemini":
        if text := _texts(parts):
            yield said(Role.CLAUDE, text, place)
        calls = message.get("toolCalls")
        told = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        for call in told:
            yield from _called(call, place, tools, answered)
        if not told:
            for part in parts:
                if isinstance(asked_for := part.get("functionCall"), dict):
                    yield _asked(asked_for, place, tools)


def _parts(content: Any) -> list[Block]:
    """A content may be a text, a part or a list of either."""
    each = content if isinstance(content, list) else [content]
    return [
        {"text": part} if isinstance(part, str) else part
        for part in each
        if isinstance(part, str | dict) and part
    ]


def _texts(parts: list[Block]) -> str:
    texts = (string(part.get("text")).strip() for part in parts if not part.get("thought"))
    return "\n\n".join(filter(None, texts))


def _spoken(parts: list[Block]) -> str:
    text = _texts(parts)
    return "" if text.startswith(_NOT_SPOKEN) else without_inserted(text)


def _called(call: Entry, place: Place, tools: dict[str, str], answered: set[str]) -> Iterator[Step]:
    """A call that the message tells of, with what came of it."""
    step = _asked(call, place, tools)
    if string(call.get("displayName")).endswith(_OWN_SERVER):
        tools[step.call] = "mindhold__"
        return
    yield step
    status = call.get("status")
    if status not in ("success", "error", "cancelled"):
        return
    text = _given_back(call.get("result")) or string(call.get("resultDisplay"))
    output, failed = _outcome(text)
    answered.add(step.call)
    yield gave(
        output,
        failed=status != "cancelled" and (failed or status == "error"),
        tool=step.tool,
        call=step.call,
        place=place,
    )


def _asked(call: Entry, place: Place, tools: dict[str, str]) -> Step:
    name, given = short(call.get("name")), call.get("args")
    fields: Mapping[str, Any] = given if isinstance(given, dict) else {}
    named = short(call.get("id"))
    if named:
        tools[named] = name
    return asked(name, first_of(fields, _ABOUT.get(name, ())), fields, call=named, place=place)


def _results(parts: list[Block], place: Place, tools: dict[str, str], answered: set[str]) -> Iterator[Step]:
    """What tools gave back, where only the history tells of it."""
    for part in parts:
        response = part.get("functionResponse")
        if not isinstance(response, dict) or (call := short(response.get("id"))) in answered:
            continue
        answered.add(call)
        tool = tools.get(call) or short(response.get("name"))
        output, failed = _outcome(_given_back([part]))
        yield gave(output, failed=failed, tool=tool, call=call, place=place)


def _given_back(result: Any) -> str:
    """The text of a result: what the function answered, or the parts themselves."""
    texts: list[str] = []
    for part in _parts(result):
        answer = part.get("functionResponse")
        response = answer.get("response") if isinstance(answer, dict) else None
        if isinstance(response, dict):
            error = string(response.get("error"))
            texts.append(f"Error: {error}" if error else string(response.get("output")))
        else:
            texts.append(string(part.get("text")) or ("[image]" if "inlineData" in part else ""))
    return "\n".join(filter(None, texts))


def _outcome(given: str) -> tuple[str, bool]:
    """What a tool gave back without the frame around a command's output, and whether it didn't work."""
    text = given.strip().removeprefix(_WRAPPED[0]).removesuffix(_WRAPPED[1]).strip()
    framed = _OUTPUT.search(text) if text.startswith(("Output: ", "Command: ")) else None
    if framed is None:
        return text, text.startswith("Error: ")
    output, code = text[framed.end() :].split("\n"), None
    errors: list[str] = []
    while output and output[-1].startswith(_ENDED):
        line = output.pop()
        if found := _CODE.match(line):
            code = int(found[1])
        elif line.startswith("Error: ") and line != "Error: (none)":
            errors.append(line.removeprefix("Error: "))
    told = "\n".join([*output, *reversed(errors)]).strip().removeprefix("(empty)").strip()
    return told, is_failure(code, told)
