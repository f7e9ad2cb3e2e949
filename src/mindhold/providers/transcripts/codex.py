"""The conversations of Codex CLI: sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from mindhold.ports.transcripts import (
    ConversationFile,
    Role,
    TranscriptCursor,
    TranscriptInfo,
    TranscriptRead,
    TranscriptStep,
    beginning,
)
from mindhold.providers.transcripts.entries import (
    Entry,
    EntryPosition,
    as_dict,
    as_name,
    as_text,
    call_step,
    dicts_in,
    first_text,
    is_failure,
    is_own_tool,
    message_step,
    parse_line,
    read_line,
    result_step,
    timestamp_of,
    without_inserted,
)
from mindhold.providers.transcripts.reader import (
    LONGEST_TITLE,
    NEAR_BYTES,
    JsonMembers,
    LineCollector,
    TranscriptSource,
    describe_file,
    files_under,
    follow_whole,
    follow_with,
    is_one_object,
    read_head,
)

_PATCH = "*** Begin Patch"
_SUBJECT_FIELDS = ("cmd", "command", "path", "query", "url", "question", "message")
_SHELLS = re.compile(r"(?:.*[\\/])?(?:bash|zsh|sh|pwsh|powershell|cmd)(?:\.exe)?\Z", re.IGNORECASE)
_SCRIPT_FLAGS = ("-lc", "-c", "-Command", "/c")
# Beginnings of texts that the program inserted in the user's name.
_INSERTED_TEXT = re.compile(
    r"# AGENTS\.md instructions|Another language model started to solve this problem|"
    r"Warning: (?:The maximum number of unified exec|apply_patch was requested|Your account was flagged)|"
    r"</?(?:user_instructions|environment_context|user_shell_command|turn_aborted|subagent_notification|goal_context|"
    r"codex_internal_context|recommended_plugins|hook_prompt|skill|external_[\w.-]+|user_action|image|audio)\b"
)
_REQUEST = "## My request for Codex:"  # an editor puts its context before this heading
_CWD = re.compile(r"<cwd>([^<\n]+)</cwd>|Current working directory: ([^\n]+)")
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)
_OUTPUT_FRAME = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Duration|Total output lines|Original token count|Process exited|Process running"
    r"|Script)\b[^\n]*\n)+(?:Output:(?:\n|\Z))?"
)
_EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,10})\b", re.MULTILINE)
_FAILURE = re.compile(
    r"(?:[\w./-]+ (?:verification )?failed\b|failed (?:to|in|for)\b|execution error\b|unsupported \w+ ?call\b|err(?:or)?:)",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"[^\n]{0,80}\b(?:rejected|aborted|declined) by (?:the )?user\b", re.IGNORECASE)


def steps_in(item: Entry, position: EntryPosition, tools: dict[str, str]) -> Iterator[TranscriptStep]:
    """Yield the steps of an item. `tools` maps call ids to tool names; the item's own calls are added."""
    kind = item.get("type")
    if kind == "message":
        if step := _message_step(item, position):
            yield step
    elif kind in ("function_call", "custom_tool_call", "local_shell_call", "web_search_call"):
        yield _call_step(item, position, tools)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        call = as_name(item.get("call_id"))
        text, code = _output(item.get("output"))
        refused = _REFUSED.match(text) is not None
        failed = not refused and (is_failure(code, text) or _reports_failure(item.get("output"), text, code))
        yield result_step(text, failed=failed, tool=tools.get(call, ""), call=call, position=position)


def cwd_in(item: Entry) -> str:
    """Return the working folder, if this is the message in which the program names it."""
    for text, _ in _texts(item) if item.get("role") == "user" else ():
        if text.lstrip().startswith("<environment_context>") and (match := _CWD.search(text)):
            return (match[1] or match[2]).strip()
    return ""


def _message_step(item: Entry, position: EntryPosition) -> TranscriptStep | None:
    role = item.get("role")
    if role == "assistant":
        text = "\n\n".join(filter(None, (text.strip() for text, _ in _texts(item))))
        return message_step(Role.CLAUDE, text, position) if text else None
    if role != "user":
        return None
    spoken = (
        _typed_text(text) for text, kind in _texts(item) if not kind or kind.startswith(("user.", "unknown"))
    )
    text = "\n\n".join(filter(None, spoken))
    return message_step(Role.USER, text, position) if text else None


