"""What an item of a Codex session says happened. Items have the form of OpenAI's Responses API."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from mindhold.ports.transcripts import Role, Step
from mindhold.providers.transcripts.entries import Entry, string, without_inserted
from mindhold.providers.transcripts.steps import Place, said
from mindhold.providers.transcripts.told import asked, first_of, gave, is_failure, short

_PATCH = "*** Begin Patch"
_ABOUT = ("cmd", "command", "path", "query", "url", "question", "message")
_SHELLS = re.compile(r"(?:.*[\\/])?(?:bash|zsh|sh|pwsh|powershell|cmd)(?:\.exe)?\Z", re.IGNORECASE)
_SCRIPT_FLAGS = ("-lc", "-c", "-Command", "/c")
# How texts begin that the program put into a person's mouth.
_NOT_SPOKEN = re.compile(
    r"# AGENTS\.md instructions|Another language model started to solve this problem|"
    r"Warning: (?:The maximum number of unified exec|apply_patch was requested|Your account was flagged)|"
    r"</?(?:user_instructions|environment_context|user_shell_command|turn_aborted|subagent_notification|goal_context|"
    r"codex_internal_context|recommended_plugins|hook_prompt|skill|external_[\w.-]+|user_action|image|audio)\b"
)
_REQUEST = "## My request for Codex:"  # what an editor sends along stands before it
_CWD = re.compile(r"<cwd>([^<\n]+)</cwd>|Current working directory: ([^\n]+)")
_FILES = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)
_FRAME = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Duration|Total output lines|Original token count|Process exited|Process running"
    r"|Script)\b[^\n]*\n)+(?:Output:(?:\n|\Z))?"
)
_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,10})\b", re.MULTILINE)
_BROKE = re.compile(
    r"(?:[\w./-]+ (?:verification )?failed\b|failed (?:to|in|for)\b|execution error\b|unsupported \w+ ?call\b|err(?:or)?:)",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"[^\n]{0,80}\b(?:rejected|aborted|declined) by (?:the )?user\b", re.IGNORECASE)


def steps_in(item: Entry, place: Place, tools: dict[str, str]) -> Iterator[Step]:
    """In order. `tools` has the names of tools by the calls' ids, and gains those of this item."""
    kind = item.get("type")
    if kind == "message":
        if step := _message(item, place):
            yield step
    elif kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
        yield _asked(item, place, tools)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        call = short(item.get("call_id"))
        text, code = _output(item.get("output"))
        refused = _REFUSED.match(text) is not None
        failed = not refused and (is_failure(code, text) or _failed(item.get("output"), text, code))
        yield gave(text, failed=failed, tool=tools.get(call, ""), call=call, place=place)


def cwd_in(item: Entry) -> str:
    """The folder that was worked in, where the program told the model of it."""
    for text, _ in _texts(item) if item.get("role") == "user" else ():
        if text.lstrip().startswith("<environment_context>") and (found := _CWD.search(text)):
            return (found[1] or found[2]).strip()
    return ""


def _message(item: Entry, place: Place) -> Step | None:
    role = item.get("role")
    if role == "assistant":
        text = "\n\n".join(filter(None, (text.strip() for text, _ in _texts(item))))
        return said(Role.CLAUDE, text, place) if text else None
    if role != "user":
        return None
    spoken = (
        _spoken(text) for text, kind in _texts(item) if not kind or kind.startswith(("user.", "unknown"))
    )
    text = "\n\n".join(filter(None, spoken))
    return said(Role.USER, text, place) if text else None


def _spoken(text: str) -> str:
    """What a person typed of a text."""
    if _NOT_SPOKEN.match(text.lstrip()):
        return ""
    return without_inserted(text.rpartition(_REQUEST)[2])


def _texts(item: Entry) -> Iterator[tuple[str, str]]:
    """The texts of a message, and of which kind each is, where that is told."""
    content, told = item.get("content"), item.get("internal_chat_message_metadata_passthrough")
    if isinstance(content, str):
        yield content, ""
        return
    kinds = told.get("content_item_kinds") if isinstance(told, dict) else None
    for number, part in enumerate(content if isinstance(content, list) else ()):
        text = string(part.get("text")) if isinstance(part, dict) else ""
        if text:
            known = isinstance(kinds, list) and number < len(kinds)
            yield text, string(kinds[number]) if known and kinds else ""


def _asked(item: Entry, place: Place, tools: dict[str, str]) -> Step:
    name, given = _name(item), _given(item)
    about = _patched(item, given) or _command(given.get("command")) or first_of(given, _ABOUT)
    if name == "web_search" and not about and isinstance(queries := given.get("queries"), list):
        about = "\n".join(filter(None, map(string, queries)))
    call = short(item.get("call_id") or item.get("id"))
    if call:
        tools[call] = name
    return asked(name, about or string(item.get("input")), given, call=call, place=place)


def _name(item: Entry) -> str:
    kind, space = item.get("type"), string(item.get("namespace"))
    if kind == "local_shell_call":
        return "local_shell"
    if kind == "web_search_call":
        return "web_search"
    name = string(item.get("name"))
    if space in ("", "functions") or name.startswith(space):
        return short(name)
    return short(space + name if space.endswith("__") else f"{space}__{name}")


def _given(item: Entry) -> Mapping[str, Any]:
    given = item.get("action", item.get("arguments"))
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = {"arguments": given}
    return given if isinstance(given, dict) else {}


def _command(command: Any) -> str:
    """A command as a person would type it, without the shell that runs it."""
    if isinstance(command, str):
        return command.strip()
    words = [string(word) for word in command] if isinstance(command, list) else []
    if len(words) > 2 and _SHELLS.match(words[0]) and words[-2] in _SCRIPT_FLAGS:
        return words[-1].strip()
    return shlex.join(words)


def _patched(item: Entry, given: Mapping[str, Any]) -> str:
    """The files that a patch is of, however it was handed over; empty when it is none."""
    patch = (
        string(item.get("input"))
        or _command(given.get("command"))
        or first_of(given, ("cmd", "input", "patch"))
    )
    return "\n".join(_FILES.findall(patch)) if _PATCH in patch else ""


def _output(output: Any) -> tuple[str, int | None]:
    """What a tool gave back, and the exit code of a command."""
    if isinstance(output, dict):
        return _output(output.get("content", output.get("body")))
    if isinstance(output, list):
        parts = (part for part in output if isinstance(part, dict))
        texts = (string(part.get("text")) or ("[image]" if "image_url" in part else "") for part in parts)
        return _output("\n".join(filter(None, texts)))
    text = string(output)
    if text.startswith('{"output"'):
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            return text, None
        about = told.get("metadata")
        code = about.get("exit_code") if isinstance(about, dict) else None
        return string(told.get("output")), code if isinstance(code, int) else None
    frame = _FRAME.match(text)
    if frame is None:
        return text, None
    found = _CODE.search(frame[0])
    return text[frame.end() :], int(found[1]) if found else None


def _failed(output: Any, text: str, code: int | None) -> bool:
    """Whether it is told otherwise than by an exit code."""
    told = output.get("success") if isinstance(output, dict) else None
    return told is False or (code is None and told is None and _BROKE.match(text) is not None)
