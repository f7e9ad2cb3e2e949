"""The conversations of Gemini CLI: tmp/<project>/chats/session-<time>-<id>.jsonl in its own folder."""

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
    entries_in,
    moment_of,
    string,
    without_inserted,
)
from mindhold.providers.transcripts.reader import LONGEST_TOLD
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
    entries_of,
    follow_whole,
    head_of,
    is_whole,
    lies_under,
    under,
)

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


def steps_of(
    message: Entry, place: EntryPosition, tools: dict[str, str], answered: set[str]
) -> Iterator[TranscriptStep]:
    """In order. `tools` has the names of tools by the calls' ids, `answered` the calls that have their results."""
    kind, parts = message.get("type"), _parts(message.get("content"))
    if kind == "user":
        yield from _results(parts, place, tools, answered)
        if text := _spoken(_parts(message.get("displayContent")) or parts):
            yield said_step(Role.USER, text, place)
    elif kind == "gemini":
        if text := _texts(parts):
            yield said_step(Role.CLAUDE, text, place)
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


def _called(
    call: Entry, place: EntryPosition, tools: dict[str, str], answered: set[str]
) -> Iterator[TranscriptStep]:
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
    yield result_step(
        output,
        failed=status != "cancelled" and (failed or status == "error"),
        tool=step.tool,
        call=step.call,
        place=place,
    )


def _asked(call: Entry, place: EntryPosition, tools: dict[str, str]) -> TranscriptStep:
    name, given = short(call.get("name")), call.get("args")
    fields: Mapping[str, Any] = given if isinstance(given, dict) else {}
    named = short(call.get("id"))
    if named:
        tools[named] = name
    return call_step(name, first_of(fields, _ABOUT.get(name, ())), fields, call=named, place=place)


def _results(
    parts: list[Block], place: EntryPosition, tools: dict[str, str], answered: set[str]
) -> Iterator[TranscriptStep]:
    """What tools gave back, where only the history tells of it."""
    for part in parts:
        response = part.get("functionResponse")
        if not isinstance(response, dict) or (call := short(response.get("id"))) in answered:
            continue
        answered.add(call)
        tool = tools.get(call) or short(response.get("name"))
        output, failed = _outcome(_given_back([part]))
        yield result_step(output, failed=failed, tool=tool, call=call, place=place)


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


SOURCE = "gemini"
CHATS, ROOT, REGISTRY = "chats", ".project_root", "projects.json"
ENDS = (".jsonl", ".json")
LONGEST_PATH = 4_096
MOST_REGISTRY = 8 << 20


class GeminiTranscripts:
    """What is there at the time of the call."""

    name = SOURCE

    def __init__(self, gemini_dir: Path) -> None:
        self._tmp = gemini_dir / "tmp"
        self._registry = gemini_dir / REGISTRY

    def files(self) -> list[ConversationFile]:
        """All that there are, sub-agents' too; of one that was taken over into a newer form or folder only that."""
        folders = [entry for entry in entries_of(self._tmp) if _is_folder(entry)]
        named = {entry.name: _root_in(Path(entry.path)) for entry in folders}
        newer = {hashlib.sha256(root.encode()).hexdigest(): name for name, root in named.items() if root}
        found = {entry.name: list(_chats(entry)) for entry in folders}
        held: list[ConversationFile] = []
        for name, files in found.items():
            taken = {_stem(file) for file in found.get(newer.get(name, ""), ()) if newer.get(name) != name}
            whole = {_stem(file) for file in files if file.path.suffix == ".jsonl"}
            held += (
                file
                for file in files
                if _stem(file) not in taken and (file.path.suffix == ".jsonl" or _stem(file) not in whole)
            )
        return held

    def roots(self) -> list[Path]:
        """The folder of what Gemini CLI keeps of projects."""
        return [self._tmp] if self._tmp.is_dir() else []

    def owns(self, path: Path) -> bool:
        """Whether a file lies in it."""
        return lies_under(path, [self._tmp])

    def note(self, file: Path) -> str:
        """Gemini CLI writes none."""
        return ""

    def follow(self, file: Path, cursor: TranscriptCursor, *, most_bytes: int) -> TranscriptRead | None:
        """All of it if it changed since the cursor; None when there is no such file."""

        def read(raw: bytes) -> tuple[Sequence[TranscriptStep], TranscriptInfo]:
            session = _Session(file.stem)
            (session.take_object if is_whole(file, raw) else session.take_lines)(raw)
            return session.steps(), session.about(self._project(file))

        return follow_whole(file, cursor, read)

    def _project(self, file: Path) -> str:
        """The folder that was worked in. Where its hash is all there is, it is one of those known, or isn't told."""
        parts = file.relative_to(self._tmp).parts if file.is_relative_to(self._tmp) else ()
        if not parts:
            return ""
        if root := _root_in(self._tmp / parts[0]):
            return root
        for root, name in self._registered():
            if parts[0] == name or parts[0] == hashlib.sha256(root.encode()).hexdigest():
                return root
        return ""

    def _registered(self) -> Iterator[tuple[str, str]]:
        """The projects that Gemini CLI has given names to."""
        try:
            told = from_json(head_of(self._registry, MOST_REGISTRY))
        except ValueError:
            return
        projects = told.get("projects") if isinstance(told, dict) else None
        for root, name in projects.items() if isinstance(projects, dict) else ():
            yield root, string(name)