def _typed_text(text: str) -> str:
    """Return the part of a text that the user typed."""
    if _INSERTED_TEXT.match(text.lstrip()):
        return ""
    return without_inserted(text.rpartition(_REQUEST)[2])


def _texts(item: Entry) -> Iterator[tuple[str, str]]:
    """Yield the texts of a message, each with its kind where the item says so."""
    content, metadata = item.get("content"), item.get("internal_chat_message_metadata_passthrough")
    if isinstance(content, str):
        yield content, ""
        return
    kinds = as_dict(metadata).get("content_item_kinds")
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if text := as_text(as_dict(part).get("text")):
            has_kind = isinstance(kinds, list) and number < len(kinds)
            yield text, as_text(kinds[number]) if has_kind and kinds else ""


def _call_step(item: Entry, position: EntryPosition, tools: dict[str, str]) -> TranscriptStep:
    name, arguments = _tool_name(item), _arguments(item)
    about = (
        _patched_files(item, arguments)
        or _command(arguments.get("command"))
        or first_text(arguments, _SUBJECT_FIELDS)
    )
    if name == "web_search" and not about and isinstance(queries := arguments.get("queries"), list):
        about = "\n".join(filter(None, map(as_text, queries)))
    call = as_name(item.get("call_id") or item.get("id"))
    if call:
        tools[call] = name
    return call_step(name, about or as_text(item.get("input")), arguments, call=call, position=position)


def _tool_name(item: Entry) -> str:
    kind, space = item.get("type"), as_text(item.get("namespace"))
    if kind == "local_shell_call":
        return "local_shell"
    if kind == "web_search_call":
        return "web_search"
    name = as_text(item.get("name"))
    if space in ("", "functions") or name.startswith(space):
        return as_name(name)
    return as_name(space + name if space.endswith("__") else f"{space}__{name}")


def _arguments(item: Entry) -> Mapping[str, Any]:
    arguments = item.get("action", item.get("arguments"))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {"arguments": arguments}
    return as_dict(arguments)


def _command(command: Any) -> str:
    """Return a command as a user would type it, without the shell that runs it."""
    if isinstance(command, str):
        return command.strip()
    words = [as_text(word) for word in command] if isinstance(command, list) else []
    if len(words) > 2 and _SHELLS.match(words[0]) and words[-2] in _SCRIPT_FLAGS:
        return words[-1].strip()
    return shlex.join(words)


def _patched_files(item: Entry, arguments: Mapping[str, Any]) -> str:
    """Return the files that a patch changes, in whatever form it was passed; empty when it is none."""
    patch = (
        as_text(item.get("input"))
        or _command(arguments.get("command"))
        or first_text(arguments, ("cmd", "input", "patch"))
    )
    return "\n".join(_PATCHED_FILE.findall(patch)) if _PATCH in patch else ""


def _output(output: Any) -> tuple[str, int | None]:
    """Return a tool's output and the exit code of a command."""
    if isinstance(output, dict):
        return _output(output.get("content", output.get("body")))
    if isinstance(output, list):
        texts = (
            as_text(part.get("text")) or ("[image]" if "image_url" in part else "")
            for part in dicts_in(output)
        )
        return _output("\n".join(filter(None, texts)))
    text = as_text(output)
    if text.startswith('{"output"'):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return text, None
        code = as_dict(document.get("metadata")).get("exit_code")
        return as_text(document.get("output")), code if isinstance(code, int) else None
    frame = _OUTPUT_FRAME.match(text)
    if frame is None:
        return text, None
    match = _EXIT_CODE.search(frame[0])
    return text[frame.end() :], int(match[1]) if match else None


def _reports_failure(output: Any, text: str, code: int | None) -> bool:
    """Whether the output reports a failure other than by an exit code."""
    success = as_dict(output).get("success")
    return success is False or (code is None and success is None and _FAILURE.match(text) is not None)


