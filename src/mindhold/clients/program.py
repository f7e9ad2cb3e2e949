"""How clients start Mindhold: what is written into their files, and how it is known again there."""

from __future__ import annotations

import filecmp
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from mindhold.model.errors import Refused

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
class Program:
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
class Call:
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
) -> Program:
    """By name where that leads here, else by path. `scripts` are where this environment's script may be.

    `absolute` is for clients that are started without the person's PATH.
    """
    script = next((one for one in scripts if one.is_file()), None)
    if script is not None and on_path is not None and _same(Path(on_path), script):
        # the name on the PATH outlives an upgrade, which what it leads to may not
        return Program(str(Path(on_path).absolute()), portable=False) if absolute else Program(NAME)
    if script is not None:
        return Program(str(script), portable=False)
    return Program(executable, MODULE, portable=False)


def call_of(command: Any, arguments: Any) -> Call | None:
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
    return Call(tuple(words[:start]), tuple(words[start:end]), tuple(words[end:]))


def called_alike(known: Call, command: str, arguments: Sequence[str]) -> tuple[str, list[str]]:
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
