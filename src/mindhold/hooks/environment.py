"""What the environment and marks in a text say: the home folder, the project, and whether to capture."""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping


_ENABLED, _EXCLUDE, _AGENT = "MINDHOLD_CAPTURE_ENABLED", "MINDHOLD_CAPTURE_EXCLUDE", "MINDHOLD_AGENT"
_NO = ("false", "0", "no", "off")
OWN_CALL = ("MINDHOLD_EXTRACTING", "MINDHOLD_SKIP")  # set for programs that Mindhold itself calls


def home_folder(environ: Mapping[str, str] = os.environ, override: str = "") -> str:
    """The home folder: `override`, else MINDHOLD_HOME, else ~/.mindhold."""
    path = override or environ.get("MINDHOLD_HOME") or os.path.join("~", ".mindhold")
    return os.path.abspath(os.path.expanduser(path))


def is_skipped(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a hook does nothing: one of our own calls triggered it, or the user said so."""
    return any(environ.get(name) for name in OWN_CALL)


def agent_name(environ: Mapping[str, str] = os.environ) -> str:
    """The agent that MINDHOLD_AGENT names; empty means the default agent of the home."""
    return environ.get(_AGENT, "")


def project_dir(environ: Mapping[str, str] = os.environ, cwd: str = "") -> str:
    """The folder where the client was started, which a command may have left since; empty if unknown."""
    start_folder = environ.get("CLAUDE_PROJECT_DIR", "")
    if start_folder and os.path.isdir(start_folder):
        return start_folder
    try:
        return cwd or os.getcwd()
    except OSError:  # the folder was removed meanwhile
        return ""


def capture_enabled(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment allows capture; the home's settings may still forbid it."""
    return environ.get(_ENABLED, "").strip().lower() not in _NO


def excluded_folders(environ: Mapping[str, str] = os.environ) -> str:
    """The folders that the environment excludes from capture, in the form of the setting."""
    return environ.get(_EXCLUDE, "")


def silence_runtime() -> None:
    """Turn off the telemetry of ONNX Runtime; call it before the import."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def worker_environment(home: str) -> dict[str, str]:
    """The environment of a worker for that home.

    It lacks the variables of this conversation, because the worker handles others too; events carry those variables.
    """
    shared = {name: value for name, value in os.environ.items() if name not in (_AGENT, _ENABLED, _EXCLUDE)}
    return {**shared, "MINDHOLD_HOME": home}


OWN_CALL_MARK = "[mindhold: own call]"  # a line in each of our prompts to a language model
SKIP_MARK = "[skip-hook]"  # written by a user


def has_skip_mark(*texts: object) -> bool:
    """Whether one of the texts contains a mark."""
    return any(isinstance(text, str) and (SKIP_MARK in text or OWN_CALL_MARK in text) for text in texts)
