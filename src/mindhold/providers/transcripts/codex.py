"""The conversations of Codex CLI: sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl in its own folder."""

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
    LONGEST_NAME,
    BadLines,
    Entry,
    TranscriptLine,
    entries_in,
    moment_of,
    read_line,
    string,
    without_inserted,
)
from mindhold.providers.transcripts.reader import LONGEST_TOLD, NEAR, follow_with, latest_of
from mindhold.providers.transcripts.steps import (
    EntryPosition,
    call_step,
    first_of,
    is_failure,
    is_ours,
    result_step,
    said_step,
    short,
)
from mindhold.providers.transcripts.whole_files import (
    Members,
    conversation,
    follow_whole,
    head_of,
    is_whole,
    lies_under,
    under,
)

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


def steps_in(item: Entry, place: EntryPosition, tools: dict[str, str]) -> Iterator[TranscriptStep]:
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
        yield result_step(text, failed=failed, tool=tools.get(call, ""), call=call, place=place)


def cwd_in(item: Entry) -> str:
    """The folder that was worked in, where the program told the model of it."""
    for text, _ in _texts(item) if item.get("role") == "user" else ():
        if text.lstrip().startswith("<environment_context>") and (found := _CWD.search(text)):
            return (found[1] or found[2]).strip()
    return ""


def _message(item: Entry, place: EntryPosition) -> TranscriptStep | None:
    role = item.get("role")
    if role == "assistant":
        text = "\n\n".join(filter(None, (text.strip() for text, _ in _texts(item))))
        return said_step(Role.CLAUDE, text, place) if text else None
    if role != "user":
        return None
    spoken = (
        _spoken(text) for text, kind in _texts(item) if not kind or kind.startswith(("user.", "unknown"))
    )
    text = "\n\n".join(filter(None, spoken))
    return said_step(Role.USER, text, place) if text else None


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


def _asked(item: Entry, place: EntryPosition, tools: dict[str, str]) -> TranscriptStep:
    name, given = _name(item), _given(item)
    about = _patched(item, given) or _command(given.get("command")) or first_of(given, _ABOUT)
    if name == "web_search" and not about and isinstance(queries := given.get("queries"), list):
        about = "\n".join(filter(None, map(string, queries)))
    call = short(item.get("call_id") or item.get("id"))
    if call:
        tools[call] = name
    return call_step(name, about or string(item.get("input")), given, call=call, place=place)


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


SOURCE = "codex"
FOLDERS = ("sessions", "archived_sessions")
NAMES = "session_index.jsonl"  # what people called their sessions
DEEPEST = 4
HEAD = 4_096  # of a file: whose sub-agent's it is stands at its beginning
MOST_NAMES = 8 << 20
MOST_PARENTS = 10_000  # that are remembered
_PARENT = re.compile(rb'"parent_thread_id"\s*:\s*"([^"\\]{1,200})"')
_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CALL = re.compile(rb'"call_id"\s*:\s*"([^"\\]{1,200})"')


class CodexTranscripts:
    """What is there at the time of the call."""

    name = SOURCE

    def __init__(self, codex_dir: Path) -> None:
        self._folders = [codex_dir / name for name in FOLDERS]
        self._names = codex_dir / NAMES
        self._titles: dict[str, str] = {}
        self._titles_of = (0, 0)  # when the names were written, and their size
        self._parents: dict[str, str] = {}  # by files: how one begins never changes

    def files(self) -> list[ConversationFile]:
        """All that there are, sub-agents' too."""
        found = (
            conversation(entry, SOURCE, part_of=self._parent(entry.path))
            for folder in self._folders
            for entry in under(folder, DEEPEST)
            if entry.name.startswith("rollout-") and entry.name.endswith((".jsonl", ".json"))
        )
        return [file for file in found if file]

    def roots(self) -> list[Path]:
        """The folders of sessions, of those that are there."""
        return [folder for folder in self._folders if folder.is_dir()]

    def owns(self, path: Path) -> bool:
        """Whether a file lies in one of them."""
        return lies_under(path, self._folders)

    def note(self, file: Path) -> str:
        """Codex writes none."""
        return ""

    def follow(self, file: Path, cursor: TranscriptCursor, *, most_bytes: int) -> TranscriptRead | None:
        """At most about so many bytes after the cursor, whole lines; None when there is no such file."""
        if is_whole(file, head_of(file, HEAD)):
            followed = follow_whole(file, cursor, _read)
        else:
            followed = follow_with(file, cursor, _Piece, most_bytes=most_bytes)
        if followed is None:
            return None
        found = _ID.search(file.stem)
        session = followed.about.session_id or (found[0] if found else file.stem)
        title = self._title(session)
        about = replace(followed.about, session_id=session, title=title, title_by="custom" if title else "")
        return replace(followed, about=about)

    def _parent(self, path: str) -> str:
        """The session whose sub-agent's it is; a session of a person's names none."""
        if path not in self._parents:
            head = head_of(path, HEAD) if path.endswith(".jsonl") else b""
            found = _PARENT.search(head.partition(b'"base_instructions"')[0])
            if len(head) < HEAD and b"\n" not in head:  # being written, or another form
                return ""
            if len(self._parents) >= MOST_PARENTS:
                self._parents.clear()
            self._parents[path] = found[1].decode("utf-8", "replace") if found else ""
        return self._parents[path]

    def _title(self, session: str) -> str:
        """What the session was called last."""
        with suppress(OSError):
            facts = self._names.stat()
            if (facts.st_mtime_ns, facts.st_size) != self._titles_of:
                self._titles = dict(_titles(head_of(self._names, MOST_NAMES)))
                self._titles_of = (facts.st_mtime_ns, facts.st_size)
            return self._titles.get(session, "")
        return ""


