"""How clients start Recollect: what is written into their files, and how it is known again there."""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

NAME = "recollect"
MODULE = ("-m", NAME)
VARIABLE = "RECOLLECT_HOME"
_IN_A_LINE = re.compile(r"""(?:^|[\s"'/\\])recollect(?:\.exe)?["']?\s+(?P<rest>\S.*)$""")


@dataclass(frozen=True, slots=True)
class Program:
    """A command and its first arguments. `portable`: it means the same on every machine that has Recollect."""

    command: str
    arguments: tuple[str, ...] = ()
    portable: bool = True

    def calling(self, *words: str) -> list[str]:
        """All arguments of a call."""
        return [*self.arguments, *words]

    def line(self, *words: str) -> str:
        """For a shell, where a client takes nothing else."""
        return " ".join(_quoted(word) for word in (self.command, *self.calling(*words)))


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


def called_with(command: Any, arguments: Any) -> list[str] | None:
    """What Recollect is called with; None where it is another program that is called."""
    if not isinstance(command, str):
        return None
    words = [word for word in arguments if isinstance(word, str)] if isinstance(arguments, list) else []
    if _stem(command) == NAME:
        return _without_home(words)
    if tuple(words[:2]) == MODULE:
        return _without_home(words[2:])
    if not words and (found := _IN_A_LINE.search(command)):
        return _without_home(found["rest"].split())
    return None


def _without_home(words: list[str]) -> list[str]:
    return words[2:] if words[:1] == ["--home"] else words


def _stem(command: str) -> str:
    name = PureWindowsPath(command).name if "\\" in command else PurePosixPath(command).name
    return name.lower().removesuffix(".exe")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other) or filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def _quoted(word: str) -> str:
    """Double quotes mean the same to every shell that a client may use."""
    if re.fullmatch(r"[\w@%+=:,./\\-]+", word) and not (os.name != "nt" and "\\" in word):
        return word
    return '"' + re.sub(r'(["$`\\])' if os.name != "nt" else r'(")', r"\\\1", word) + '"'