class _Session:
    """What a session's file says, as it stands at the end of it."""

    def __init__(self, stem: str) -> None:
        self._stem = stem
        self._about: dict[str, Any] = {}
        self._messages: dict[str, tuple[Entry, EntryPosition]] = {}
        self._bad = BadLines()

    def take_lines(self, raw: bytes) -> None:
        """A form that goes on: a last line that isn't whole yet is left."""
        end, lines = 0, raw.split(b"\n")
        for number, line in enumerate(lines, 1):
            end += len(line) + (number < len(lines))
            entries, whole = entries_in(line) if line.strip() else ((), True)
            if not whole and number < len(lines):
                self._bad.note(number)
            for entry in entries if whole or number < len(lines) else ():
                self._record(entry, EntryPosition(number, end))

    def take_object(self, raw: bytes) -> None:
        """The form before that; of one that breaks off, what stands before."""
        members = Members(raw, ("messages",))
        for key, value, place in members:
            if key != "messages":
                self._about[key] = value
            elif isinstance(value, dict):
                self._message(value, place)
        if members.bad:
            self._bad.note(members.bad)

    def _record(self, entry: Entry, place: EntryPosition) -> None:
        update = entry.get("$set")
        if isinstance(back := entry.get("$rewindTo"), str):
            self._rewind(back)
        elif isinstance(entry.get("id"), str):
            self._message(entry, place)
        else:
            told = update if isinstance(update, dict) else entry
            messages = told.get("messages")
            # After the history was shortened this has what is left of it; what was said before stays.
            for message in messages if isinstance(messages, list) else ():
                if isinstance(message, dict) and string(message.get("id")) not in self._messages:
                    self._message(message, place)
            self._about |= {key: value for key, value in told.items() if key != "messages"}

    def _message(self, message: Entry, place: EntryPosition) -> None:
        name = string(message.get("id")) or f"#{len(self._messages)}"
        self._messages[name] = (message, place)

    def _rewind(self, name: str) -> None:
        """A person took back what was said from there on."""
        names = list(self._messages)
        for gone in names[names.index(name) if name in names else 0 :]:
            del self._messages[gone]

    def steps(self) -> list[TranscriptStep]:
        """In order."""
        aside = self._about.get("kind") == "subagent"
        tools: dict[str, str] = {}
        answered: set[str] = set()
        made: list[TranscriptStep] = []
        for message, (line, end, *_) in self._messages.values():
            place = EntryPosition(line, end, moment_of(message), aside)
            made += steps_of(message, place, tools, answered)
        return [step for step in made if not is_ours(step.tool)]

    def about(self, project: str) -> TranscriptInfo:
        """What it says of itself. Its one-line summary is what Gemini CLI lists it by."""
        models = [short(message.get("model")) for message, _ in self._messages.values()]
        title = beginning(string(self._about.get("summary")).strip(), LONGEST_TOLD)
        shared = self._about.get("directories")
        within = next(filter(None, map(string, shared)), "") if isinstance(shared, list) else ""
        about = TranscriptInfo(
            session_id=short(self._about.get("sessionId")) or self._stem,
            cwd=project or within,
            model=next(filter(None, reversed(models)), ""),
            title=title,
            title_by="ai" if title else "",
            ended=self._ended(),
        )
        return self._bad.told_in(about)

    def _ended(self) -> datetime | None:
        moments = [moment_of(message) for message, _ in self._messages.values()]
        told = moment_of({"timestamp": self._about.get("lastUpdated")})
        return max((moment for moment in (*moments, told) if moment), default=None)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _root_in(folder: Path) -> str:
    return head_of(folder / ROOT, LONGEST_PATH).decode("utf-8", "replace").strip()


def _stem(file: ConversationFile) -> tuple[str, str]:
    return file.part_of, file.path.stem


def _chats(folder: os.DirEntry[str]) -> Iterator[ConversationFile]:
    chats = Path(folder.path, CHATS)
    for entry in under(chats, 1):
        parent = Path(entry.path).parent
        part_of = parent.name if parent != chats else ""
        if entry.name.endswith(ENDS) and (part_of or entry.name.startswith("session-")):
            file = conversation(entry, SOURCE, folder=folder.name, part_of=part_of)
            if file:
                yield file
