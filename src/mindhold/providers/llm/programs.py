"""The programs that can be asked for a text: Claude Code and Gemini CLI. What each is told, and how it answers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from mindhold.model.errors import ModelAway, ModelDenied, ModelError
from mindhold.providers.llm.patient import Asked
from mindhold.providers.llm.processes import Ran
from mindhold.providers.remote.line import document_of
from mindhold.providers.remote.patience import LONGEST_HOLD

_DENIED = (401, 402, 403)
_GEMINI_DENIED = 41  # the status that it ends with when nobody is logged in
# A call of a program that runs inside another conversation must not take itself for a part of it.
_INSIDE = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
)
_FOR_THOUGHT = 1_000  # tokens, since it can't be told not to think first
_NO_TOOLS = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'
# Read from the folder that it runs in: no tools, no hooks, and no more than its last conversation kept.
_GEMINI_SETTINGS: Mapping[str, Any] = {
    "tools": {"core": []},
    "hooksConfig": {"enabled": False},
    "general": {"sessionRetention": {"enabled": True, "maxAge": "1d", "maxCount": 1}},
}


@dataclass(frozen=True, slots=True)
class Told:
    """Arguments and variables of one call. `optional` are flags, with their values, that older versions don't know."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    optional: tuple[tuple[str, ...], ...] = ()


class Unanswered(Exception):
    """The program ran, and gave no answer; `holds` is as a Fault has it."""

    def __init__(self, error: ModelError, *, holds: float | None = 0.0) -> None:
        super().__init__(error.message)
        self.error = error
        self.holds = holds


@dataclass(frozen=True, slots=True)
class Program:
    """`tell` writes what a call needs into the folder it runs in; `read` raises Unanswered, ValueError."""

    title: str
    command: str
    usual: str
    tell: Callable[[Asked, str, Path], Told]
    read: Callable[[Ran], str]
    key: str  # the variable of the key that is its own
    advice: str


def environment(program: Program, environ: Mapping[str, str], *, key: str) -> dict[str, str]:
    """What the program may know of ours: its own key, and no other's."""
    others = {each.key for each in PROGRAMS.values()} - {program.key}
    kept = {name: value for name, value in environ.items() if name not in others and name not in _INSIDE}
    return kept | {program.key: key} if key else kept


def _tell_claude(asked: Asked, model: str, folder: Path) -> Told:
    return Told(
        (
            *("-p", "--output-format", "json", "--model", model),
            *("--tools", "", "--strict-mcp-config", "--settings", '{"disableAllHooks": true}'),
            *("--system-prompt-file", _written(folder, asked.system).name),
        ),
        {
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(asked.most_tokens + _FOR_THOUGHT),
            "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MAX_THINKING_TOKENS": "0",
        },
        (("--no-session-persistence",), ("--disable-slash-commands",), ("--effort", "low")),
    )


def _read_claude(ran: Ran) -> str:
    document = document_of(ran.out)
    if isinstance(document, list) and document:  # with every message, where it is told to be verbose
        document = document[-1]
    if not isinstance(document, dict) or document.get("type") != "result":
        raise ValueError("it is no result")
    said, status = document.get("result"), document.get("api_error_status")
    if document.get("is_error") or document.get("subtype") != "success":
        told = said if isinstance(said, str) and said else str(document.get("subtype"))
        raise _refused("Claude Code", told, status=status if isinstance(status, int) else 0)
    if document.get("stop_reason") == "max_tokens":
        raise Unanswered(ModelError("Claude Code gave no answer: it was cut off."), holds=None)
    return said if isinstance(said, str) else ""


def _tell_gemini(asked: Asked, model: str, folder: Path) -> Told:
    _keep(folder / "no-tools.toml", _NO_TOOLS)
    (folder / ".gemini").mkdir(mode=0o700, exist_ok=True)
    _keep(folder / ".gemini" / "settings.json", json.dumps(_GEMINI_SETTINGS))
    return Told(
        (
            *("-p", "", "--output-format", "json", "--model", model),
            *("--skip-trust", "--extensions", "none", "--policy", "no-tools.toml"),
            *("--allowed-mcp-server-names", "none"),
        ),
        {"GEMINI_SYSTEM_MD": str(_written(folder, asked.system)), "NO_COLOR": "1"},
    )


def _read_gemini(ran: Ran) -> str:
    """Errors come on either stream, after warnings."""
    for said in (ran.out, ran.err):
        with suppress(ValueError):
            document = document_of(said[said.index("{") :])
            if not isinstance(document, dict):
                continue
            if error := document.get("error"):
                words = error.get("message") if isinstance(error, dict) else error
                denied = 401 if ran.status == _GEMINI_DENIED else 0
                raise _refused("Gemini CLI", str(words), status=denied)
            if isinstance(document.get("response"), str):
                return str(document["response"])
    raise ValueError("it is no response")


def _refused(title: str, words: str, *, status: int) -> Unanswered:
    if status in _DENIED:
        return Unanswered(ModelDenied(f"{title} is not let in."), holds=LONGEST_HOLD)
    if status == 429 or status >= 500:
        return Unanswered(ModelAway(f"{title} gets no answer for now."))
    return Unanswered(ModelError(f"{title} gave no answer: {words}"))


def _written(folder: Path, system: str) -> Path:
    """The file with what the model is told to be; the same for every call that says the same."""
    path = folder / f"system-{sha256(system.encode()).hexdigest()[:16]}.md"
    _keep(path, system)
    return path


def _keep(path: Path, content: str) -> None:
    """Whole at any moment, also if another process does the same."""
    with suppress(OSError, UnicodeDecodeError):
        if path.read_text(encoding="utf-8") == content:
            return
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(content, encoding="utf-8")
    partial.replace(path)


PROGRAMS = {
    "claude_cli": Program(
        "Claude Code",
        "claude",
        "haiku",
        _tell_claude,
        _read_claude,
        key="ANTHROPIC_API_KEY",
        advice="Run `claude` once by hand: it may want a login or an update.",
    ),
    "gemini_cli": Program(
        "Gemini CLI",
        "gemini",
        "gemini-2.5-flash",
        _tell_gemini,
        _read_gemini,
        key="GEMINI_API_KEY",
        advice="Run `gemini` once by hand: it may want a login or an update; or set llm.gemini_key.",
    ),
}
