"""The conversations of Gemini CLI: tmp/<project>/chats/session-<time>-<id>.jsonl."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic_core import from_json

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
    BadLines,
    Block,
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
    result_step,
    timestamp_of,
    without_inserted,
)
from mindhold.providers.transcripts.reader import (
    LONGEST_TITLE,
    JsonMembers,
    TranscriptSource,
    describe_file,
    files_under,
    follow_whole,
    is_folder,
    is_one_object,
    list_folder,
    read_head,
)

_SUBJECT_FIELDS: Mapping[str, tuple[str, ...]] = {
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
# Beginnings of texts that the user didn't type as a prompt: commands, and the program's own messages.
_NOT_TYPED = (
    "/",
    "?",
    "<session_context>",
    "<hook_context>",
    "<state_snapshot>",
    "This is the Gemini CLI. We are setting up the context",
)
_OWN_SERVER = "(mindhold MCP Server)"
_WRAPPER = ("<untrusted_context>", "</untrusted_context>")
# A command's result: a heading before the output, and lines behind it that say how it ended.
_OUTPUT_HEADING = re.compile(r"^Output: ", re.MULTILINE)
_STATUS_LINES = ("Error: ", "Exit Code: ", "Signal: ", "Background PIDs: ", "Process Group PGID: ")
_EXIT_CODE = re.compile(r"Exit Code: (-?\d{1,10})\b")


def steps_of(
    message: Entry, position: EntryPosition, tools: dict[str, str], answered: set[str]
) -> Iterator[TranscriptStep]:
    """Yield the steps of a message. `tools` maps call ids to tool names, `answered` holds calls that have their results."""
    kind, parts = message.get("type"), _parts(message.get("content"))
    if kind == "user":
        yield from _results(parts, position, tools, answered)
        if text := _typed_text(_parts(message.get("displayContent")) or parts):
            yield message_step(Role.USER, text, position)
    elif kind == "gemini":
        if text := _join_texts(parts):
            yield message_step(Role.CLAUDE, text, position)
        tool_calls = dicts_in(message.get("toolCalls"))
        for call in tool_calls:
            yield from _call_with_result(call, position, tools, answered)
        if not tool_calls:
            for part in parts:
                if isinstance(function_call := part.get("functionCall"), dict):
                    yield _call_step(function_call, position, tools)


def _parts(content: Any) -> list[Block]:
    """Return the parts of a content, which may be a text, a part or a list of either."""
    items = content if isinstance(content, list) else [content]
    return [
        {"text": part} if isinstance(part, str) else part
        for part in items
        if isinstance(part, str | dict) and part
    ]


def _join_texts(parts: list[Block]) -> str:
    texts = (as_text(part.get("text")).strip() for part in parts if not part.get("thought"))
    return "\n\n".join(filter(None, texts))


def _typed_text(parts: list[Block]) -> str:
    text = _join_texts(parts)
    return "" if text.startswith(_NOT_TYPED) else without_inserted(text)


def _call_with_result(
    call: Entry, position: EntryPosition, tools: dict[str, str], answered: set[str]
) -> Iterator[TranscriptStep]:
    """Yield a tool call and its result."""
    step = _call_step(call, position, tools)
    if as_text(call.get("displayName")).endswith(_OWN_SERVER):
        tools[step.call] = "mindhold__"
        return
    yield step
    status = call.get("status")
    if status not in ("success", "error", "cancelled"):
        return
    text = _result_text(call.get("result")) or as_text(call.get("resultDisplay"))
    output, failed = _parse_outcome(text)
    answered.add(step.call)
    yield result_step(
        output,
        failed=status != "cancelled" and (failed or status == "error"),
        tool=step.tool,
        call=step.call,
        position=position,
    )


def _call_step(call: Entry, position: EntryPosition, tools: dict[str, str]) -> TranscriptStep:
    name, fields = as_name(call.get("name")), as_dict(call.get("args"))
    call_id = as_name(call.get("id"))
    if call_id:
        tools[call_id] = name
    return call_step(
        name, first_text(fields, _SUBJECT_FIELDS.get(name, ())), fields, call=call_id, position=position
    )


def _results(
    parts: list[Block], position: EntryPosition, tools: dict[str, str], answered: set[str]
) -> Iterator[TranscriptStep]:
    """Yield the results of tools that only the history has."""
    for part in parts:
        response = part.get("functionResponse")
        if not isinstance(response, dict) or (call := as_name(response.get("id"))) in answered:
            continue
        answered.add(call)
        tool = tools.get(call) or as_name(response.get("name"))
        output, failed = _parse_outcome(_result_text([part]))
        yield result_step(output, failed=failed, tool=tool, call=call, position=position)


def _result_text(result: Any) -> str:
    """Return the text of a result: the function's response, or the parts themselves."""
    texts: list[str] = []
    for part in _parts(result):
        response = as_dict(part.get("functionResponse")).get("response")
        if isinstance(response, dict):
            error = as_text(response.get("error"))
            texts.append(f"Error: {error}" if error else as_text(response.get("output")))
        else:
            texts.append(as_text(part.get("text")) or ("[image]" if "inlineData" in part else ""))
    return "\n".join(filter(None, texts))


