"""The page that the API was written against, where it lies beside the project: its endpoints, examples and answers."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "4-claudetask-memory-api.md"
HOST = "http://localhost:3333"

_SECTION = re.compile(r"^### (\d+)\. (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ANSWER = re.compile(
    r"^\*\*(?:Response\*\* \((\d+)[^)]*\)|Local Storage Response\*\*[^\n]*):?\n```json\n(.*?)^```",
    re.MULTILINE | re.DOTALL,
)
_PATTERN = re.compile(r"^### Pattern \d+: (.+?)$(.*?)(?=^### |^## )", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Told:
    """An answer that the page shows."""

    status: int
    fields: Any


@dataclass(frozen=True)
class Endpoint:
    """One of the page's endpoints."""

    number: int
    title: str
    answers: tuple[Told, ...]  # where there are two, the second is that of local projects
    commands: tuple[tuple[str, ...], ...]  # every curl example, in words


def page() -> Path | None:
    """Where it lies; None where it doesn't."""
    for folder in Path(__file__).resolve().parents:
        if (found := folder / "shared" / "specs" / NAME).is_file():
            return found
    return None


def endpoints(text: str) -> list[Endpoint]:
    """In the page's order."""
    parts = _SECTION.split(text)
    return [
        Endpoint(int(number), title, _answers(body), _commands(body))
        for number, title, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    ]


def errors(text: str) -> dict[int, Any]:
    """What the page shows of errors, by status."""
    told = text[text.index("## Error Handling") :]
    found = re.findall(r"^\*\*(\d{3}) [^\n]*\n```json\n(.*?)^```", told, re.MULTILINE | re.DOTALL)
    return {int(status): json.loads(block) for status, block in found}


def programs(text: str) -> dict[str, str]:
    """The examples in Python, by title; those that ask the server."""
    found = {
        title: code
        for title, body in _PATTERN.findall(text)
        for kind, code in _BLOCK.findall(body)
        if kind == "python"
    }
    return {title: code for title, code in found.items() if HOST in code}


def _answers(body: str) -> tuple[Told, ...]:
    found: list[Told] = []
    for status, block in _ANSWER.findall(body.split("\n## ")[0]):
        fields = json.loads(block.replace("[...]", "[]"))
        found.append(Told(int(status) if status else found[-1].status, fields))
    return tuple(found)


def _commands(body: str) -> tuple[tuple[str, ...], ...]:
    blocks = [code for kind, code in _BLOCK.findall(body.split("\n## ")[0]) if kind == "bash"]
    return tuple(command for code in blocks for command in _split(code))


def _split(code: str) -> list[tuple[str, ...]]:
    """The commands of a block: a line's end ends one, unless it is within quotes or after a backslash."""
    found: list[tuple[str, ...]] = []
    waiting = ""
    for line in code.splitlines():
        if line.endswith("\\"):
            waiting += line[:-1]
            continue
        waiting += line + "\n"
        try:
            words = shlex.split(waiting, comments=True)
        except ValueError:  # a quote that goes on
            continue
        if words:
            found.append(tuple(words))
        waiting = ""
    assert not waiting, waiting
    return found