class _Piece:
    """What was taken of the lines after a cursor. What the session is, its first line says."""

    def __init__(self, stream: BinaryIO, cursor: TranscriptCursor) -> None:
        self.line = cursor.line
        self.latest = latest_of(cursor.mark)
        self._session = _Session(_first(stream))
        self._offset = cursor.offset
        self._steps: list[TranscriptStep] = []
        self._tools: dict[str, str] = {}
        self._bad = BadLines()

    @property
    def cwd(self) -> str:
        return self._session.cwd

    def take(self, line: TranscriptLine, *, end: int, within: bool) -> bool:
        """Whether it is whole; else nothing of it was taken."""
        entries, whole = entries_in(line.raw) if line.held else ((), False)
        if not whole and not line.ended:
            return False
        self.line += not within
        if not whole:
            self._bad.note(self.line, too_long=not line.held)
        for entry in entries:
            moment = moment_of(entry) or self._session.began
            place = EntryPosition(self.line, end, moment, self._session.aside)
            self._steps += self._session.take(entry, place, self._tools)
            if moment is not None:
                self.latest = max(self.latest or moment, moment)
        return True

    def steps(self, stream: BinaryIO) -> tuple[TranscriptStep, ...]:
        """What happened, with the names of tools that were called before the piece."""
        asking = {
            step.call for step in self._steps if step.role is Role.RESULT and not step.tool and step.call
        }
        if asking and self._offset:
            self._tools |= _called(stream, asking, before=self._offset)
        named = (
            replace(step, tool=self._tools.get(step.call, "")) if step.role is Role.RESULT else step
            for step in self._steps
        )
        return tuple(step for step in named if not is_ours(step.tool))

    def about(self) -> TranscriptInfo:
        """What was said about the conversation itself."""
        return self._bad.told_in(replace(self._session.about(), ended=self.latest))


class _Session:
    """What a session is, as its beginning says, and what of its lines counts."""

    def __init__(self, meta: Mapping[str, Any]) -> None:
        self.id = string(meta.get("id"))[:LONGEST_NAME]
        self.cwd = string(meta.get("cwd"))
        self.began = moment_of(meta)
        self.aside = bool(meta.get("parent_thread_id"))
        self._model = ""
        source = meta.get("source")
        kind: Any = source if isinstance(source, dict) else {}
        # What Codex asks a model for its own ends is no conversation.
        self._silent = "internal" in kind or kind.get("subagent") in ("compact", "memory_consolidation")
        inherited = meta.get("subagent_history_start_ordinal")
        self._first = inherited if isinstance(inherited, int) else 0

    def take(self, entry: Entry, place: EntryPosition, tools: dict[str, str]) -> Iterator[TranscriptStep]:
        """What happened, as one line says."""
        kind, payload = entry.get("type"), entry.get("payload")
        item: Entry = payload if isinstance(payload, dict) else entry
        ordinal = entry.get("ordinal")
        if self._silent or (isinstance(ordinal, int) and ordinal < self._first):
            return
        if kind == "turn_context":
            self._model = string(item.get("model"))[:LONGEST_NAME] or self._model
        elif kind == "response_item" or item is entry:  # earlier versions wrote the item itself
            self.cwd = self.cwd or cwd_in(item)
            yield from steps_in(item, place, tools)

    def about(self) -> TranscriptInfo:
        return TranscriptInfo(session_id=self.id, cwd=self.cwd, model=self._model)


def _first(stream: BinaryIO) -> Mapping[str, Any]:
    """What the first line says of the session; nothing where it says nothing."""
    stream.seek(0)
    line = read_line(stream, most=0)
    entry = next(iter(entries_in(line.raw)[0]), None) if line and line.held else None
    if entry is None or "type" not in entry:  # earlier versions wrote what it is as such
        return entry or {}
    payload = entry.get("payload")
    return payload if entry.get("type") == "session_meta" and isinstance(payload, dict) else {}


def _called(stream: BinaryIO, calls: set[str], *, before: int) -> dict[str, str]:
    """The names of tools by calls that stand before a piece; no further back than NEAR."""
    tools: dict[str, str] = {}
    sought = {call.encode("utf-8", "surrogatepass") for call in calls}
    place = max(0, before - NEAR)
    stream.seek(place)
    while place < before and (line := read_line(stream, most=sys.maxsize)):
        if sought.intersection(_CALL.findall(line.raw)):
            for entry in entries_in(line.raw)[0]:
                for _ in _Session({}).take(entry, EntryPosition(0, 0), tools):
                    pass
        place += line.size
    return {call: name for call, name in tools.items() if call in calls}


def _read(raw: bytes) -> tuple[Sequence[TranscriptStep], TranscriptInfo]:
    """A session that is one object: what it is, and its items."""
    members = Members(raw, ("items",))
    session, tools, steps = _Session({}), dict[str, str](), list[TranscriptStep]()
    ended: datetime | None = None
    for key, value, place in members:
        if not isinstance(value, dict):
            continue
        if key == "session":
            session = _Session(value)
            ended = session.began
        elif key == "items":
            steps += session.take(value, EntryPosition(place.line, place.end, session.began), tools)
    about = replace(session.about(), bad_lines=(members.bad,) if members.bad else (), ended=ended)
    return [step for step in steps if not is_ours(step.tool)], about


def _titles(raw: bytes) -> Iterator[tuple[str, str]]:
    for line in raw.splitlines():
        for entry in entries_in(line)[0]:
            if session := string(entry.get("id")):
                yield session, beginning(string(entry.get("thread_name")).strip(), LONGEST_TOLD)
