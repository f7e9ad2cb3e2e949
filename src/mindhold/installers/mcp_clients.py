"""The MCP clients that can be connected, how they start Mindhold, and the server entry in their JSON or TOML."""

from __future__ import annotations

import filecmp
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from mindhold.installers.files import (
    SERVER,
    TABLE,
    FileChange,
    InsertionNotes,
    bytes_of,
    errors_name_file,
    insertion_note,
    json_of,
    read,
    remove_empty,
)
from mindhold.installers.json_text import JsonText, KeyPath, render
from mindhold.installers.toml_text import eol_of, parsed, toml_entry, toml_of, with_values, without
from mindhold.model.errors import Conflict, InvalidInput, Refused
from mindhold.model.host import ClientFolders

NAME = "mindhold"
MODULE = ("-m", NAME)
VARIABLE = "MINDHOLD_HOME"
# What may stand before the command, and with what follows it.
_FLAGS = frozenset(("-v", "--verbose", "-q", "--quiet", "--json", "--no-color"))
_WITH_VALUE = ("--home", "--scope", "--agent")
# Others that start it by name: `uvx mindhold mcp`.
_RUNNERS = {"uvx": (NAME,), "uv": ("tool", "run", NAME), "pipx": ("run", NAME)}
_PYTHON = re.compile(r"py(thon|py)?w?[\d.]*")
_OPERATORS = frozenset("();<>|&")
_SUBSTITUTED = re.compile(r"(?<!\\)[$`]|[\r\n]")
_OF_WINDOWS = re.compile(r'"?(?:[A-Za-z]:\\|\\\\)')


@dataclass(frozen=True, slots=True)
class StartCommand:
    """A command and its first arguments. `portable`: it means the same on every machine that has Mindhold."""

    command: str
    arguments: tuple[str, ...] = ()
    portable: bool = True

    def calling(self, *words: str) -> list[str]:
        """All arguments of a call."""
        return [*self.arguments, *words]

    def line(self, *words: str, windows: bool = os.name == "nt") -> str:
        """For a shell, where a client takes nothing else. Raises Refused where no line means the same to every shell."""
        return " ".join(_quoted(word, windows=windows) for word in (self.command, *self.calling(*words)))


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A call of Mindhold: the words that start it, the options that go before the command, and the rest."""

    start: tuple[str, ...]
    options: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def home(self) -> str | None:
        """The home folder that it names."""
        words = (*self.options, *self.words)
        for number, word in enumerate(words):
            if word.startswith("--home="):
                return word.removeprefix("--home=")
            if word == "--home" and number + 1 < len(words):
                return words[number + 1]
        return None


def this_program(
    *, executable: str, scripts: Sequence[Path], on_path: str | None, absolute: bool = False
) -> StartCommand:
    """By name where that leads here, else by path. `scripts` are where this environment's script may be.

    `absolute` is for clients that are started without the person's PATH.
    """
    script = next((one for one in scripts if one.is_file()), None)
    if script is not None and on_path is not None and _same(Path(on_path), script):
        # the name on the PATH outlives an upgrade, which what it leads to may not
        return StartCommand(str(Path(on_path).absolute()), portable=False) if absolute else StartCommand(NAME)
    if script is not None:
        return StartCommand(str(script), portable=False)
    return StartCommand(executable, MODULE, portable=False)


def call_of(command: Any, arguments: Any) -> CommandCall | None:
    """The call, where it is one of Mindhold and of nothing else. Without arguments the command is a shell's line."""
    if not isinstance(command, str):
        return None
    if arguments is None:
        words = _words_of(command)
    elif isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        words = [command, *arguments]
    else:
        return None
    start = _started_by(words) if words else 0
    if not start:
        return None
    end = start
    while end < len(words):
        if words[end] in _WITH_VALUE and end + 1 < len(words):
            end += 2
        elif words[end] in _FLAGS or words[end].startswith(tuple(f"{one}=" for one in _WITH_VALUE)):
            end += 1
        else:
            break
    return CommandCall(tuple(words[:start]), tuple(words[start:end]), tuple(words[end:]))


