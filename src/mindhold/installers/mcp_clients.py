"""The MCP clients that can be connected, how they start Mindhold, and the server entry in their JSON or TOML."""

from __future__ import annotations

import filecmp
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from mindhold.installers.config_text import (
    JsonText,
    KeyPath,
    line_ending,
    parse_toml,
    parse_toml_file,
    remove_table,
    render,
    set_values,
    toml_entry,
)
from mindhold.installers.files import (
    SERVER,
    TABLE,
    FileChange,
    InsertionNotes,
    encode_text,
    errors_name_file,
    insertion_note,
    parse_json_file,
    read,
    remove_empty,
)
from mindhold.model.errors import Conflict, InvalidInput, Refused
from mindhold.model.host import ClientFolders

NAME = "mindhold"
MODULE = ("-m", NAME)
HOME_VARIABLE = "MINDHOLD_HOME"
# Options that may precede the command, without and with a value.
_FLAGS = frozenset(("-v", "--verbose", "-q", "--quiet", "--json", "--no-color"))
_WITH_VALUE = ("--home", "--scope", "--agent")
# Other programs that start it by name: `uvx mindhold mcp`.
_RUNNERS = {"uvx": (NAME,), "uv": ("tool", "run", NAME), "pipx": ("run", NAME)}
_PYTHON = re.compile(r"py(thon|py)?w?[\d.]*")
_OPERATORS = frozenset("();<>|&")
_SUBSTITUTED = re.compile(r"(?<!\\)[$`]|[\r\n]")
_WINDOWS_PATH = re.compile(r'"?(?:[A-Za-z]:\\|\\\\)')


@dataclass(frozen=True, slots=True)
class StartCommand:
    """A command and its first arguments. `portable`: it works on every machine that has Mindhold."""

    command: str
    arguments: tuple[str, ...] = ()
    portable: bool = True

    def arguments_for(self, *words: str) -> list[str]:
        """All arguments of a call."""
        return [*self.arguments, *words]

    def line(self, *words: str, windows: bool = os.name == "nt") -> str:
        """A line for a shell, for clients that accept nothing else. Raises Refused if no line works in every shell."""
        return _line((self.command, *self.arguments_for(*words)), windows=windows)

    def hook(self, event: str, *, windows: bool = os.name == "nt") -> dict[str, Any]:
        """The call of a hook, as a handler has it."""
        return handler_call(self.command, self.arguments_for("hook", event), windows=windows)


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A call of Mindhold: the words that start it, the options before the command, and the rest."""

    start: tuple[str, ...]
    options: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def home(self) -> str | None:
        """The home folder in the call."""
        words = (*self.options, *self.words)
        for number, word in enumerate(words):
            if word.startswith("--home="):
                return word.removeprefix("--home=")
            if word == "--home" and number + 1 < len(words):
                return words[number + 1]
        return None


def find_start_command(
    *, executable: str, scripts: Sequence[Path], on_path: str | None, absolute: bool = False
) -> StartCommand:
    """How to start this program: by name if the PATH leads here, else by path.

    `scripts` are possible locations of this environment's script. `absolute` is for clients without the user's PATH.
    """
    script = next((candidate for candidate in scripts if candidate.is_file()), None)
    if script is not None and on_path is not None and _is_same_file(Path(on_path), script):
        # the name on the PATH survives an upgrade; its target may not
        return StartCommand(str(Path(on_path).absolute()), portable=False) if absolute else StartCommand(NAME)
    if script is not None:
        return StartCommand(str(script), portable=False)
    return StartCommand(executable, MODULE, portable=False)


def parse_call(command: Any, arguments: Any) -> CommandCall | None:
    """Parse a call of Mindhold and nothing else; None for other commands. Without arguments the command is a shell line."""
    if not isinstance(command, str):
        return None
    if arguments is None:
        words = _split_line(command)
    elif isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        words = [command, *arguments]
    else:
        return None
    start = _count_start_words(words) if words else 0
    if not start:
        return None
    end = start
    while end < len(words):
        if words[end] in _WITH_VALUE and end + 1 < len(words):
            end += 2
        elif words[end] in _FLAGS or words[end].startswith(tuple(f"{option}=" for option in _WITH_VALUE)):
            end += 1
        else:
            break
    return CommandCall(tuple(words[:start]), tuple(words[start:end]), tuple(words[end:]))


def merge_call(previous: CommandCall, command: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The new call with the options and the runner of the known one."""
    new = parse_call(command, list(arguments))
    if new is None:
        return command, list(arguments)
    first, *more = previous.start if _stem(previous.start[0]) in _RUNNERS else new.start
    return first, [*more, *previous.options, *new.words]


def handler_call(
    command: str, arguments: Sequence[str], *, windows: bool = os.name == "nt"
) -> dict[str, Any]:
    """A call as a hook's handler has it: one line, because Claude Code before 2.1.139 ignores `args`.

    `args` remain for a program that no line calls in every shell of Windows.
    """
    try:
        return {"command": _line((command, *arguments), windows=windows)}
    except Refused:
        return {"command": command, "args": list(arguments)}


