"""A failure that waits to be mended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindhold.engine.capture.rules.deeds import bare, environment, purpose_of
from mindhold.engine.text.expression import Expression
from mindhold.model.error_signs import error_signs

MOST_FILES = 3
MOST_TRIES = 2
LONGEST_TOLD = 140

# What tells of a slip in the command itself, not of anything that could be mended.
# Failures of the call itself, which another call mends.
_MISCALLED = Expression(
    r"command not found|missing script|unknown|unrecognized|no such (?:option|command)|no module named|not recognized|invalid (?:option|choice|value)|unexpected argument"
)
_LACKING = Expression(
    r"no module named|cannot find (?:module|package)|not found|not set|not installed|is missing|econnrefused|connection refused|does not exist"
)
_THROWN = Expression(r"[\w.]*\w(?:error|exception)\b", re.IGNORECASE)
_TRIVIAL = Expression(
    r"parse error near|no matches found|unexpected eof|syntax error near|unexpected token|unknown (?:file attribute|option|flag)|usage:|no such file or directory|not a directory|is a directory|permission denied|cannot access|nothing to commit"
    r"|pathspec|already exists|did not match any|no such (?:remote|ref)|bad revision|unknown revision|ambiguous argument|not a git repository|no changes added|command not found: (?:timeout|tree|rg|fd|jq|gh|tac|column)"
)


_EDITED = "Fixed by editing"


@dataclass(slots=True)
class Trouble:
    """A failure that waits to be mended. Plain values: it is carried to the next call."""

    key: str
    command: str
    told: str  # its most telling line, as it stood
    signs: list[str]
    line: int
    files: list[str] = field(default_factory=list)
    tries: list[str] = field(default_factory=list)  # commands that changed something since
    reported: str = ""  # what was written down of it while it was open

    def as_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "command": self.command[:200],
            "told": self.told,
            "signs": self.signs[:3],
            "line": self.line,
            "files": self.files[:MOST_FILES],
            "tries": self.tries[-MOST_TRIES:],
            "reported": self.reported,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Trouble:
        """Raises KeyError, TypeError for what is none."""
        return cls(
            key=str(value["key"]),
            command=str(value["command"]),
            told=str(value["told"]),
            signs=[str(sign) for sign in value["signs"]],
            line=int(value["line"]),
            files=[str(name) for name in value.get("files", ())],
            tries=[str(name) for name in value.get("tries", ())],
            reported=str(value.get("reported", "")),
        )


def is_slip(sign: str) -> bool:
    """Whether it tells of a slip in the command alone. What a program throws is none, whatever it says."""
    return _TRIVIAL.search(sign) is not None and _THROWN.match(sign) is None


def telling_line(answer: str, signs: Sequence[str]) -> str:
    """The line that the first sign was made of, as it stood."""
    for line in answer.splitlines():
        if signs[0] in error_signs(line):
            found = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", line).split())
            found = re.sub(r"^.*?\b(?:error|err)=\"?(?=[A-Za-z])", "", found)
            found = re.sub(r"^(?:E\s+|\[\w+\]\s+|[│|>×✖]\s*)+", "", found)
            return found if len(found) <= LONGEST_TOLD else found[:LONGEST_TOLD].rsplit(" ", 1)[0] + "…"
    return signs[0]


def edited(how: str) -> bool:
    """Whether it only says where something was changed."""
    return how.startswith(_EDITED)


def how_mended(trouble: Trouble, command: str) -> str:
    """By an edit, another call or a command; where something was not there, rather by the command that brought it."""
    lacked = trouble.tries and _LACKING.search(" ".join(trouble.signs))
    if trouble.files and not lacked:
        names_ = [f"`{name}`" for name in trouble.files[-MOST_FILES:]]
        return f"{_EDITED} {', '.join(names_)}."
    if (
        bare(command) != bare(trouble.command)
        and purpose_of(command)
        and _MISCALLED.search(" ".join(trouble.signs))
    ):
        return f"Worked as `{shortened(command)}`."
    if bare(command) == bare(trouble.command) and environment(command) not in (
        "",
        environment(trouble.command),
    ):
        return f"Worked as `{shortened(command)}`."
    if trouble.tries:
        return f"Fixed by {' and '.join(f'`{shortened(one)}`' for one in trouble.tries[-MOST_TRIES:])}."
    return ""


def shortened(command: str) -> str:
    command = " ".join(command.split())
    return command if len(command) <= 90 else f"{command[:87]}..."