def is_same_command(known: CommandCall, command: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """A new call, with the options that the known one has, and by the runner that somebody chose for it."""
    new = call_of(command, list(arguments))
    if new is None:
        return command, list(arguments)
    first, *more = known.start if _stem(known.start[0]) in _RUNNERS else new.start
    return first, [*more, *known.options, *new.words]


def _words_of(line: str) -> list[str]:
    """The words of a line that calls one program; none where a shell would do more than that."""
    line = line.strip()
    if _SUBSTITUTED.search(line):
        return []
    if _OF_WINDOWS.match(line):
        line = line.replace("\\", "/")
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # a quotation that doesn't end
        return []
    return [] if any(word and _OPERATORS.issuperset(word) for word in words) else words


def _started_by(words: Sequence[str]) -> int:
    """How many words start Mindhold; 0 where they start another program."""
    stem, rest = _stem(words[0]), tuple(words[1:])
    if stem == NAME:
        return 1
    if _PYTHON.fullmatch(stem) and rest[:2] == MODULE:
        return 3
    runner = _RUNNERS.get(stem)
    if runner and rest[: len(runner) - 1] == runner[:-1] and len(rest) >= len(runner):
        return 1 + len(runner) if rest[len(runner) - 1].partition("@")[0] == NAME else 0
    return 0


def _stem(command: str) -> str:
    name = PureWindowsPath(command).name if "\\" in command else PurePosixPath(command).name
    return name.lower().removesuffix(".exe")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other) or filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def _quoted(word: str, *, windows: bool) -> str:
    """Double quotes mean the same to every shell but those of Windows, which agree on plain words and forward slashes."""
    if windows:
        word = word.replace("\\", "/")
    if re.fullmatch(r"[\w@%+=:,./-]+", word):
        return word
    if windows:
        raise Refused(
            f"{word} can't be called by a line that both PowerShell and Git Bash understand.",
            advice="Put mindhold on the PATH, or leave out the status line.",
        )
    return '"' + re.sub(r'(["$`\\])', r"\\\1", word) + '"'


def server_entry(
    program: StartCommand, *, toolsets: str | None, home: str | None = None, typed: bool = True
) -> dict[str, Any]:
    """What starts the server. `home` is noted where it isn't the usual one."""
    words = program.calling("mcp", *(("--toolsets", toolsets) if toolsets else ()))
    entry: dict[str, Any] = {"type": "stdio"} if typed else {}
    entry |= {"command": program.command, "args": words}
    return entry | ({"env": {VARIABLE: home}} if home else {})


def our_server(value: Any) -> CommandCall | None:
    """The call, if it starts `mindhold mcp`, by whichever path."""
    call = call_of(value.get("command"), value.get("args")) if isinstance(value, dict) else None
    return call if call is not None and call.words[:1] == ("mcp",) else None


def is_our_server(value: Any) -> bool:
    """Whether it does."""
    return our_server(value) is not None


def json_change(path: Path, keys: KeyPath, entry: dict[str, Any], *, comments: bool = False) -> FileChange:
    """The entry at its place; one that is ours is brought up to date. Raises InvalidInput, Conflict."""
    before = read(path)
    document = json_of(path, before, comments=comments)
    with errors_name_file(path):
        known = document.get(keys)
        if known is None:
            put = document.put_member(keys, entry)
            document, note = JsonText(put.text, comments), insertion_note(SERVER, keys, put)
        else:
            differing = _differing(path, ".".join(map(str, keys)), known, entry)
            if not differing:
                return FileChange(path, before, before)
            for names, value in differing.items():
                document = JsonText(document.put_member((*keys, *names), value).text, comments)
            note = {"do": SERVER, "path": list(keys)}
    return FileChange(path, before, bytes_of(document.text, before), (note,), (f"server {keys[-1]}",))