def _line(words: Sequence[str], *, windows: bool) -> str:
    return " ".join(_quote(word, windows=windows) for word in words)


def _split_line(line: str) -> list[str]:
    """The words of a line that calls one program; empty if a shell would do more than that."""
    line = line.strip()
    if _SUBSTITUTED.search(line):
        return []
    if _WINDOWS_PATH.match(line):
        line = line.replace("\\", "/")
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # an unclosed quotation
        return []
    return [] if any(word and _OPERATORS.issuperset(word) for word in words) else words


def _count_start_words(words: Sequence[str]) -> int:
    """The number of words that start Mindhold; 0 if they start another program."""
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


def _is_same_file(left: Path, right: Path) -> bool:
    try:
        return left.samefile(right) or filecmp.cmp(left, right, shallow=False)
    except OSError:
        return False


def _quote(word: str, *, windows: bool) -> str:
    """Quote a word. Double quotes work in every shell but Windows' ones, which agree on plain words and forward slashes."""
    if windows:
        word = (_short_path(word) if re.search(r"\s", word) else word).replace("\\", "/")
    if re.fullmatch(r"[\w@%+=:,./-]+" if not windows else r"[\w%+=:,./-][\w@%+=:,./~-]*", word):
        return word
    if windows:
        raise Refused(
            f"{word} can't be called by a line that both PowerShell and Git Bash understand.",
            advice="Put mindhold on the PATH, or leave out the status line.",
        )
    return '"' + re.sub(r'(["$`\\])', r"\\\1", word) + '"'


def _short_path(path: str) -> str:
    """The path that Windows has for programs that know no blanks; the path itself if there is none."""
    if sys.platform != "win32":
        return path
    import ctypes

    buffer = ctypes.create_unicode_buffer(32_768)
    return buffer.value if ctypes.windll.kernel32.GetShortPathNameW(path, buffer, len(buffer)) else path


def server_entry(
    program: StartCommand, *, toolsets: str | None, home: str | None = None, typed: bool = True
) -> dict[str, Any]:
    """The entry that starts the server; `home` is written if it isn't the default."""
    words = program.arguments_for("mcp", *(("--toolsets", toolsets) if toolsets else ()))
    entry: dict[str, Any] = {"type": "stdio"} if typed else {}
    entry |= {"command": program.command, "args": words}
    return entry | ({"env": {HOME_VARIABLE: home}} if home else {})


def server_call(value: Any) -> CommandCall | None:
    """The call, if the entry starts `mindhold mcp`, by any path."""
    call = parse_call(value.get("command"), value.get("args")) if isinstance(value, dict) else None
    return call if call is not None and call.words[:1] == ("mcp",) else None


def is_our_server(value: Any) -> bool:
    """Whether the entry starts `mindhold mcp`."""
    return server_call(value) is not None


def json_change(path: Path, keys: KeyPath, entry: dict[str, Any], *, comments: bool = False) -> FileChange:
    """The file with the entry; an existing one of ours is updated. Raises InvalidInput, Conflict."""
    before = read(path)
    document = parse_json_file(path, before, comments=comments)
    with errors_name_file(path):
        current = document.get(keys)
        if current is None:
            insertion = document.put_member(keys, entry)
            document, note = insertion.document, insertion_note(SERVER, keys, insertion)
        else:
            differences = _find_differences(path, ".".join(map(str, keys)), current, entry)
            if not differences:
                return FileChange(path, before, before)
            for names, value in differences.items():
                document = document.put_member((*keys, *names), value).document
            note = {"do": SERVER, "path": list(keys)}
    return FileChange(path, before, encode_text(document.text, before), (note,), (f"server {keys[-1]}",))


def _find_differences(
    path: Path, name: str, current: Any, entry: dict[str, Any]
) -> dict[tuple[str, ...], Any]:
    """The values to change in an entry of ours, by their keys; what others added stays. Raises Conflict."""
    call = server_call(current)
    if call is None:
        raise Conflict(
            f"{path} has {name} already, and it doesn't start `mindhold mcp`.",
            advice="If it is another way to Mindhold, keep it, and say --no-mcp with init; else take it out first.",
        )
    command, arguments = merge_call(call, entry["command"], entry["args"])
    target = {**entry, "command": command, "args": arguments}
    differences: dict[tuple[str, ...], Any] = {}
    for member, value in target.items():
        if isinstance(value, dict) and isinstance(current.get(member), dict):
            inner = current[member]
            differences |= {(member, key): item for key, item in value.items() if inner.get(key) != item}
        elif current.get(member) != value:
            differences[member,] = value
    return differences


def without_server(document: JsonText, keys: KeyPath, notes: InsertionNotes) -> JsonText:
    """The document without the entry, if it is ours."""
    if not is_our_server(document.get(keys)):
        return document
    return remove_empty(document.drop_member(keys, inner=notes.inner), notes, keys[:-1])