SOURCE = "codex"
FOLDERS = ("sessions", "archived_sessions")
TITLES_FILE = "session_index.jsonl"  # the titles that users gave to sessions
MAX_DEPTH = 4
HEAD_BYTES = 4_096  # bytes of a file that name its parent session
MAX_TITLES_BYTES = 8 << 20
MAX_PARENTS = 10_000  # how many are remembered
_PARENT = re.compile(rb'"parent_thread_id"\s*:\s*"([^"\\]{1,200})"')
_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CALL_ID = re.compile(rb'"call_id"\s*:\s*"([^"\\]{1,200})"')


class CodexTranscripts(TranscriptSource):
    """The conversations of Codex CLI, as they are on disk at each call."""

    name = SOURCE

    def __init__(self, codex_dir: Path) -> None:
        super().__init__([codex_dir / name for name in FOLDERS])
        self._titles_path = codex_dir / TITLES_FILE
        self._titles: dict[str, str] = {}
        self._titles_version = (0, 0)  # modification time and size of the title file
        self._parents: dict[str, str] = {}  # by path: the beginning of a file never changes

    def files(self) -> list[ConversationFile]:
        """List all files, sub-agents' too."""
        return [
            file
            for folder in self._folders
            for entry in files_under(folder, MAX_DEPTH)
            if entry.name.startswith("rollout-") and entry.name.endswith((".jsonl", ".json"))
            for file in describe_file(entry, SOURCE, part_of=self._parent_session(entry.path))
        ]

    def follow(self, file: Path, cursor: TranscriptCursor, *, most_bytes: int) -> TranscriptRead | None:
        """Read about `most_bytes` of whole lines after the cursor; None when there is no such file."""
        if is_one_object(file, read_head(file, HEAD_BYTES)):
            result = follow_whole(file, cursor, _read_whole)
        else:
            result = follow_with(file, cursor, _CodexCollector, most_bytes=most_bytes)
        if result is None:
            return None
        match = _ID.search(file.stem)
        session = result.about.session_id or (match[0] if match else file.stem)
        title = self._title(session)
        about = replace(result.about, session_id=session, title=title, title_by="custom" if title else "")
        return replace(result, about=about)

    def _parent_session(self, path: str) -> str:
        """Return the session whose sub-agent wrote the file; empty for a user's session."""
        if path not in self._parents:
            head = read_head(path, HEAD_BYTES) if path.endswith(".jsonl") else b""
            match = _PARENT.search(head.partition(b'"base_instructions"')[0])
            if len(head) < HEAD_BYTES and b"\n" not in head:  # still being written, or another format
                return ""
            if len(self._parents) >= MAX_PARENTS:
                self._parents.clear()
            self._parents[path] = match[1].decode("utf-8", "replace") if match else ""
        return self._parents[path]

    def _title(self, session: str) -> str:
        """Return the session's last title."""
        with suppress(OSError):
            status = self._titles_path.stat()
            if (status.st_mtime_ns, status.st_size) != self._titles_version:
                self._titles = dict(_titles(read_head(self._titles_path, MAX_TITLES_BYTES)))
                self._titles_version = (status.st_mtime_ns, status.st_size)
            return self._titles.get(session, "")
        return ""


class _CodexCollector(LineCollector):
    """Collects the steps of the lines after a cursor. The first line of the file describes the session."""

    def __init__(self, stream: BinaryIO, cursor: TranscriptCursor) -> None:
        super().__init__(cursor)
        self._session = _Session(_first(stream))
        self.cwd = self._session.cwd
        self._steps: list[TranscriptStep] = []

    def _add_entry(self, entry: Entry, end: int) -> None:
        moment = timestamp_of(entry) or self._session.began
        position = EntryPosition(self.line, end, moment, self._session.aside)
        self._steps += self._session.take(entry, position, self._tools)
        self.cwd = self._session.cwd
        if moment is not None:
            self.latest = max(self.latest or moment, moment)

    def steps(self, stream: BinaryIO) -> tuple[TranscriptStep, ...]:
        unnamed_calls = {
            step.call for step in self._steps if step.role is Role.RESULT and not step.tool and step.call
        }
        if unnamed_calls and self._offset:
            self._tools |= _earlier_tools(stream, unnamed_calls, before=self._offset)
        steps = (
            replace(step, tool=self._tools.get(step.call, "")) if step.role is Role.RESULT else step
            for step in self._steps
        )
        return tuple(step for step in steps if not is_own_tool(step.tool))

    def about(self) -> TranscriptInfo:
        return self._bad.add_to(replace(self._session.about(), ended=self.latest))