def _differing(path: Path, name: str, known: Any, entry: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    """What is to be another in an entry of ours, by the names that lead there; what others added stays. Raises Conflict."""
    call = our_server(known)
    if call is None:
        raise Conflict(
            f"{path} has {name} already, and it doesn't start `mindhold mcp`.",
            advice="If it is another way to Mindhold, keep it, and say --no-mcp with init; else take it out first.",
        )
    command, arguments = is_same_command(call, entry["command"], entry["args"])
    wanted = {**entry, "command": command, "args": arguments}
    differing: dict[tuple[str, ...], Any] = {}
    for member, value in wanted.items():
        if isinstance(value, dict) and isinstance(known.get(member), dict):
            within = known[member]
            differing |= {(member, key): one for key, one in value.items() if within.get(key) != one}
        elif known.get(member) != value:
            differing[member,] = value
    return differing


def without_server(document: JsonText, keys: KeyPath, notes: InsertionNotes) -> JsonText:
    """Without the entry, if it is ours."""
    if not is_our_server(document.get(keys)):
        return document
    text = document.drop_member(keys, inner=notes.inner)
    return remove_empty(JsonText(text, document.comments), notes, keys[:-1])


def toml_change(path: Path, table: tuple[str, str], entry: dict[str, Any]) -> FileChange:
    """The table, put last; one that is ours is brought up to date where it stands. Raises InvalidInput, Conflict."""
    before = read(path)
    text, value = toml_of(path, before)
    outer = value.get(table[0], {})
    if not isinstance(outer, dict):
        raise InvalidInput(
            f"{path}: {table[0]} should be a table.", advice="Correct it; nothing was written."
        )
    known = outer.get(table[1])
    note: dict[str, Any] = {"do": TABLE, "path": list(table)}
    if known is None:
        note["lead"] = lead = _lead(text)
        after, expected = text + lead + toml_entry(table, entry, eol=eol_of(text)), entry
    else:
        differing = _differing(path, ".".join(table), known, entry)
        if not differing:
            return FileChange(path, before, before)
        expected = _merged(known, differing)
        after = with_values(text, table, differing)
    if parsed(after) != {**value, table[0]: {**outer, table[1]: expected}}:
        raise InvalidInput(
            f"{path} has {table[0]} in a form that can't be added to.",
            advice="Add by hand what `mindhold connect codex --print` shows; nothing was written.",
        )
    return FileChange(path, before, bytes_of(after, before), (note,), (f"server {table[1]}",))


def _merged(known: dict[str, Any], differing: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    merged = dict(known)
    for names, value in differing.items():
        merged[names[0]] = value if len(names) == 1 else {**merged[names[0]], names[1]: value}
    return merged


def _lead(text: str) -> str:
    """What parts the table from what stands before it."""
    eol = eol_of(text)
    return "" if not text or text.endswith(eol * 2) else eol if text.endswith("\n") else eol * 2


def without_table(path: Path, text: str, table: tuple[str, ...], *, lead: str = "") -> str:
    """Without the table and those below it, if it is ours. Raises InvalidInput where it stands in another form."""
    outer = (parsed(text) or {}).get(table[0])
    if not isinstance(outer, dict) or not is_our_server(outer.get(table[1])):
        return text
    return without(path, text, table, lead=lead)


TOML = ".toml"


@dataclass(frozen=True, slots=True)
class McpClient:
    """`project` is its file in a project's folder, if it has one; `typed` entries say that they are stdio."""

    name: str
    title: str
    section: str
    project: str | None
    typed: bool = True
    comments: bool = False
    after: str = "Start it anew, so that it reads the file."

    def file(self, places: ClientFolders, folder: Path | None) -> Path:
        """Of the person, or of the project. Raises InvalidInput."""
        if folder is None:
            return _of_person(self.name, places)
        if self.project is None:
            raise InvalidInput(
                f"{self.title} has no file in a project's folder.", advice="Leave out --project."
            )
        return folder / self.project

    def keys(self) -> tuple[str, str]:
        return self.section, NAME

    def entry(self, program: StartCommand, *, toolsets: str | None, home: str | None) -> dict[str, Any]:
        """What starts the server."""
        return server_entry(program, toolsets=toolsets, home=home, typed=self.typed)

    def change(self, path: Path, entry: dict[str, Any]) -> FileChange:
        """The file with the entry in it. Raises InvalidInput, Conflict."""
        if path.suffix == TOML:
            return toml_change(path, self.keys(), entry)
        return json_change(path, self.keys(), entry, comments=self.comments)

    def shown(self, path: Path, entry: dict[str, Any]) -> str:
        """The entry as it would stand in a file that has nothing else."""
        if path.suffix == TOML:
            return toml_entry(self.keys(), entry)
        return render({self.section: {NAME: entry}}) + "\n"


MCP_CLIENTS = {
    one.name: one
    for one in (
        McpClient("claude", "Claude Code", "mcpServers", ".mcp.json"),
        McpClient("desktop", "Claude Desktop", "mcpServers", None, typed=False),
        McpClient("cursor", "Cursor", "mcpServers", ".cursor/mcp.json"),
        McpClient("vscode", "VS Code", "servers", ".vscode/mcp.json", comments=True),
        McpClient("codex", "Codex", "mcp_servers", ".codex/config.toml", typed=False),
        McpClient("gemini", "Gemini CLI", "mcpServers", ".gemini/settings.json", typed=False, comments=True),
    )
}


def claude_local_keys(folder: Path, identity: str) -> KeyPath:
    """Where Claude Code keeps a server that is one person's in one project: by the repository's folder, worktrees too."""
    git = Path(identity)
    root = git.parent if git.name == ".git" else folder.resolve()
    return "projects", root.as_posix(), "mcpServers", NAME


def _of_person(name: str, places: ClientFolders) -> Path:
    return {
        "claude": places.claude_json,
        "desktop": places.programs / "Claude" / "claude_desktop_config.json",
        "cursor": places.user / ".cursor" / "mcp.json",
        "vscode": places.programs / "Code" / "User" / "mcp.json",
        "codex": places.codex / "config.toml",
        "gemini": places.user / ".gemini" / "settings.json",
    }[name]
