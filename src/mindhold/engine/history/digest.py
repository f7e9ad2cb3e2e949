"""What is kept of a tool's output: how it begins, and where something failed, the line that tells it."""

from __future__ import annotations

import re

from mindhold.engine.text.expression import Expression
from mindhold.ports.transcripts import Step, beginning

LONGEST = 300  # characters
_LONGEST_BEGINNING = 160  # of an output that has a telling line too, or that is a file's
_LOOKED_AT = 1_500  # of the beginning
_LONGEST_LINE = 1_000
_FILES = (
    "Read",
    "NotebookRead",
    "Grep",
    "Glob",
    "LS",
)  # what they give back is no news, only which file it is
_COMMANDS = ("Bash", "PowerShell")
_NAMES = ("Error", "Exception", "anic", "atal")  # in a line that names an error
_NAMED = Expression(r"\s*(?:E\s+)?(?:[\w.$:]*(?:Error|Exception|[Pp]anic)\b[^\n:]{0,80}:|fatal:)")
_SIGNS = (*_NAMES, "rror:", "FAIL", "enied", "not found", "No such", "ERR!")
_MOST_TRIED = 20  # lines that may name an error
_NUMBERED = Expression(r"^[^\S\n]*\d+(?:→|\t|: )", re.MULTILINE)


def looked_at(step: Step) -> tuple[str, str]:
    """What the digest of a result is made of, no word of it cut: its beginning, and the line that tells what failed."""
    begun = beginning(step.text.lstrip(), _LOOKED_AT)
    if step.tool in _FILES:
        begun = _NUMBERED.sub("", begun)
    telling = _telling(step.text, failed=step.failed) if step.failed or step.tool in _COMMANDS else ""
    return begun, "" if telling in begun[:_LONGEST_BEGINNING] else telling


def digest_of(begun: str, telling: str, *, tool: str) -> str:
    """Of what was looked at, without secrets by now: at most LONGEST characters on one line."""
    begun = _shown(begun, _LONGEST_BEGINNING if telling or tool in _FILES else LONGEST)
    return f"{begun} … {_shown(telling, LONGEST - len(begun) - 3)}" if telling else begun


def _telling(text: str, *, failed: bool) -> str:
    """The last line that names an error, as tracebacks have it; of what failed else the first that speaks of one."""
    end = len(text)
    for _ in range(_MOST_TRIED):
        place = max(text.rfind(name, 0, end) for name in _NAMES)
        if place < 0:
            break
        line = _line_at(text, place)
        if _NAMED.match(line):
            return beginning(line.strip(), _LONGEST_LINE)
        end = text.rfind("\n", 0, place)
        if end < 0:
            break
    place = min((place for sign in _SIGNS if (place := text.find(sign)) >= 0), default=-1) if failed else -1
    return beginning(_line_at(text, place).strip(), _LONGEST_LINE) if place >= 0 else ""


def _line_at(text: str, place: int) -> str:
    end = text.find("\n", place)
    return text[text.rfind("\n", 0, place) + 1 : end if end >= 0 else len(text)]


def _shown(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
