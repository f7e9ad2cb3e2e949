"""What a tool said as it failed, in whatever form the client hands it on."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CODES = ("exit_code", "exitCode", "returncode", "returnCode", "return_code", "status_code")
_SAID = ("error", "stderr", "stdout", "output", "content", "message", "text", "result")
_MASKING = ("|", ";")  # after these a command's status is that of another one
_WORDS = ("error", "fail", "traceback", "exception", "panic", "fatal", "not found", "denied", "refused")
_LONGEST = 200_000


def failure_of(event: str, given: dict[str, Any]) -> str:
    """What was said, or nothing: no failure, a tool that a person stopped, or one that says nothing."""
    if given.get("is_interrupt"):
        return ""
    if event == "PostToolUseFailure":
        return (_text(given.get("error")) or _text(given.get("tool_response")))[:_LONGEST]
    response = given.get("tool_response")
    if isinstance(response, dict) and response.get("interrupted"):
        return ""
    said = _text(response)[:_LONGEST]
    return said if _failed(response, said) or _masked(given.get("tool_input"), response, said) else ""


def _failed(response: Any, said: str) -> bool:
    if isinstance(response, dict):
        if response.get("is_error") or response.get("isError") or response.get("error"):
            return True
        if response.get("success") is False:
            return True
        return any(response.get(name) not in (None, 0, "0", "") for name in _CODES if name in response)
    if isinstance(response, list):
        return any(isinstance(one, dict) and (one.get("is_error") or one.get("isError")) for one in response)
    return said.startswith(("Error:", "Exit code ")) and not said.startswith("Exit code 0")


def _masked(asked: Any, response: Any, said: str) -> bool:
    """A command whose own status was lost on the way, and that speaks of failure."""
    command = asked.get("command") if isinstance(asked, dict) else None
    if not isinstance(command, str) or not isinstance(response, dict):
        return False
    lowered = said.lower()
    return any(mark in command for mark in _MASKING) and any(word in lowered for word in _WORDS)


def _text(value: Any, depth: int = 0) -> str:
    """All that it says."""
    if isinstance(value, str):
        return value
    if depth > 4:
        return ""
    if isinstance(value, dict):
        parts = [_text(value[name], depth + 1) for name in _SAID if name in value]
    elif isinstance(value, list):
        parts = [_text(one, depth + 1) for one in value]
    else:
        return ""
    return "\n".join(part for part in parts if part)