def _parse_outcome(result: str) -> tuple[str, bool]:
    """Return a result without the frame around a command's output, and whether it failed."""
    text = result.strip().removeprefix(_WRAPPER[0]).removesuffix(_WRAPPER[1]).strip()
    heading = _OUTPUT_HEADING.search(text) if text.startswith(("Output: ", "Command: ")) else None
    if heading is None:
        return text, text.startswith("Error: ")
    lines, code = text[heading.end() :].split("\n"), None
    errors: list[str] = []
    while lines and lines[-1].startswith(_STATUS_LINES):
        line = lines.pop()
        if match := _EXIT_CODE.match(line):
            code = int(match[1])
        elif line.startswith("Error: ") and line != "Error: (none)":
            errors.append(line.removeprefix("Error: "))
    cleaned = "\n".join([*lines, *reversed(errors)]).strip().removeprefix("(empty)").strip()
    return cleaned, is_failure(code, cleaned)


SOURCE = "gemini"
CHATS_FOLDER, ROOT_FILE, REGISTRY = "chats", ".project_root", "projects.json"
SUFFIXES = (".jsonl", ".json")
LONGEST_PATH = 4_096
MAX_REGISTRY_BYTES = 8 << 20


class GeminiTranscripts(TranscriptSource):
    """The conversations of Gemini CLI, as they are on disk at each call."""

    name = SOURCE

    def __init__(self, gemini_dir: Path) -> None:
        self._tmp = gemini_dir / "tmp"
        super().__init__([self._tmp])
        self._registry = gemini_dir / REGISTRY

    def files(self) -> list[ConversationFile]:
        """List all files, sub-agents' too; of a session that exists in two formats or folders, only the newer one."""
        folders = [entry for entry in list_folder(self._tmp) if is_folder(entry, follow_symlinks=True)]
        roots = {entry.name: _read_root(Path(entry.path)) for entry in folders}
        named_by_hash = {
            hashlib.sha256(root.encode()).hexdigest(): name for name, root in roots.items() if root
        }
        files_by_folder = {entry.name: list(_chats(entry)) for entry in folders}
        current: list[ConversationFile] = []
        for name, files in files_by_folder.items():
            moved_stems = {
                _session_key(file)
                for file in files_by_folder.get(named_by_hash.get(name, ""), ())
                if named_by_hash.get(name) != name
            }
            jsonl_stems = {_session_key(file) for file in files if file.path.suffix == ".jsonl"}
            current += (
                file
                for file in files
                if _session_key(file) not in moved_stems
                and (file.path.suffix == ".jsonl" or _session_key(file) not in jsonl_stems)
            )
        return current

    def follow(self, file: Path, cursor: TranscriptCursor, *, most_bytes: int) -> TranscriptRead | None:
        """Read the whole file if it changed since the cursor; None when there is no such file."""

        def read(raw: bytes) -> tuple[Sequence[TranscriptStep], TranscriptInfo]:
            session = _Session(file.stem)
            (session.take_object if is_one_object(file, raw) else session.take_lines)(raw)
            return session.steps(), session.about(self._project(file))

        return follow_whole(file, cursor, read)

    def _project(self, file: Path) -> str:
        """Return the working folder; empty where only its hash is stored and no known project matches."""
        parts = file.relative_to(self._tmp).parts if file.is_relative_to(self._tmp) else ()
        if not parts:
            return ""
        if root := _read_root(self._tmp / parts[0]):
            return root
        for root, name in self._registered():
            if parts[0] == name or parts[0] == hashlib.sha256(root.encode()).hexdigest():
                return root
        return ""

    def _registered(self) -> Iterator[tuple[str, str]]:
        """Yield the projects that Gemini CLI has named."""
        try:
            registry = from_json(read_head(self._registry, MAX_REGISTRY_BYTES))
        except ValueError:
            return
        for root, name in as_dict(as_dict(registry).get("projects")).items():
            yield root, as_text(name)