def toml_change(path: Path, table: tuple[str, str], entry: dict[str, Any]) -> FileChange:
    """The file with the table, added last; an existing one of ours is updated in place. Raises InvalidInput, Conflict."""
    before = read(path)
    text, value = parse_toml_file(path, before)
    outer = value.get(table[0], {})
    if not isinstance(outer, dict):
        raise InvalidInput(
            f"{path}: {table[0]} should be a table.", advice="Correct it; nothing was written."
        )
    current = outer.get(table[1])
    note: dict[str, Any] = {"do": TABLE, "path": list(table)}
    if current is None:
        note["lead"] = lead = _lead(text)
        after, expected = text + lead + toml_entry(table, entry, eol=line_ending(text)), entry
    else:
        differences = _find_differences(path, ".".join(table), current, entry)
        if not differences:
            return FileChange(path, before, before)
        expected = _merge(current, differences)
        after = set_values(text, table, differences)
    if parse_toml(after) != {**value, table[0]: {**outer, table[1]: expected}}:
        raise InvalidInput(
            f"{path} has {table[0]} in a form that can't be added to.",
            advice="Add by hand what `mindhold connect codex --print` shows; nothing was written.",
        )
    return FileChange(path, before, encode_text(after, before), (note,), (f"server {table[1]}",))


def _merge(current: dict[str, Any], differences: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    merged = dict(current)
    for names, value in differences.items():
        merged[names[0]] = value if len(names) == 1 else {**merged[names[0]], names[1]: value}
    return merged


def _lead(text: str) -> str:
    """The blank lines between the table and the text before it."""
    eol = line_ending(text)
    return "" if not text or text.endswith(eol * 2) else eol if text.endswith("\n") else eol * 2


def without_table(path: Path, text: str, table: tuple[str, ...], *, lead: str = "") -> str:
    """The text without the table and its subtables, if it is ours. Raises InvalidInput for an unknown form."""
    outer = (parse_toml(text) or {}).get(table[0])
    if not isinstance(outer, dict) or not is_our_server(outer.get(table[1])):
        return text
    return remove_table(path, text, table, lead=lead)


TOML = ".toml"


@dataclass(frozen=True, slots=True)
class McpClient:
    """An MCP client. `project` is its file in a project's folder, if any; `typed` entries contain their type, stdio."""

    name: str
    title: str
    section: str
    project: str | None
    typed: bool = True
    comments: bool = False
    after: str = "Start it anew, so that it reads the file."

    def file(self, folders: ClientFolders, folder: Path | None) -> Path:
        """The user's file, or the project's. Raises InvalidInput."""
        if folder is None:
            return _user_file(self.name, folders)
        if self.project is None:
            raise InvalidInput(
                f"{self.title} has no file in a project's folder.", advice="Leave out --project."
            )
        return folder / self.project

    def keys(self) -> tuple[str, str]:
        """The path of the server entry."""
        return self.section, NAME

    def entry(self, program: StartCommand, *, toolsets: str | None, home: str | None) -> dict[str, Any]:
        """The entry that starts the server."""
        return server_entry(program, toolsets=toolsets, home=home, typed=self.typed)

    def change(self, path: Path, entry: dict[str, Any]) -> FileChange:
        """The file with the entry. Raises InvalidInput, Conflict."""
        if path.suffix == TOML:
            return toml_change(path, self.keys(), entry)
        return json_change(path, self.keys(), entry, comments=self.comments)

    def shown(self, path: Path, entry: dict[str, Any]) -> str:
        """The entry as it would look in a file of its own."""
        if path.suffix == TOML:
            return toml_entry(self.keys(), entry)
        return render({self.section: {NAME: entry}}) + "\n"


MCP_CLIENTS = {
    client.name: client
    for client in (
        McpClient("claude", "Claude Code", "mcpServers", ".mcp.json"),
        McpClient("desktop", "Claude Desktop", "mcpServers", None, typed=False),
        McpClient("cursor", "Cursor", "mcpServers", ".cursor/mcp.json"),
        McpClient("vscode", "VS Code", "servers", ".vscode/mcp.json", comments=True),
        McpClient("codex", "Codex", "mcp_servers", ".codex/config.toml", typed=False),
        McpClient("gemini", "Gemini CLI", "mcpServers", ".gemini/settings.json", typed=False, comments=True),
    )
}


def claude_local_keys(folder: Path, identity: str) -> KeyPath:
    """Where Claude Code keeps a server for one user in one project: by the repository's folder, also for worktrees."""
    git = Path(identity)
    root = git.parent if git.name == ".git" else folder.resolve()
    return "projects", root.as_posix(), "mcpServers", NAME


def _user_file(name: str, folders: ClientFolders) -> Path:
    return {
        "claude": folders.claude_json,
        "desktop": folders.programs / "Claude" / "claude_desktop_config.json",
        "cursor": folders.user / ".cursor" / "mcp.json",
        "vscode": folders.programs / "Code" / "User" / "mcp.json",
        "codex": folders.codex / "config.toml",
        "gemini": folders.user / ".gemini" / "settings.json",
    }[name]
