"""What the environment and the marks in a text say: the home folder, the project, and whether to capture."""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping


_ENABLED, _EXCLUDE, _AGENT = "MINDHOLD_CAPTURE_ENABLED", "MINDHOLD_CAPTURE_EXCLUDE", "MINDHOLD_AGENT"
_NO = ("false", "0", "no", "off")
OWN_CALL = ("MINDHOLD_EXTRACTING", "MINDHOLD_SKIP")  # set for programs that Mindhold itself asks


def home(environ: Mapping[str, str] | None = None, given: str = "") -> str:
    """The home folder, as the settings have it: what is given, MINDHOLD_HOME, ~/.mindhold."""
    environ = os.environ if environ is None else environ
    chosen = given or environ.get("MINDHOLD_HOME") or os.path.join("~", ".mindhold")
    return os.path.abspath(os.path.expanduser(chosen))


def skipped(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a hook is to do nothing: it was fired by a call of our own, or the person said so."""
    environ = os.environ if environ is None else environ
    return any(environ.get(name) for name in OWN_CALL)


def agent(environ: Mapping[str, str] | None = None) -> str:
    """Whose conversation it is, where MINDHOLD_AGENT says so; nothing where it doesn't: then the home's own."""
    environ = os.environ if environ is None else environ
    return environ.get(_AGENT, "")


def project_dir(environ: Mapping[str, str] | None = None, cwd: str = "") -> str:
    """Where the client was started; a command in the conversation may have gone elsewhere since. Nothing if nobody knows."""
    environ = os.environ if environ is None else environ
    started = environ.get("CLAUDE_PROJECT_DIR", "")
    if started and os.path.isdir(started):
        return started
    try:
        return cwd or os.getcwd()
    except OSError:  # it was removed meanwhile
        return ""


def captures(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the environment lets its conversations be captured; the home's settings may say no as well."""
    environ = os.environ if environ is None else environ
    return environ.get(_ENABLED, "").strip().lower() not in _NO


def excluded(environ: Mapping[str, str] | None = None) -> str:
    """The folders that the environment leaves out, as the setting has them."""
    environ = os.environ if environ is None else environ
    return environ.get(_EXCLUDE, "")


def silence_runtime() -> None:
    """Before ONNX Runtime is imported: it counts its runs for its maker else, with an id of this machine, and sends that."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def for_worker(home: str) -> dict[str, str]:
    """The environment of a worker for that home: without what holds for the conversations of this environment alone,
    for the worker does those of others too. Their events bring it along."""
    kept = {name: value for name, value in os.environ.items() if name not in (_AGENT, _ENABLED, _EXCLUDE)}
    return {**kept, "MINDHOLD_HOME": home}


OWN_CALL_MARK = "[mindhold: own call]"  # a line of every prompt of ours to a language model
SKIP_MARK = "[skip-hook]"  # written by a person


def has_skip_mark(*texts: object) -> bool:
    """Whether one of them bears a mark."""
    return any(isinstance(text, str) and (SKIP_MARK in text or OWN_CALL_MARK in text) for text in texts)