class _Session:
    """A session as its first line describes it; it decides which lines count."""

    def __init__(self, meta: Mapping[str, Any]) -> None:
        self.id = as_name(meta.get("id"))
        self.cwd = as_text(meta.get("cwd"))
        self.began = timestamp_of(meta)
        self.aside = bool(meta.get("parent_thread_id"))
        self._model = ""
        source = as_dict(meta.get("source"))
        # Codex's internal calls of a model are no conversation.
        self._is_internal = "internal" in source or source.get("subagent") in (
            "compact",
            "memory_consolidation",
        )
        inherited = meta.get("subagent_history_start_ordinal")
        self._first = inherited if isinstance(inherited, int) else 0

    def take(self, entry: Entry, position: EntryPosition, tools: dict[str, str]) -> Iterator[TranscriptStep]:
        """Yield the steps of one line."""
        kind, payload = entry.get("type"), entry.get("payload")
        item: Entry = payload if isinstance(payload, dict) else entry
        ordinal = entry.get("ordinal")
        if self._is_internal or (isinstance(ordinal, int) and ordinal < self._first):
            return
        if kind == "turn_context":
            self._model = as_name(item.get("model")) or self._model
        elif kind == "response_item" or item is entry:  # earlier versions wrote the item itself
            self.cwd = self.cwd or cwd_in(item)
            yield from steps_in(item, position, tools)

    def about(self) -> TranscriptInfo:
        return TranscriptInfo(session_id=self.id, cwd=self.cwd, model=self._model)


def _first(stream: BinaryIO) -> Mapping[str, Any]:
    """Return the session details of the first line; empty where it has none."""
    stream.seek(0)
    line = read_line(stream, most=0)
    entry = next(iter(parse_line(line.raw)[0]), None) if line and line.is_complete else None
    if entry is None or "type" not in entry:  # earlier versions wrote the details themselves
        return entry or {}
    return as_dict(entry.get("payload")) if entry.get("type") == "session_meta" else {}


def _earlier_tools(stream: BinaryIO, calls: set[str], *, before: int) -> dict[str, str]:
    """Return the tool names of calls before the cursor, searching the last NEAR bytes."""
    tools: dict[str, str] = {}
    call_ids = {call.encode("utf-8", "surrogatepass") for call in calls}
    offset = max(0, before - NEAR_BYTES)
    stream.seek(offset)
    while offset < before and (line := read_line(stream, most=sys.maxsize)):
        if call_ids.intersection(_CALL_ID.findall(line.raw)):
            for entry in parse_line(line.raw)[0]:
                for _ in _Session({}).take(entry, EntryPosition(0, 0), tools):
                    pass
        offset += line.size
    return {call: name for call, name in tools.items() if call in calls}


def _read_whole(raw: bytes) -> tuple[Sequence[TranscriptStep], TranscriptInfo]:
    """Read a session that is one JSON object: its details and its items."""
    members = JsonMembers(raw, ("items",))
    session, tools, steps = _Session({}), dict[str, str](), list[TranscriptStep]()
    ended: datetime | None = None
    for key, value, position in members:
        if not isinstance(value, dict):
            continue
        if key == "session":
            session = _Session(value)
            ended = session.began
        elif key == "items":
            steps += session.take(value, EntryPosition(position.line, position.end, session.began), tools)
    about = replace(session.about(), bad_lines=(members.bad,) if members.bad else (), ended=ended)
    return [step for step in steps if not is_own_tool(step.tool)], about


def _titles(raw: bytes) -> Iterator[tuple[str, str]]:
    for line in raw.splitlines():
        for entry in parse_line(line)[0]:
            if session := as_text(entry.get("id")):
                yield session, beginning(as_text(entry.get("thread_name")).strip(), LONGEST_TITLE)