class _Session:
    """A session's file, in its latest state."""

    def __init__(self, stem: str) -> None:
        self._session_key = stem
        self._about: dict[str, Any] = {}
        self._messages: dict[str, tuple[Entry, EntryPosition]] = {}
        self._bad = BadLines()

    def take_lines(self, raw: bytes) -> None:
        """Read a file of lines; an incomplete last line is left out."""
        end, lines = 0, raw.split(b"\n")
        for number, line in enumerate(lines, 1):
            end += len(line) + (number < len(lines))
            entries, complete = parse_line(line) if line.strip() else ((), True)
            if not complete and number < len(lines):
                self._bad.note(number)
            for entry in entries if complete or number < len(lines) else ():
                self._apply(entry, EntryPosition(number, end))

    def take_object(self, raw: bytes) -> None:
        """Read the older format, one object; of one that breaks off, the part before."""
        members = JsonMembers(raw, ("messages",))
        for key, value, position in members:
            if key != "messages":
                self._about[key] = value
            elif isinstance(value, dict):
                self._add_message(value, position)
        if members.bad:
            self._bad.note(members.bad)

    def _apply(self, entry: Entry, position: EntryPosition) -> None:
        update = entry.get("$set")
        if isinstance(message_id := entry.get("$rewindTo"), str):
            self._rewind(message_id)
        elif isinstance(entry.get("id"), str):
            self._add_message(entry, position)
        else:
            fields = update if isinstance(update, dict) else entry
            # After the history was shortened this holds the rest of it; earlier messages stay.
            for message in dicts_in(fields.get("messages")):
                if as_text(message.get("id")) not in self._messages:
                    self._add_message(message, position)
            self._about |= {key: value for key, value in fields.items() if key != "messages"}

    def _add_message(self, message: Entry, position: EntryPosition) -> None:
        name = as_text(message.get("id")) or f"#{len(self._messages)}"
        self._messages[name] = (message, position)

    def _rewind(self, name: str) -> None:
        """Remove the messages that the user took back."""
        names = list(self._messages)
        for message_id in names[names.index(name) if name in names else 0 :]:
            del self._messages[message_id]

    def steps(self) -> list[TranscriptStep]:
        """Return the steps in order."""
        aside = self._about.get("kind") == "subagent"
        tools: dict[str, str] = {}
        answered: set[str] = set()
        all_steps: list[TranscriptStep] = []
        for message, (line, end, *_) in self._messages.values():
            position = EntryPosition(line, end, timestamp_of(message), aside)
            all_steps += steps_of(message, position, tools, answered)
        return [step for step in all_steps if not is_own_tool(step.tool)]

    def about(self, project: str) -> TranscriptInfo:
        """Return the session's details. Its title is the summary that Gemini CLI lists it by."""
        models = [as_name(message.get("model")) for message, _ in self._messages.values()]
        title = beginning(as_text(self._about.get("summary")).strip(), LONGEST_TITLE)
        directories = self._about.get("directories")
        first_directory = (
            next(filter(None, map(as_text, directories)), "") if isinstance(directories, list) else ""
        )
        about = TranscriptInfo(
            session_id=as_name(self._about.get("sessionId")) or self._session_key,
            cwd=project or first_directory,
            model=next(filter(None, reversed(models)), ""),
            title=title,
            title_by="ai" if title else "",
            ended=self._last_time(),
        )
        return self._bad.add_to(about)

    def _last_time(self) -> datetime | None:
        moments = [timestamp_of(message) for message, _ in self._messages.values()]
        updated = timestamp_of({"timestamp": self._about.get("lastUpdated")})
        return max((moment for moment in (*moments, updated) if moment), default=None)


def _read_root(folder: Path) -> str:
    return read_head(folder / ROOT_FILE, LONGEST_PATH).decode("utf-8", "replace").strip()


def _session_key(file: ConversationFile) -> tuple[str, str]:
    return file.part_of, file.path.stem


def _chats(folder: os.DirEntry[str]) -> Iterator[ConversationFile]:
    chats = Path(folder.path, CHATS_FOLDER)
    for entry in files_under(chats, 1):
        parent = Path(entry.path).parent
        part_of = parent.name if parent != chats else ""
        if entry.name.endswith(SUFFIXES) and (part_of or entry.name.startswith("session-")):
            yield from describe_file(entry, SOURCE, folder=folder.name, part_of=part_of)
