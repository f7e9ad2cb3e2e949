"""Conversations as Claude Code writes them down, for tests of capture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def user(text: str, **more: Any) -> Line:
    return _entry("user", text, more)


def claude(text: str, **more: Any) -> Line:
    return _entry("assistant", [{"type": "text", "text": text}], more)


def ran(command: str, output: str, *, call: str, failed: bool = False) -> list[Line]:
    """A command, and what came of it."""
    use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}
    answer = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": failed}
    return [_entry("assistant", [use], {}), _entry("user", [answer], {})]


def write(file: Path, *lines: Line) -> Path:
    """All of the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def append(file: Path, *lines: Line) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


def _entry(role: str, content: Any, more: dict[str, Any]) -> Line:
    message = {"role": role, "content": content, "model": "claude-opus-5-5"}
    entry = {"type": role, "message": message, "isSidechain": False, "sessionId": "s", "cwd": "/code"}
    return entry | {"timestamp": "2026-03-02T10:00:00.000Z"} | more
